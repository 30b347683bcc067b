export { BrickStore, type StoreOptions } from "./store";
export { defaultBudget } from "./memory";
export { kIdle, kTransitions, messageOf, transition, type LoadEvent, type Phase } from "./load_state";
export { boxText, levelBox, patchBox, patchCounts, patchNumber, patchPosition } from "./geometry";
