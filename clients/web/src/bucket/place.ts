/** Where a dataset lies that is read without a Quarry server. */
import { ViewerError } from "../model";

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** Names of objects, as they are, below an origin. */
export class Place {
  private constructor(readonly origin: string, readonly root: string) {}

  /**
   * @param page  the address of the page
   * Throws a ViewerError that says what is wrong with the address.
   */
  static of(dataset: string, page: Pick<URL, "protocol" | "host">): Place {
    const refuse = (why: string): never => { throw new ViewerError("invalid_argument", why); };
    if (/^s3:/i.test(dataset)) {
      refuse(`"${dataset}": a page reads buckets by their https address, such as https://BUCKET.s3.REGION.amazonaws.com/NAME.quarry`);
    }
    let url: URL;
    try {
      url = new URL(dataset);
    } catch {
      return refuse(`"${dataset}" is no address; it begins with https://`);
    }
    if (url.protocol !== "https:" && url.protocol !== "http:") refuse(`"${dataset}" cannot be read; only https:// can`);
    if (url.username !== "" || url.password !== "") refuse("an address with a password is not taken: links are passed on");
    if (url.search !== "" || url.hash !== "") {
      refuse(`the address of a dataset ends with its name, without "?" and what comes behind it: whoever gets a link would have the signature as well`);
    }
    // Anybody on the way could change what comes by plain http; so could they with the page, if it came so itself.
    const plain = url.protocol === "http:" && !isLoopback(url.hostname) && !(page.protocol === "http:" && page.host === url.host);
    if (plain) refuse(`"${dataset}" has no TLS, and is read only where the page itself comes from; give an https:// address`);
    return new Place(url.origin, url.origin + decoded(url.pathname).replace(/\/+$/, ""));
  }

  /** The address of an object. @param path  begins with the root */
  address(path: string): string {
    return this.origin + path.slice(this.origin.length).split("/").map(encodeURIComponent).join("/");
  }
}
