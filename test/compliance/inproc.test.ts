import { complianceSuite } from "./suite.ts";

complianceSuite("inproc", 20);
