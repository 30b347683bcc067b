/** Messages between the page and the worker that reads a dataset from a web server. */

export interface OpenRequest {
  readonly kind: "open";
  readonly url: string;
  /** Where the page comes from. */
  readonly page: { readonly protocol: string; readonly host: string };
}

export interface AskRequest {
  readonly kind: "ask";
  readonly id: number;
  readonly call: string;
  readonly request: Uint8Array;
}

export interface CancelRequest {
  readonly kind: "cancel";
  readonly id: number;
}

export type Request = OpenRequest | AskRequest | CancelRequest;

export interface MessageReply {
  readonly kind: "message";
  readonly id: number;
  readonly bytes: Uint8Array;
}

export interface EndReply {
  readonly kind: "end";
  readonly id: number;
  /** Null: all is well. */
  readonly error: { readonly code: string; readonly message: string } | null;
}

export type Reply = MessageReply | EndReply;
