/** Calls go to the server, or to whatever answers for the dataset that they are about. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescMessage, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import type { Answerer } from "../reading";
import { badAnswer } from "./errors";

/** The dataset of a question; empty: it has none. */
function datasetOf(message: { readonly dataset?: unknown; readonly query?: unknown }): string {
  if (typeof message.dataset === "string") return message.dataset;
  const query = message.query as { readonly dataset?: unknown } | undefined;
  return typeof query?.dataset === "string" ? query.dataset : "";
}

async function* messagesOf<O extends DescMessage>(answers: AsyncIterable<Uint8Array>, output: O): AsyncGenerator<MessageShape<O>> {
  for await (const bytes of answers) yield fromBinary(output, bytes);
}

async function* only<T>(message: T): AsyncGenerator<T> {
  yield await Promise.resolve(message);
}

/** @param find  null: the server has this dataset; throws where an address is wrong */
export function routed(server: Transport, find: (dataset: string) => Answerer | null): Transport {
  return {
    async unary<I extends DescMessage, O extends DescMessage>(...call: Parameters<typeof server.unary<I, O>>): ReturnType<typeof server.unary<I, O>> {
      const [method, signal, , , input] = call as [DescMethodUnary<I, O>, AbortSignal | undefined, unknown, unknown, MessageInitShape<I>];
      const request = create(method.input, input);
      const answerer = find(datasetOf(request as object));
      if (answerer === null) return server.unary(...call);
      for await (const message of messagesOf(answerer.answer(method.name, toBinary(method.input, request), signal), method.output)) {
        return { stream: false, service: method.parent, method, header: new Headers(), trailer: new Headers(), message };
      }
      throw badAnswer("it is empty");
    },
    async stream<I extends DescMessage, O extends DescMessage>(...call: Parameters<typeof server.stream<I, O>>): ReturnType<typeof server.stream<I, O>> {
      const [method, signal, timeout, header, input, context] = call;
      for await (const first of input) {
        const request = create(method.input, first);
        const answerer = find(datasetOf(request as object));
        if (answerer === null) return server.stream(method, signal, timeout, header, only(first), context);
        const message = messagesOf(answerer.answer(method.name, toBinary(method.input, request), signal), method.output);
        return { stream: true, service: method.parent, method, header: new Headers(), trailer: new Headers(), message };
      }
      throw new ConnectError("a call without a question", Code.Internal);
    },
  };
}
