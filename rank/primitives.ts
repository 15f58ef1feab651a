/** How a notify changes a peer's cell. */
export const NotifyOp = { Set: "set", AtomicAdd: "atomic_add" } as const;
export type NotifyOp = (typeof NotifyOp)[keyof typeof NotifyOp];

/** How a wait compares its own cell with the expected value. */
export const WaitCmp = { Eq: "eq", Ge: "ge" } as const;
export type WaitCmp = (typeof WaitCmp)[keyof typeof WaitCmp];
