import { expect, it } from "vitest";
import { takeOut } from "../../../rank/list.ts";

it.each([
  ["the last", "c", ["a", "b"]],
  ["one before it", "a", ["b", "c"]],
  ["none that is not there", "x", ["a", "b", "c"]],
])("takes out %s", (_, item, left) => {
  const list = ["a", "b", "c"];
  takeOut(list, item);
  expect(list).toEqual(left);
});
