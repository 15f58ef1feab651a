import { complianceSuite } from "./suite.ts";

complianceSuite("tcp", 1);
