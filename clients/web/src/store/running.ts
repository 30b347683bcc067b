/** One question while it is answered: from events to bricks. */
import { asViewerError } from "../errors";
import { levelBox, levelBytes, patchBox, shapeOf, sizeOf, volume } from "../geometry";
import type { Brick, FieldInfo, GridInfo } from "../model";
import { ViewerError } from "../model";
import { type DecodedPatch, type HeaderLevel, kTile, type PatchDecoder, type PatchPayload, type ReadEvent, type ReadHeader,
         type SampleBlock } from "../reading";
import { Assembler, type Block } from "./assemble";
import { cellOf } from "./memory";
import type { Tier } from "./needs";
import type { Question } from "./plan";
import { samplesFrom, spread } from "./samples";

/** Most samples that wait for decoding; the stream waits then. [bytes] */
const kMostDecoding = 48 * 2 ** 20;

export interface Receiver {
  readonly grid: GridInfo;
  readonly field: FieldInfo;
  /** The patch of a cell. */
  patchOf(cell: number): number;
  header(running: Running, header: ReadHeader): void;
  brick(brick: Brick, level: HeaderLevel, payload: number): void;
  /** A level was sent. */
  level(): void;
  /** The brick to show for a patch with damaged payload: an undamaged coarser one; or null. */
  coarser(patch: number, level: number): Brick | null;
  /** The decoder has dropped a patch for lack of memory: ask for it again. */
  refused(patch: number): void;
  /** The decoder cannot decode a patch. */
  undecodable(reason: string): void;
  /** No level of a patch can be read. */
  lost(patch: number): void;
}

/** Errors of a decoder that will decode nothing. */
function isGone(code: string): boolean {
  return code === "unavailable" || code === "unimplemented";
}

let answers = 0;

export class Running {
  readonly abort = new AbortController();
  tier: Tier = "visible";
  /** The first level was sent. */
  begun = false;
  readonly answer = ++answers;
  /** The next level of each requested patch. */
  private readonly next: Map<number, number>;
  /** For each patch: the level to which the decoder has come. */
  private readonly reached = new Map<number, number>();
  private readonly damaged = new Set<number>();
  /** For each patch: its last job. */
  private readonly last = new Map<number, Promise<void>>();
  private readonly assembler: Assembler;
  private tiles = 0;
  /** The first cell of the parts of patches that come. */
  private readonly firstCell: number;
  private levels: readonly HeaderLevel[] = [];
  private decoding = new Set<Promise<void>>();
  private decodingBytes = 0;
  private failure: ViewerError | null = null;

  constructor(readonly question: Question, private readonly receiver: Receiver, private readonly decoder: PatchDecoder | null) {
    this.next = new Map(question.patches.map((patch) => [patch, question.first]));
    this.assembler = new Assembler(receiver.grid, receiver.field, question.box);
    this.firstCell = question.patches[0]! - receiver.patchOf(question.patches[0]!);
  }

  get aborted(): boolean {
    return this.abort.signal.aborted;
  }

  /** Whether the level of the patch is on its way. */
  isDue(patch: number, level: number): boolean {
    const next = this.next.get(patch);
    return next !== undefined && level <= next && level >= this.question.level;
  }

  /** Patches with levels to come, and the next one. */
  *due(): Generator<readonly [patch: number, next: number]> {
    for (const entry of this.next) if (entry[1] >= this.question.level) yield entry;
  }

  async run(events: AsyncIterable<ReadEvent>): Promise<void> {
    try {
      for await (const event of events) {
        if (this.aborted) return;
        if (event.kind === "header") this.header(event.header);
        else if (event.kind === "samples") this.samples(event.level, event.blocks);
        else if (event.kind === "coded") await this.coded(event.level, event.blocks);
        else if (event.kind === "patches") await this.patches(event.level, event.patches);
        else if (event.kind === "level") this.levelEnd();
        if (this.failure !== null) throw this.failure;
      }
      await Promise.all(this.decoding);
      if (this.failure !== null) throw this.failure;
    } finally {
      this.decoder?.endAnswer(this.answer);
    }
  }

  private header(header: ReadHeader): void {
    this.levels = header.levels;
    this.receiver.header(this, header);
  }

  private levelEnd(): void {
    this.begun = true;
    this.receiver.level();
  }

  private at(level: number): HeaderLevel {
    return this.levels.find((one) => one.level === level)!;
  }

  private deliver(brick: Brick, payload: number): void {
    const cell = cellOf(brick);
    if (this.aborted || !this.next.has(cell)) return;
    this.next.set(cell, brick.level - 1);
    this.receiver.brick(brick, this.at(brick.level), payload);
  }

  private samples(level: number, blocks: readonly SampleBlock[]): void {
    for (const block of blocks) this.assemble(level, { ...block, samples: samplesFrom(this.receiver.field.type, block.data) }, null);
  }

  /** @param coded  [bytes] of the block where it was coded: its bricks are parts of patches */
  private assemble(level: number, block: Block, coded: number | null): void {
    for (const brick of this.assembler.add(level, block)) {
      if (coded === null) this.deliver(brick, brick.samples.byteLength);
      else {
        const part = { cell: this.firstCell + brick.patch, maxError: this.at(level).maxError };
        this.deliver({ ...brick, part }, Math.round((coded * brick.samples.length) / block.samples.length));
      }
    }
  }

  private async coded(level: number, blocks: readonly SampleBlock[]): Promise<void> {
    for (const block of blocks) {
      const bytes = volume(shapeOf(block.box)) * sizeOf(this.receiver.field.type);
      await this.room(bytes);
      void this.track(bytes, this.decodeTile(level, block));
    }
  }

