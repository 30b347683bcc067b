import { describe, expect, it } from "vitest";
import { askGrpcPort } from "../../src/net/port";

function answering(body: string, status = 200): typeof globalThis.fetch {
  return (input) => Promise.resolve(input === "http://cluster:8080/server.json" ? new Response(body, { status }) : new Response("", { status: 404 }));
}

describe("the port of gRPC", () => {
  it("is what the server says", async () => {
    expect(await askGrpcPort("http://cluster:8080", answering('{"grpc_port": 41234}\n'))).toBe(41234);
  });

  it("is not known where something else answers, or nothing", async () => {
    for (const body of ["<!doctype html>", "", "null", "[]", "7", "{}", '{"grpc_port": "41234"}', '{"grpc_port": 0}', '{"grpc_port": 65536}', '{"grpc_port": 1.5}']) {
      expect(await askGrpcPort("http://cluster:8080", answering(body)), body).toBeNull();
    }
    expect(await askGrpcPort("http://cluster:8080", answering('{"grpc_port": 41234}', 404))).toBeNull();
    expect(await askGrpcPort("http://cluster:8080", () => Promise.reject(new TypeError("no connection")))).toBeNull();
  });
});
