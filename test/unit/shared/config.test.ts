import { describe, expect, it } from "vitest";
import { ENV, modes, parseDuration, platforms, transports } from "../../../shared/config.ts";

describe("parseDuration", () => {
  it.each([
    ["250ms", 250],
    ["3s", 3000],
    ["10m", 600_000],
    ["1h", 3_600_000],
    ["24h", 86_400_000],
    ["1.5s", 1500],
    ["0.25m", 15_000],
    ["7", 7000],
    ["0", 0],
    [" 2s ", 2000],
    ["2147483647ms", 2 ** 31 - 1],
  ])("%s is %i ms", (text, ms) => {
    expect(parseDuration("--timeout", text)).toBe(ms);
  });

  it.each([
    "",
    "s",
    "-1s",
    "1d",
    "1 s",
    "1e3",
    "1.s",
    ".5s",
    "Infinity",
    "NaN",
    "3S",
    "1s1ms",
    "0x10",
    "2147483648ms",
    "597h",
  ])("refuses %o, naming the option", (text) => {
    expect(() => parseDuration("--timeout", text)).toThrow(
      expect.objectContaining({
        code: "ERR_USAGE",
        message: `--timeout: ${JSON.stringify(text)} is no duration of at most 24 days; write 250ms, 3s, 10m or 1h`,
      }),
    );
  });
});

describe("a least duration", () => {
  it.each(["1ms", "0.6ms", "1s"])("takes %s", (text) => {
    expect(parseDuration("--timeout", text, 1)).toBeGreaterThanOrEqual(1);
  });

  it.each(["0", "0s", "0.4ms"])("refuses %s and says what is allowed", (text) => {
    const message = `--timeout: ${JSON.stringify(text)} is too short; at least 1ms`;
    expect(() => parseDuration("--timeout", text, 1)).toThrow(expect.objectContaining({ code: "ERR_USAGE", message }));
  });
});

describe("settings", () => {
  it("name what the documentation names", () => {
    expect(Object.keys(platforms)).toEqual(["a2a3sim", "a5sim"]);
    expect(modes).toEqual(["hand", "builtin", "host"]);
    expect(transports).toEqual(["auto", "tcp", "unix", "inproc"]);
  });

  it("have environment variables of their own, all under RANKWISE_", () => {
    const names = Object.values(ENV);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(name).toMatch(/^RANKWISE_[A-Z_]+$/u);
  });
});
