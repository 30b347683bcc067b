/** The token of this page: given once in the address as #token=, then kept for the tab alone. Never part of a link. */
const kKey = "quarry-token";

interface Page {
  readonly location: Pick<Location, "hash" | "pathname" | "search">;
  readonly history: Pick<History, "replaceState" | "state">;
  readonly sessionStorage: Pick<Storage, "getItem" | "setItem" | "removeItem">;
}

/** Header values are printable; anything else would make every call fail in an obscure way. */
function isToken(text: string): boolean {
  return /^[\x21-\x7e]{1,4096}$/.test(text);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

/** The hash without its token. */
export function withoutToken(hash: string): string {
  const parts = hash.replace(/^#/, "").split("&").filter((part) => part !== "" && !part.startsWith("token="));
  return parts.length === 0 ? "" : `#${parts.join("&")}`;
}

function store(page: Page, token: string): void {
  try {
    if (token === "") page.sessionStorage.removeItem(kKey);
    else page.sessionStorage.setItem(kKey, token);
  } catch {
    // Storage may be switched off: then the token lasts as long as the page.
  }
}

/** Takes the token out of the address bar, or finds the one of this tab. */
export function takeToken(page: Page): string | null {
  const given = page.location.hash.replace(/^#/, "").split("&").find((part) => part.startsWith("token="));
  if (given !== undefined) {
    const token = decoded(given.slice("token=".length));
    const { pathname, search, hash } = page.location;
    page.history.replaceState(page.history.state, "", pathname + search + withoutToken(hash));
    const good = isToken(token);
    store(page, good ? token : "");
    return good ? token : null;
  }
  try {
    const kept = page.sessionStorage.getItem(kKey);
    return kept !== null && isToken(kept) ? kept : null;
  } catch {
    return null;
  }
}

/** Keeps a token that the user has typed. */
export function keepToken(page: Page, token: string): boolean {
  if (!isToken(token)) return false;
  store(page, token);
  return true;
}
