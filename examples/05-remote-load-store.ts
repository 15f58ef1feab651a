/**
 * Remote load and store: a matrix moves tile by tile, and its sides are no multiples of a tile's.
 *
 * Each rank loads the tiles of the next rank's matrix and stores them at the previous rank, which thereby gets the
 * matrix of the rank after the next.
 */
import type { Comm } from "rankwise";

const [ROWS, COLS] = [10, 12];
const [TILE_ROWS, TILE_COLS] = [4, 8];
// A store has no valid shape: it writes all of its tile. So the target is made of whole tiles.
const PADDED = [TILE_ROWS * Math.ceil(ROWS / TILE_ROWS), TILE_COLS * Math.ceil(COLS / TILE_COLS)];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const next = (rank + 1) % nranks;
  const previous = (rank - 1 + nranks) % nranks;
  const matrix = await comm.window("matrix", "float32", [ROWS, COLS]);
  const passed = await comm.window("passed", "float32", PADDED);
  const credits = await comm.signal("credits", [nranks, 1]);

  for (let i = 0; i < ROWS * COLS; i++) matrix.local.array[i] = encode(rank, Math.floor(i / COLS), i % COLS);
  await comm.barrier(credits); // every matrix is there

  for (let row = 0; row < ROWS; row += TILE_ROWS) {
    for (let col = 0; col < COLS; col += TILE_COLS) {
      // At the lower and right edge only a part of the tile lies in the matrix; the rest of it is zero.
      const validShape = [Math.min(TILE_ROWS, ROWS - row), Math.min(TILE_COLS, COLS - col)];
      const tile = await matrix.remoteLoad(next, [row, col], [TILE_ROWS, TILE_COLS], { validShape });
      await passed.remoteStore(previous, [row, col], tile);
    }
  }
  await comm.barrier(credits); // its credits came behind the stores: every tile is there

  const inside = (row: number, col: number): boolean => row < ROWS && col < COLS;
  const source = (rank + 2) % nranks;
  await comm.check(passed, (row, col) => (inside(row, col) ? encode(source, row, col) : 0), { decode });
}

function encode(rank: number, row: number, col: number): number {
  return 1000 * (rank + 1) + 20 * row + col;
}

function decode(value: number | bigint): string | undefined {
  const number = Number(value);
  if (number === 0) return "padding, or nothing yet";
  const [row, col] = [Math.floor((number % 1000) / 20), number % 20];
  const known = Number.isInteger(number) && number >= 1000 && row < ROWS && col < COLS;
  return known ? `rank ${Math.floor(number / 1000) - 1}'s element [${row}, ${col}]` : undefined;
}
