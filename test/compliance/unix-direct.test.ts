import { complianceSuite } from "./suite.ts";

complianceSuite("unix direct", 1);
