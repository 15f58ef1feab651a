import { complianceSuite } from "./suite.ts";

// 240 handshakes for each guarantee would take longer than all other transports together
complianceSuite("tls direct", 1, 1);
