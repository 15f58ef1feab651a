import { expect, test } from "vitest";
import { runGroups } from "../helpers/groups.ts";

// a hundred of each are the campaign `groups`
test("10 groups one after another leave no process, socket, file or port", { timeout: 60_000 }, async () => {
  for (let run = 0; run < 10; run++) await expect(runGroups(1)).resolves.toBeUndefined();
});

test("5 groups at once do not meet", { timeout: 60_000 }, async () => {
  await expect(runGroups(5)).resolves.toBeUndefined();
});
