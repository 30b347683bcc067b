/** Answers in a server's place, by WebAssembly: one module instance, with the functions of wasm/bucket/bucket.cc. */
import { ViewerError } from "../model";
import type { Came, KindOf } from "./ranges";

interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly _initialize: () => void;
  readonly bucket_allocate: (bytes: number) => number;
  readonly bucket_release: (begin: number) => void;
  readonly bucket_open: (url: number, size: number) => number;
  readonly bucket_begin: (dataset: number, call: number, callSize: number, request: number, requestSize: number) => number;
  readonly bucket_end: (question: number) => void;
  readonly bucket_ask: (question: number) => number;
  readonly bucket_status: (question: number) => number;
  readonly bucket_status_text: (question: number) => number;
  readonly bucket_next_message: (question: number) => number;
  readonly bucket_message: (question: number) => number;
  readonly bucket_wanted_count: (question: number) => number;
  readonly bucket_wanted: (question: number, number: number) => number;
  readonly bucket_supply: (question: number, kind: number, path: number, pathSize: number, offset: number, size: number, total: number,
                           tag: number, tagSize: number, bytes: number, bytesSize: number) => void;
  readonly bucket_fail: (question: number, path: number, pathSize: number, code: number, text: number, textSize: number) => void;
}

/** Names by the numbers of quarry::StatusCode. */
const CODES = ["ok", "cancelled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists", "permission_denied",
               "resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented", "internal", "unavailable", "data_loss"] as const;

/** Something that a question needs. */
export interface Need {
  readonly kind: KindOf;
  /** The question cannot go on without. */
  readonly awaited: boolean;
  readonly path: string;
  readonly offset: number;
  readonly size: number;
}

/** A number that lies in the module. */
export type Question = number & { readonly question: unique symbol };

const kText = new TextEncoder();

/** Methods throw ViewerErrors. After a trap `broken` is true, and the instance is good for nothing but to be dropped. */
export class BucketModule {
  broken = false;
  private readonly exports: Exports;
  private readonly dataset: number;

  /** @param root  address of the dataset, with its names as they are */
  constructor(module: WebAssembly.Module, root: string) {
    this.exports = new WebAssembly.Instance(module, this.imports(module)).exports as unknown as Exports;
    this.call(() => { this.exports._initialize(); });
    this.dataset = this.with([kText.encode(root)], ([url]) => this.exports.bucket_open(...url!));
  }

  /** The system that the libraries name: a clock, an empty environment, and no files. */
  private imports(module: WebAssembly.Module): WebAssembly.Imports {
    const view = (): DataView => new DataView(this.exports.memory.buffer);
    const system: Record<string, WebAssembly.ImportValue> = {
      clock_time_get: (_id: number, _precision: bigint, to: number) => {
        view().setBigUint64(to, BigInt(Math.round(performance.now() * 1e6)), true);
        return 0;
      },
      environ_sizes_get: (count: number, size: number) => {
        view().setUint32(count, 0, true);
        view().setUint32(size, 0, true);
        return 0;
      },
      environ_get: () => 0,
      fd_close: () => 0,
      fd_seek: () => 0,
      // Remarks of the libraries about bytes that are no text, which come as errors as well.
      fd_write: (_file: number, pieces: number, count: number, written: number) => {
        let size = 0;
        for (let i = 0; i < count; ++i) size += view().getUint32(pieces + 8 * i + 4, true);
        view().setUint32(written, size, true);
        return 0;
      },
      emscripten_notify_memory_growth: () => undefined,
    };
    const imports: WebAssembly.Imports = {};
    for (const { module: from, name } of WebAssembly.Module.imports(module))
      (imports[from] ??= {})[name] = system[name] ?? (() => { throw new Error(`${name} was called`); });
    return imports;
  }

  begin(call: string, request: Uint8Array): Question {
    return this.with([kText.encode(call), request], ([name, bytes]) =>
      this.exports.bucket_begin(this.dataset, ...name!, ...bytes!)) as Question;
  }

  end(question: Question): void {
    this.call(() => { this.exports.bucket_end(question); });
  }

  /** @returns whether the question has ended: otherwise it needs something */
  ask(question: Question): boolean {
    return this.call(() => this.exports.bucket_ask(question)) === 1;
  }

  /** Messages since the last call of `ask`, each once. */
  *messages(question: Question): Generator<Uint8Array, void, undefined> {
    for (;;) {
      const size = this.call(() => this.exports.bucket_next_message(question));
      if (size < 0) return;
      const begin = this.call(() => this.exports.bucket_message(question)) >>> 0;
      yield new Uint8Array(this.exports.memory.buffer.slice(begin, begin + size));
    }
  }

  /** Null: the answer is complete. */
  error(question: Question): ViewerError | null {
    const code = this.call(() => this.exports.bucket_status(question));
    return code === 0 ? null : new ViewerError(CODES[code] ?? "unknown", this.text(this.call(() => this.exports.bucket_status_text(question)) >>> 0));
  }

  needs(question: Question): Need[] {
    const count = this.call(() => this.exports.bucket_wanted_count(question));
    return Array.from({ length: count }, (_, i) => {
      const begin = this.call(() => this.exports.bucket_wanted(question, i)) >>> 0;
      const shown = new DataView(this.exports.memory.buffer, begin, 32);
      const [path, size] = [shown.getUint32(24, true), shown.getUint32(28, true)];
      return {
        kind: shown.getUint32(0, true) as KindOf, awaited: shown.getUint32(4, true) !== 0,
        offset: shown.getFloat64(8, true), size: shown.getFloat64(16, true),
        path: new TextDecoder().decode(new Uint8Array(this.exports.memory.buffer, path, size)),
      };
    });
  }

  supply(question: Question, { kind, path, offset, size }: Need, came: Came): void {
    this.with([kText.encode(path), kText.encode(came.tag), came.bytes], ([name, tag, bytes]) => {
      this.exports.bucket_supply(question, kind, ...name!, offset, size, came.total ?? -1, ...tag!, ...bytes!);
    });
  }

  fail(question: Question, path: string, error: ViewerError): void {
    const code = Math.max(2, CODES.findIndex((one) => one === error.code));
    this.with([kText.encode(path), kText.encode(error.message)], ([name, text]) => {
      this.exports.bucket_fail(question, ...name!, code, ...text!);
    });
  }

  private text(begin: number): string {
    const bytes = new Uint8Array(this.exports.memory.buffer);
    return new TextDecoder().decode(bytes.subarray(begin, bytes.indexOf(0, begin)));
  }

  /** Calls with copies of bytes in the module: places and sizes. */
  private with<T>(all: readonly Uint8Array[], use: (places: readonly (readonly [begin: number, size: number])[]) => T): T {
    const places = all.map((bytes) => {
      const begin = this.call(() => this.exports.bucket_allocate(bytes.length)) >>> 0;
      if (begin === 0) throw new ViewerError("resource_exhausted", "the page is out of memory; close other pages, or ask for less");
      new Uint8Array(this.exports.memory.buffer, begin, bytes.length).set(bytes);
      return [begin, bytes.length] as const;
    });
    try {
      return this.call(() => use(places));
    } finally {
      if (!this.broken) for (const [begin] of places) this.call(() => { this.exports.bucket_release(begin); });
    }
  }

  private call<T>(run: () => T): T {
    try {
      return run();
    } catch (reason) {
      if (reason instanceof ViewerError) throw reason;
      this.broken = true;
      throw new ViewerError("internal", `what reads the dataset broke (${String(reason)}); the next question begins anew`);
    }
  }
}
