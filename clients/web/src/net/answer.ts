/** Checks that the messages of an answer fit its question: a page must not trust other sizes. */
import type { BlockExtent, CodedTile, CodedTiles, LevelEnd, LevelExtent, PatchPayload as PatchMessage, PatchPayloads,
              ReadHeader as HeaderMessage, SampleBlocks } from "../../build/proto/quarry/v1/service_pb";
import { CallError } from "../errors";
import { boxText, contains, intersect, isEmpty, kAxes, levelBox, mapVec, patchBox, patchCounts, patchesMeeting, sameBox,
         shapeOf, sizeOf, volume } from "../geometry";
import type { Axis, Box } from "../model";
import type { HeaderLevel, LevelPayload, PatchPayload, ReadHeader, ReadQuery, SampleBlock } from "../reading";
import { count, integers, share } from "./convert";
import { badAnswer } from "./errors";
import { sampleType } from "./types";

/** Most samples of a tile of a coded answer: docs/protocol.md. */
const kMostTileSamples = 2 ** 18;

function extent(message: LevelExtent | BlockExtent | CodedTile): Box {
  const begin = integers(message.begin, "the begin of an extent", 0);
  const shape = integers(message.shape, "the shape of an extent", 0);
  return { begin, end: mapVec((a) => begin[a] + shape[a]) };
}

/**
 * The sum of boxes that should not overlap: each corner with its sign, but for those that cancel. Boxes that together are
 * another one, once each, have its corners.
 */
class Corners {
  private readonly signs = new Map<string, number>();

  add(box: Box, by: number): void {
    for (let i = 0; i < 8; ++i) {
      const ends = kAxes.map((a) => (i >> a) & 1);
      const key = ends.map((end, a) => (end ? box.end : box.begin)[a as Axis]).join();
      const sign = (this.signs.get(key) ?? 0) + (ends.filter((end) => end === 1).length % 2 === 0 ? by : -by);
      if (sign === 0) this.signs.delete(key);
      else this.signs.set(key, sign);
    }
  }

  get cancel(): boolean {
    return this.signs.size === 0;
  }
}

/** XXH3 of nothing. */
const kNothing = 0x2d06800538d394c2n;

/** Servers send no checksum of nothing. */
function checksum(size: bigint, sent: bigint): bigint {
  return size === 0n ? kNothing : sent;
}

export class AnswerCheck {
  private levels: readonly HeaderLevel[] | null = null;
  private connected = false;
  private isEnded = false;
  /** Levels that have ended. */
  private done = 0;
  /** Samples, or patches, of the current level that are still to come. */
  private left = 0;
  /** Blocks of the current level, without those that are still to come. */
  private corners = new Corners();
  private readonly seen = new Set<number>();
  private readonly damaged = new Set<number>();
  private readonly patchTotal: number;

  constructor(private readonly query: ReadQuery) {
    this.patchTotal = volume(shapeOf(patchesMeeting(query.grid, query.box)));
  }

  /** A stream begins: at first, or to go on with the answer. */
  connect(): void {
    this.connected = false;
  }

  /** Null for the header of an answer that goes on. */
  header(message: HeaderMessage): ReadHeader | null {
    if (this.connected) throw badAnswer("it has a second header");
    this.connected = true;
    const { query } = this;
    const names = message.field === "" || message.field === query.field.stored;
    if (!names || message.step !== BigInt(query.selection.step) || sampleType(message.dtype) !== query.field.type) {
      throw badAnswer(`it is about step ${message.step.toString()} of "${message.field.slice(0, 100)}", which was not asked for`);
    }
    if (message.layer !== query.field.layer) throw badAnswer(`it announces layer ${message.layer} instead of ${query.field.layer}`);
    if (message.count > 1n || message.leftOut.length > 0) throw badAnswer("it has parts that were not asked for");
    const levels = message.levels.map((level) => this.level(level));
    if (levels.length !== query.first - query.level + 1 || levels.some((one, i) => one.level !== query.first - i)) {
      throw badAnswer(`it announces levels ${levels.map((one) => one.level).join(", ")}`);
    }
    const resumed = this.levels !== null;
    if (levels.some((one, i) => one.maxError > (this.levels?.[i]?.maxError ?? Infinity))) throw badAnswer("it goes on with larger errors");
    this.levels = levels;
    if (resumed) return null;
    this.startLevel();
    return { levels };
  }

  patches(message: PatchPayloads): PatchPayload[] {
    this.expect(message.level, "patches");
    let offset = 0;
    const take = (size: bigint): Uint8Array => {
      const bytes = count(size, "the size of a payload");
      if (bytes > message.data.length - offset) throw badAnswer(`payload is ${bytes - message.data.length + offset} bytes short`);
      offset += bytes;
      return message.data.subarray(offset - bytes, offset);
    };
    const out = message.patches.map((one): PatchPayload => {
      const patch = this.patchOf(one);
      const levels = one.levels.map((level): LevelPayload => ({
        mask: take(level.maskSize), payload: take(level.size),
        maskChecksum: checksum(level.maskSize, level.maskChecksum), checksum: checksum(level.size, level.checksum),
      }));
      return { patch, levels, damaged: one.damaged };
    });
    if (offset !== message.data.length) throw badAnswer(`payload has ${message.data.length - offset} bytes too many`);
    return out;
  }

  samples(message: SampleBlocks): SampleBlock[] {
    const level = this.expect(message.level, "samples");
    const size = sizeOf(this.query.field.type);
    return this.blocks(message.blocks, level, message.data, (samples) => samples * size,
                       (one, box) => (this.isDamaged(one, message.level) ? [box] : []));
  }

