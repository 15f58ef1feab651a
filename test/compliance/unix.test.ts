import { complianceSuite } from "./suite.ts";

complianceSuite("unix", 1);
