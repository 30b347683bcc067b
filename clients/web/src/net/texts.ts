/** Coordinates of text from messages: within the limits of the format, or not at all. */
import type { DatasetManifest, TextCoordinate as Message } from "../../build/proto/quarry/v1/dataset_pb";
import type { Axis, GridInfo, TextCoordinate } from "../model";
import { attributesOf } from "./attributes";
import { badAnswer } from "./errors";

/** Limits of a dataset: docs/format.md. Texts have at least as many bytes as characters. */
const kMostCoordinates = 1024;
const kMostTexts = 2 ** 20;
const kMostCharacters = 2 ** 24;
const kMostName = 255;

type Grid = Pick<GridInfo, "dims" | "axisNames">;

export interface PlacedText {
  readonly coordinate: TextCoordinate;
  /** Null: one text stands for the whole dataset. */
  readonly along: { readonly grid: Grid; readonly axis: Axis } | null;
}

function placeOf({ name, grid, axis }: Message, grids: readonly Grid[]): PlacedText["along"] {
  const found = grids[grid];
  if (found === undefined || (axis ?? 0) > 2) {
    throw badAnswer(`text "${name}" is on axis ${axis ?? 0} of grid ${grid} of ${grids.length}`);
  }
  return axis === undefined ? null : { grid: found, axis: axis as Axis };
}

function placedText(message: Message, grids: readonly Grid[]): PlacedText {
  const { name, texts } = message;
  if (name === "" || name.length > kMostName) throw badAnswer(`a text has a name of ${name.length} characters`);
  const along = placeOf(message, grids);
  const samples = along === null ? 1 : along.grid.dims[along.axis];
  if (texts.length !== samples) throw badAnswer(`text "${name}" has ${texts.length} texts for ${samples} samples`);
  return { coordinate: { name, texts, attributes: attributesOf(message.attributes, `text "${name}"`) }, along };
}

export function textsOf({ texts: messages }: DatasetManifest, grids: readonly Grid[]): readonly PlacedText[] {
  const texts = messages.reduce((sum, one) => sum + one.texts.length, 0);
  const characters = messages.reduce((sum, one) => one.texts.reduce((length, text) => length + text.length, sum), 0);
  if (messages.length > kMostCoordinates || texts > kMostTexts || characters > kMostCharacters) {
    throw badAnswer(`${messages.length} coordinates of text have ${texts} texts of ${characters} characters`);
  }
  return messages.map((message) => placedText(message, grids));
}

/** Axes of one name are one axis, whichever grid has the texts. */
function isAlong({ along }: PlacedText, to: Grid, axis: Axis): boolean {
  if (along === null) return false;
  const name = along.grid.axisNames[along.axis];
  return (along.grid === to && along.axis === axis) || (name !== "" && name === to.axisNames[axis]);
}

/** The coordinate of an axis, which is called as the axis, is the first. */
export function axisTexts(grid: Grid, texts: readonly PlacedText[]): GridInfo["axisTexts"] {
  const along = (axis: Axis): readonly TextCoordinate[] => {
    const all = texts.filter((one) => isAlong(one, grid, axis)).map(({ coordinate }) => coordinate);
    const isOwn = ({ name }: TextCoordinate): boolean => name === grid.axisNames[axis];
    return [...all.filter(isOwn), ...all.filter((one) => !isOwn(one))];
  };
  return [along(0), along(1), along(2)];
}
