import { complianceSuite } from "./suite.ts";

complianceSuite("tcp direct", 1);
