/** Takes an item out of a list that holds it once; the last one, which it mostly is, at once. */
export function takeOut<T>(list: T[], item: T): void {
  if (list.at(-1) === item) {
    list.pop();
    return;
  }
  const at = list.indexOf(item);
  if (at >= 0) list.splice(at, 1);
}
