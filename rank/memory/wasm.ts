/** The parts of WebAssembly that the arena and its kernels use: Node's types leave them to those of browsers. */

/** Memory of a fixed size whose buffer is one object for life. */
export interface SharedMemory {
  readonly buffer: SharedArrayBuffer;
}

interface Platform {
  readonly Memory: new (descriptor: { initial: number; maximum: number; shared: true }) => SharedMemory;
  readonly Module: new (binary: Uint8Array) => object;
  readonly Instance: new (
    module: object,
    imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
  ) => { readonly exports: Readonly<Record<string, unknown>> };
}

export const { Memory, Module, Instance } = (globalThis as unknown as { readonly WebAssembly: Platform }).WebAssembly;