  /** Never rejects. */
  private async decodeTile(level: number, block: SampleBlock): Promise<void> {
    const { type } = this.receiver.field;
    try {
      const { samples } = await this.decoder!.decode({
        answer: this.answer, patch: this.tiles++, coder: kTile, type, shape: shapeOf(block.box), levels: 1, target: 0, keep: false,
        payloads: [{ mask: new Uint8Array(0), maskChecksum: 0n, payload: block.data, checksum: 0n }], priority: this.priority(level),
      }, this.abort.signal);
      this.assemble(level, { ...block, samples }, block.data.length);
    } catch (reason) {
      if (this.aborted) return;
      const { code, message } = asViewerError(reason);
      // The server has coded it just now: damage came on the way, and asking again helps.
      this.failure ??= new ViewerError(isGone(code) ? "unimplemented" : code === "data_loss" ? "internal" : code, `cannot decode a part of a slice: ${message}`);
    }
  }

  /** Waits while too much is being decoded. */
  private async room(bytes: number): Promise<void> {
    while (this.decodingBytes > 0 && this.decodingBytes + bytes > kMostDecoding) await Promise.race(this.decoding);
  }

  private track(bytes: number, work: Promise<void>): Promise<void> {
    this.decodingBytes += bytes;
    const task: Promise<void> = work.finally(() => {
      this.decodingBytes -= bytes;
      this.decoding.delete(task);
    });
    this.decoding.add(task);
    return task;
  }

  private async patches(level: number, patches: readonly PatchPayload[]): Promise<void> {
    for (const patch of patches) {
      if (!this.next.has(patch.patch)) continue;
      const bytes = levelBytes(patchBox(this.receiver.grid, patch.patch), level, this.receiver.field.type);
      await this.room(bytes);
      this.last.set(patch.patch, this.track(bytes, this.decode(patch, level, this.last.get(patch.patch))));
    }
  }

  private priority(level: number): number {
    const { levels } = this.receiver.grid;
    return (this.tier === "prefetch" ? levels : 0) + levels - level;
  }

  /** Never rejects. */
  private async decode(payload: PatchPayload, level: number, before: Promise<void> | undefined): Promise<void> {
    const { patch } = payload;
    const size = payload.levels.reduce((sum, one) => sum + one.mask.length + one.payload.length, 0);
    try {
      const job = this.job(payload, level);
      if (job === null) await before;
      const decoded = job === null ? null : await this.decoder!.decode(job, this.abort.signal);
      if (this.aborted) return;
      if (decoded === null || decoded.level !== level || decoded.damage !== null) {
        if (typeof decoded?.damage === "string") this.receiver.undecodable(decoded.damage);
        this.damaged.add(patch);
        this.showCoarser(patch, level, size, decoded);
        return;
      }
      const box = levelBox(patchBox(this.receiver.grid, patch), level);
      this.deliver({ patch, level, box, damaged: false, samples: decoded.samples, validity: decoded.validity }, size);
    } catch (reason) {
      this.decodingFailed(patch, level, size, reason);
    }
  }

  /** Null where payload is missing, for damage: nothing finer than before can be decoded. */
  private job(payload: PatchPayload, level: number): Parameters<PatchDecoder["decode"]>[0] | null {
    const { patch, levels } = payload;
    const { grid, field } = this.receiver;
    if (this.damaged.has(patch) || levels.length === 0) return null;
    if (payload.damaged) this.damaged.add(patch);
    const target = (this.reached.get(patch) ?? grid.levels) - levels.length;
    this.reached.set(patch, target);
    return {
      answer: this.answer, patch, coder: field.coder, type: field.type, shape: shapeOf(patchBox(grid, patch)),
      levels: grid.levels, target, payloads: levels, keep: level > this.question.level && !payload.damaged,
      priority: this.priority(level),
    };
  }

  private showCoarser(patch: number, level: number, size: number, decoded: DecodedPatch | null): void {
    const { grid, field } = this.receiver;
    const whole = patchBox(grid, patch);
    const box = levelBox(whole, level);
    const other = this.receiver.coarser(patch, level);
    if (decoded !== null && (other === null || decoded.level <= other.level)) {
      const content = spread(field.type, decoded, levelBox(whole, decoded.level), decoded.level, box, level);
      this.deliver({ patch, level, box, damaged: true, ...content }, size);
    } else if (other !== null) {
      this.deliver({ patch, level, box, damaged: true, ...spread(field.type, other, other.box, other.level, box, level) }, size);
    } else {
      this.lose(patch);
    }
  }

  /** A decoder that fails for a patch says nothing about others. */
  private isDamage(patch: number, { code }: ViewerError): boolean {
    return code === "data_loss" || code === "internal" || (code === "failed_precondition" && this.damaged.has(patch));
  }

  private lose(patch: number): void {
    this.next.delete(patch);
    if (!this.aborted) this.receiver.lost(patch);
  }

  private decodingFailed(patch: number, level: number, size: number, reason: unknown): void {
    if (this.aborted) return;
    if (!(reason instanceof ViewerError)) this.failure ??= new ViewerError("internal", String(reason));
    else if (this.isDamage(patch, reason)) {
      if (!this.damaged.has(patch)) this.receiver.undecodable(reason.message);
      this.damaged.add(patch);
      this.showCoarser(patch, level, size, null);
    } else if (reason.code === "failed_precondition") {
      // The decoder has dropped the levels before: the patch is asked for again, as part of another question.
      if (this.next.delete(patch)) this.receiver.refused(patch);
    } else {
      // Without a decoder, for any reason, servers decode.
      this.failure ??= isGone(reason.code) ? new ViewerError("unimplemented", reason.message) : reason;
    }
  }
}
