/** Decodes all patches of a dataset in one worker, and leaves the speeds of all rounds in `data-speeds` of the body [MB/s of samples]. */
import { createPatchDecoder } from "../../../clients/web/src/decode/index";
import { sleep } from "../../../clients/web/src/errors";
import { patchBox, shapeOf } from "../../../clients/web/src/geometry";
import { gridOf } from "../../../clients/web/src/model";
import { QuarryClient } from "../../../clients/web/src/net/client";
import { createTransport } from "../../../clients/web/src/net/transport";
import type { DecodeJob, LevelPayload } from "../../../clients/web/src/reading";

const kRounds = 9;

async function jobsOf(dataset: string): Promise<DecodeJob[]> {
  const client = new QuarryClient(createTransport(location.origin, () => null, undefined), { retries: 4, sleep });
  const { signal } = new AbortController();
  const { info, steps } = await client.open(dataset, signal);
  const field = info.fields[0]!;
  const grid = gridOf(info, field.name);
  const query = {
    selection: { dataset, field: field.name, step: steps[0]!.step }, grid, field, encoding: "patches" as const, recode: 0,
    box: { begin: [0, 0, 0] as const, end: grid.dims }, first: grid.levels - 1, level: 0, focus: [0, 0, 0] as const, priority: 0,
  };
  const payloads = new Map<number, LevelPayload[]>();
  for await (const event of client.read(query, signal))
    if (event.kind === "patches")
      for (const { patch, levels } of event.patches) payloads.set(patch, [...(payloads.get(patch) ?? []), ...levels]);
  return [...payloads].map(([patch, levels]) => ({
    answer: 1, patch, coder: field.coder, type: field.type, shape: shapeOf(patchBox(grid, patch)), levels: grid.levels, target: 0,
    payloads: levels, keep: false, priority: 0,
  }));
}

async function measure(): Promise<number[]> {
  const jobs = await jobsOf(new URLSearchParams(location.search).get("d")!);
  const decoder = createPatchDecoder(1);
  const speeds: number[] = [];
  for (let round = 0; round < kRounds; ++round) {
    const begin = performance.now();
    const decoded = await Promise.all(jobs.map((job) => decoder.decode(job)));
    const bytes = decoded.reduce((sum, { samples }) => sum + samples.byteLength, 0);
    speeds.push(bytes / 1e3 / (performance.now() - begin));
  }
  return speeds;
}

measure().then((speeds) => { document.body.dataset["speeds"] = JSON.stringify(speeds); },
  (error: unknown) => { document.body.dataset["speeds"] = String(error); });
