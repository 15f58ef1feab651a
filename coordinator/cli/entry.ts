/** Entry of the command: heeds signals, and only then loads all else, which takes a while. */
import "./signals.ts";

await import("./main.ts");