  coded(message: CodedTiles): SampleBlock[] {
    const level = this.expect(message.level, "coded");
    return this.blocks(message.tiles, level, message.data, (samples, tile) => {
      if (samples > kMostTileSamples) throw badAnswer(`a tile has ${samples} samples, more than ${kMostTileSamples}`);
      return tile.size;
    }, (tile, box) => tile.damaged.map((one) => {
      const part = extent(one);
      if (isEmpty(part) || !contains(box, part) || !this.isDamaged(one, message.level)) {
        throw badAnswer(`a tile ${boxText(box)} of level ${message.level} has the damaged box ${boxText(part)}`);
      }
      return part;
    }));
  }

  /** Blocks with their parts of the data, of which there are as many as `bytesOf` says. */
  private blocks<T extends BlockExtent | CodedTile>(messages: readonly T[], { level, box: whole }: HeaderLevel, data: Uint8Array,
                                                    bytesOf: (samples: number, message: T) => number,
                                                    damaged: (message: T, box: Box) => readonly Box[]): SampleBlock[] {
    let offset = 0;
    const out = messages.map((one): SampleBlock => {
      const box = extent(one);
      const samples = volume(shapeOf(box));
      if (isEmpty(box) || !contains(whole, box) || samples > this.left) {
        throw badAnswer(`a block ${boxText(box)} of level ${level} does not fit into ${boxText(whole)}`);
      }
      const bytes = bytesOf(samples, one);
      if (bytes > data.length - offset) throw badAnswer(`the bytes of ${boxText(box)} are too few`);
      this.left -= samples;
      this.corners.add(box, 1);
      offset += bytes;
      return { box, damaged: damaged(one, box), data: data.subarray(offset - bytes, offset) };
    });
    if (offset !== data.length) throw badAnswer(`a message has ${data.length - offset} bytes too many`);
    return out;
  }

  levelEnd({ level }: LevelEnd): void {
    this.expect(level, null);
    if (this.left !== 0) throw badAnswer(`level ${level} ends with ${this.left} ${this.query.encoding === "patches" ? "patches" : "samples"} to come`);
    if (!this.corners.cancel) throw badAnswer(`samples of level ${level} come twice, and others are missing`);
    ++this.done;
    this.startLevel();
  }

  end(): void {
    const isWhole = this.connected && this.levels !== null && this.done === this.levels.length;
    if (!isWhole) throw badAnswer(`it ends after ${this.done} levels`);
    this.isEnded = true;
  }

  get ended(): boolean {
    return this.isEnded;
  }

  /** A stream that ends in good order but not with read_end. */
  incomplete(): CallError {
    return new CallError("unavailable", `the answer ended after ${this.done} levels; something cut it off`);
  }

  private level(message: LevelExtent): HeaderLevel {
    const box = extent(message);
    const wanted = levelBox(this.query.box, message.level);
    if (message.level >= this.query.grid.levels || (!sameBox(box, wanted) && !(isEmpty(box) && isEmpty(wanted)))) {
      throw badAnswer(`it announces ${boxText(box)} of level ${message.level}, which was not asked for`);
    }
    if (!(message.maxError >= 0)) throw badAnswer(`it announces an error of ${message.maxError}`);
    const { codingError } = message;
    const most = this.query.encoding === "coded" ? this.query.recode : 0;
    if (!(codingError >= 0 && codingError <= most)) throw badAnswer(`it is coded within ${codingError} instead of ${most}`);
    return { level: message.level, box, maxError: message.maxError, coverage: share(message.coverage, "a coverage"),
             bytes: count(message.bytes, "the bytes of a level") };
  }

  private startLevel(): void {
    const next = this.levels?.[this.done];
    this.seen.clear();
    this.left = 0;
    this.corners = new Corners();
    if (next === undefined) return;
    this.left = this.query.encoding === "patches" ? this.patchTotal : volume(shapeOf(next.box));
    if (this.query.encoding !== "patches" && this.left > 0) this.corners.add(next.box, -1);
  }

  private expect(level: number, encoding: string | null): HeaderLevel {
    const due = this.connected ? this.levels?.[this.done] : undefined;
    if (due?.level !== level || (encoding !== null && encoding !== this.query.encoding)) {
      throw badAnswer(`${encoding ?? "an end"} of level ${level} out of order`);
    }
    return due;
  }

  /** Whether a block shows something else, which must be rougher. */
  private isDamaged(block: BlockExtent, level: number): boolean {
    if (block.shownLevel === undefined && block.shownLayer === undefined) return false;
    const wanted = this.query.field.layer;
    const [shown, layer] = [block.shownLevel ?? level, block.shownLayer ?? wanted];
    const first = layer < wanted ? level : level + 1;
    if (layer > wanted || shown < first || shown >= this.query.grid.levels) {
      throw badAnswer(`it shows layer ${layer} of level ${shown} for level ${level}`);
    }
    return true;
  }

  private patchOf(message: PatchMessage): number {
    const patch = count(message.patch, "the number of a patch");
    const { grid, box, first } = this.query;
    const known = patch < volume(patchCounts(grid)) && !isEmpty(intersect(patchBox(grid, patch), box));
    if (!known || this.seen.has(patch)) throw badAnswer(`patch ${patch} was not asked for, or comes twice`);
    const due = this.done === 0 ? grid.levels - first : 1;
    const added = message.levels.length;
    const broken = message.damaged || this.damaged.has(patch);
    if (added > due || (!broken && added !== due)) throw badAnswer(`it has ${added} instead of ${due} levels of patch ${patch}`);
    if (message.damaged) this.damaged.add(patch);
    this.seen.add(patch);
    --this.left;
    return patch;
  }
}
