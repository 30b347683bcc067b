/** Attributes from messages: within the limits of the format, or not at all. */
import type { Attribute as Message, AttributeNumbers } from "../../build/proto/quarry/v1/dataset_pb";
import type { Attributes, AttributeValue } from "../model";
import { badAnswer } from "./errors";
import { sampleType } from "./types";

/** Limits for one owner: docs/format.md. Texts have at least as many bytes as characters. */
const kMostAttributes = 4096;
const kMostBytes = 2 ** 20;
const kMostName = 255;

function numbersOf(message: AttributeNumbers, name: string): AttributeValue {
  const type = sampleType(message.dtype);
  const numbers = type === "float32" || type === "float64" ? message.floats : type === "uint64" ? message.naturals : message.integers;
  if (!message.isList && numbers.length !== 1) throw badAnswer(`attribute "${name}" is one number, and has ${numbers.length}`);
  return { kind: "numbers", type, isList: message.isList, numbers };
}

function valueOf({ name, value }: Message): AttributeValue {
  switch (value.case) {
    case "text": return { kind: "text", text: value.value };
    case "texts": return { kind: "texts", texts: value.value.texts };
    case "numbers": return numbersOf(value.value, name);
    case "json": return { kind: "json", json: value.value };
    case undefined: throw badAnswer(`attribute "${name}" has no value that this page knows`);
  }
}

function sizeOf(value: AttributeValue): number {
  switch (value.kind) {
    case "text": return value.text.length;
    case "texts": return value.texts.reduce((sum, text) => sum + text.length + 1, 0);
    case "numbers": return value.numbers.length * 8;
    case "json": return value.json.length;
  }
}

/** @param owner  for what goes wrong */
export function attributesOf(messages: readonly Message[], owner: string): Attributes {
  if (messages.length > kMostAttributes) throw badAnswer(`${owner} has ${messages.length} attributes`);
  const names = new Set<string>();
  let bytes = 0;
  return messages.map((message) => {
    const { name } = message;
    if (name === "" || name.length > kMostName) throw badAnswer(`${owner} has an attribute with a name of ${name.length} characters`);
    if (names.has(name)) throw badAnswer(`${owner} has attribute "${name}" twice`);
    names.add(name);
    const value = valueOf(message);
    bytes += name.length + sizeOf(value);
    if (bytes > kMostBytes) throw badAnswer(`the attributes of ${owner} have more than ${kMostBytes} bytes`);
    return { name, value };
  });
}
