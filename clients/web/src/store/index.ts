export { BrickStore, type StoreOptions } from "./store";
export { defaultBudget } from "./memory";
export { kIdle, kTransitions, messageOf, transition, type LoadEvent, type Phase } from "./load_state";
export { boxText, gridBox, intersect, isEmpty, levelBox, patchBox, patchCounts, patchesMeeting, patchNumber, patchPosition, shapeOf,
         sizeOf, volume } from "./geometry";
export { startLevel } from "./needs";
