/** The pairs of the URL's hash: key=value joined by "&", as readable as a link can be. */

export type Pair = readonly [key: string, value: string];

/** Links are shorter. A longer hash is not ours, and not worth reading. */
const kMostHash = 16_384;

/** Characters that a fragment may hold as they are, and that names and numbers often have. */
export function encodeText(text: string): string {
  const whole = text.replace(/\p{Surrogate}/gu, "\ufffd");
  return encodeURIComponent(whole).replace(/%(2F|2C|3A|40|3B)/g, (code) => decodeURIComponent(code));
}

/** Null: no text. */
export function decodeText(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** Pairs as they are written, not decoded. */
export function splitHash(hash: string): Pair[] {
  const text = hash.replace(/^#/, "");
  if (text.length > kMostHash) return [];
  return text.split("&").filter((part) => part !== "").map((part): Pair => {
    const at = part.indexOf("=");
    return at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
  });
}

export function joinHash(pairs: readonly Pair[]): string {
  return pairs.length === 0 ? "" : `#${pairs.map(([key, value]) => (value === "" ? key : `${key}=${value}`)).join("&")}`;
}
