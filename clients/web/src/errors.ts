/** Errors that are shown, which of them are worth another try, and when. */
import { ViewerError } from "./model";

/** Any thrown value, as an error with a code. */
export function asViewerError(reason: unknown): ViewerError {
  return reason instanceof ViewerError ? reason : new ViewerError("unknown", String(reason));
}

/** The message of a thrown value. */
export function errorText(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}

/** A server's errors do not fill the page. */
const kMostText = 1024;

/** An error with the server's advice on when to ask again. */
export class CallError extends ViewerError {
  constructor(code: string, message: string, readonly retryAfter: number | null = null) {
    super(code, message.slice(0, kMostText));
  }
}

/** The server cannot be reached or has no room now: the same question may be answered later. */
export function isTransient(error: ViewerError): boolean {
  if (error.code === "unavailable" || error.code === "aborted" || error.code === "deadline_exceeded") return true;
  return error.code === "resource_exhausted" && error instanceof CallError && isBusy(error);
}

function isBusy(error: CallError): boolean {
  return error.retryAfter !== null || /too many|\blater\b|again when|out of memory/i.test(error.message);
}

/** [ms] before try number `attempt`, from 0 on. */
export function backoff(attempt: number, error: ViewerError | null, random: () => number = Math.random): number {
  const asked = error instanceof CallError ? (error.retryAfter ?? 0) : 0;
  const base = Math.min(30_000, 250 * 2 ** Math.min(attempt, 10));
  return Math.max(asked, base * (0.75 + 0.5 * random()));
}

export type Sleep = (ms: number, signal: AbortSignal | undefined) => Promise<void>;

/** Waits; throws when the signal is aborted. */
export const sleep: Sleep = (ms, signal) =>
  new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(new CallError("cancelled", "cancelled"));
      return;
    }
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(new CallError("cancelled", "cancelled"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
