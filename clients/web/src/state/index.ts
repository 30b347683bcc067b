export { Address, type AddressPage } from "./address";
export { getCommand, grpcAddress, type OnScreen, pythonCommand, shellWord } from "./commands";
export { completeLink, type Completed, formatLink, type Link, type LinkValues, parseLink } from "./link";
