/** Errors of calls, from those of gRPC. */
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { Code, ConnectError } from "@connectrpc/connect";
import { backoff, CallError, isTransient, type Sleep } from "../errors";
import { ViewerError } from "../model";

const kNames: ReadonlyMap<Code, string> = new Map([
  [Code.Canceled, "cancelled"], [Code.Unknown, "unknown"], [Code.InvalidArgument, "invalid_argument"],
  [Code.DeadlineExceeded, "deadline_exceeded"], [Code.NotFound, "not_found"], [Code.AlreadyExists, "already_exists"],
  [Code.PermissionDenied, "permission_denied"], [Code.ResourceExhausted, "resource_exhausted"],
  [Code.FailedPrecondition, "failed_precondition"], [Code.Aborted, "aborted"], [Code.OutOfRange, "out_of_range"],
  [Code.Unimplemented, "unimplemented"], [Code.Internal, "internal"], [Code.Unavailable, "unavailable"],
  [Code.DataLoss, "data_loss"], [Code.Unauthenticated, "unauthenticated"],
]);

/** The server's message contradicts the protocol. */
export function badAnswer(text: string): CallError {
  return new CallError("internal", `the server's answer is wrong: ${text}; reload the page, it may be of another version`);
}

const kLongestWait = 60_000;

/** google.rpc.RetryInfo: field 1 is a google.protobuf.Duration of seconds (1) and nanoseconds (2). [ms] */
function retryDelay(bytes: Uint8Array, depth = 0): number {
  const reader = new BinaryReader(bytes);
  let ms = 0;
  while (reader.pos < reader.len) {
    const [number, wire] = reader.tag();
    if (depth === 0 && number === 1 && wire === WireType.LengthDelimited) ms = retryDelay(reader.bytes(), 1);
    else if (depth === 1 && number === 1 && wire === WireType.Varint) ms += Number(reader.int64()) * 1000;
    else if (depth === 1 && number === 2 && wire === WireType.Varint) ms += reader.int32() / 1e6;
    else reader.skip(wire);
  }
  return ms;
}

function retryInfo(error: ConnectError): number | null {
  try {
    for (const detail of error.details) {
      if ("type" in detail && detail.type === "google.rpc.RetryInfo" && detail.value instanceof Uint8Array) {
        return Math.min(Math.max(0, retryDelay(detail.value)), kLongestWait);
      }
    }
  } catch {
    // Unreadable details are ignored.
  }
  return null;
}

/** When to ask again, if the server says so. [ms] */
function pushback(error: ConnectError): number | null {
  const text = error.metadata.get("grpc-retry-pushback-ms");
  const value = text === null || text === "" ? NaN : Number(text);
  return value >= 0 ? Math.min(value, kLongestWait) : retryInfo(error);
}

/** A broken connection has no code of gRPC: fetch throws a TypeError, or the stream ends without trailers. */
function isConnection(error: ConnectError): boolean {
  if (error.code !== Code.Unknown && error.code !== Code.Internal) return false;
  const texts = /missing trailer|premature|failed to fetch|network|terminated/i;
  return error.cause instanceof TypeError || texts.test(error.rawMessage);
}

export function toViewerError(reason: unknown): ViewerError {
  if (reason instanceof ViewerError) return reason;
  const error = ConnectError.from(reason);
  if (error.cause instanceof ViewerError) return error.cause;
  if (isConnection(error)) {
    return new CallError("unavailable", `the connection to the server broke (${error.rawMessage}); look whether it runs`);
  }
  return new CallError(kNames.get(error.code) ?? "unknown", error.rawMessage, pushback(error));
}

/** Repeats a call that the server is too busy for, or cannot be reached for. */
export async function withRetries<T>(call: () => Promise<T>, retries: number, wait: Sleep, signal?: AbortSignal): Promise<T> {
  for (let attempt = 0; ; ++attempt) {
    try {
      return await call();
    } catch (reason) {
      const error = toViewerError(reason);
      if (signal?.aborted || attempt >= retries || !isTransient(error)) throw error;
      await wait(backoff(attempt, error), signal);
    }
  }
}
