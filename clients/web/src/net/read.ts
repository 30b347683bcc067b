/** A Read as typed events. Checks the answer against the question, and resumes a broken stream. */
import type { Client } from "@connectrpc/connect";
import type { QuarryService, ReadResponse } from "../../build/proto/quarry/v1/service_pb";
import { Encoding } from "../../build/proto/quarry/v1/service_pb";
import { backoff, isTransient, type Sleep } from "../errors";
import type { ReadEvent, ReadQuery } from "../reading";
import { AnswerCheck } from "./answer";
import { badAnswer, toViewerError } from "./errors";

export interface ReadOptions {
  /** Tries after which nothing new has come. */
  readonly retries: number;
  readonly sleep: Sleep;
}

const kEncodings = { patches: Encoding.PATCHES, samples: Encoding.SAMPLES, coded: Encoding.CODED } as const;

function request(query: ReadQuery, resumeAfter: Uint8Array): Parameters<Client<typeof QuarryService>["read"]>[0] {
  const { selection, box, field } = query;
  return {
    query: {
      dataset: selection.dataset, field: field.stored, layer: field.layer, step: BigInt(selection.step),
      box: { begin: [...box.begin], end: [...box.end] },
      target: { case: "level", value: query.level },
      firstLevel: query.first,
      focus: query.focus === null ? [] : [...query.focus],
      strict: false,
    },
    encoding: kEncodings[query.encoding],
    recode: query.recode > 0 ? { case: "recodeError", value: query.recode } : { case: undefined },
    resumeAfter,
  };
}

/** The events of a message: none for the header of an answer that goes on. */
function eventsOf(message: ReadResponse, check: AnswerCheck): ReadEvent[] {
  const { part, levelEnd, readEnd } = message;
  const events: ReadEvent[] = [];
  switch (part.case) {
    case "header": {
      const header = check.header(part.value);
      if (header !== null) events.push({ kind: "header", header });
      break;
    }
    case "patches": events.push({ kind: "patches", level: part.value.level, patches: check.patches(part.value) }); break;
    case "samples": events.push({ kind: "samples", level: part.value.level, blocks: check.samples(part.value) }); break;
    case "coded": events.push({ kind: "coded", level: part.value.level, blocks: check.coded(part.value) }); break;
    default: if (levelEnd === undefined && readEnd === undefined) throw badAnswer("a message of the answer is empty");
  }
  if (levelEnd !== undefined) {
    check.levelEnd(levelEnd);
    events.push({ kind: "level", level: levelEnd.level });
  }
  if (readEnd !== undefined) {
    check.end();
    events.push({ kind: "end" });
  }
  return events;
}

/** Reads; at most options.retries times in a row without anything new. */
export async function* read(client: Client<typeof QuarryService>, query: ReadQuery, signal: AbortSignal,
                            options: ReadOptions): AsyncGenerator<ReadEvent, void, undefined> {
  const check = new AnswerCheck(query);
  let position = new Uint8Array();
  for (let attempt = 0; ; ++attempt) {
    try {
      check.connect();
      // To the end of the stream, not of the answer: the browser can use the connection again.
      for await (const message of client.read(request(query, position), { signal })) {
        const events = eventsOf(message, check);
        if (message.position.length > 0) position = Uint8Array.from(message.position);
        if (events.some((one) => one.kind !== "header")) attempt = 0;
        yield* events;
      }
      if (check.ended) return;
      throw check.incomplete();
    } catch (reason) {
      const error = toViewerError(reason);
      // All has come; how the stream ends is of no interest.
      if (check.ended && !signal.aborted) return;
      if (signal.aborted || attempt >= options.retries || !isTransient(error)) throw error;
      await options.sleep(backoff(attempt, error), signal);
    }
  }
}
