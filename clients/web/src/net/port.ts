/** Facts that the page cannot see in its own address: the server's port of gRPC. */

/** Null: the server does not say, or something in front of it answers. */
export async function askGrpcPort(baseUrl: string, fetch: typeof globalThis.fetch = globalThis.fetch.bind(globalThis)): Promise<number | null> {
  try {
    const response = await fetch(`${baseUrl}/server.json`);
    if (!response.ok) return null;
    const said = await response.json() as { grpc_port?: unknown } | null;
    return isPort(said?.grpc_port) ? said.grpc_port : null;
  } catch {
    return null;
  }
}

function isPort(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value > 0 && value < 65536;
}
