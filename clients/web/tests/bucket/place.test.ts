/** Addresses of datasets: which are read, and how names become requests. */
import { describe, expect, it } from "vitest";
import { Place } from "../../src/bucket/place";
import { isAddress } from "../../src/model";

const kPage = { protocol: "https:", host: "viewer.example.org" };

describe("an address", () => {
  it.each([["https://a/b.quarry", true], ["s3://b/c", true], ["HTTP://a/b", true], ["run42", false], ["folder/run42", false], ["a: b//c", false]])(
    "%s: %s", (name, is) => { expect(isAddress(name)).toBe(is); });

  it("has names as they are, and escapes them in requests", () => {
    const place = Place.of("https://data.example.org/a%20b/100%25.quarry/", kPage);
    expect(place.root).toBe("https://data.example.org/a b/100%.quarry");
    expect(place.address(`${place.root}/steps/000000/u+v #1?/0000.qsf`)).toBe("https://data.example.org/a%20b/100%25.quarry/steps/000000/u%2Bv%20%231%3F/0000.qsf");
  });

  it.each([
    ["https://data.example.org/run.quarry?X-Amz-Signature=1", "whoever gets a link"],
    ["https://data.example.org/run.quarry#x", "whoever gets a link"],
    ["https://user:secret@data.example.org/run.quarry", "password"],
    ["s3://bucket/run.quarry", "https address"],
    ["ftp://data.example.org/run.quarry", "only https://"],
    ["http://data.example.org/run.quarry", "has no TLS"],
    ["https://", "is no address"],
  ])("%s is refused", (address, why) => {
    expect(() => Place.of(address, kPage)).toThrow(why);
  });

  it("without TLS is of this machine, or of where a page without TLS comes from", () => {
    for (const host of ["127.0.0.1:9000", "localhost:9000", "[::1]:9000"]) expect(Place.of(`http://${host}/run.quarry`, kPage).origin).toBe(`http://${host}`);
    const page = { protocol: "http:", host: "lab:8080" };
    expect(Place.of("http://lab:8080/run.quarry", page).origin).toBe("http://lab:8080");
    expect(() => Place.of("http://other:8080/run.quarry", page)).toThrow("has no TLS");
    expect(() => Place.of("http://lab:8080/run.quarry", { ...page, protocol: "https:" })).toThrow("has no TLS");
  });
});
