/** The view on screen, as a line for a shell and one for Python. */
import { boxText } from "../geometry";
import { type Box, isAddress, type Selection } from "../model";

export interface OnScreen {
  /** With the field as the dataset has it. */
  readonly selection: Selection;
  /** Layer of accuracy; left out where there is one. */
  readonly layer?: number | undefined;
  readonly box: Box;
  readonly level: number;
}

/** The default of the server. */
const kGrpcPort = 50051;

/**
 * Where gRPC is: on the machine that the page comes from.
 * @param port  as the server says; null: it has not said
 */
export function grpcAddress(location: Pick<Location, "protocol" | "hostname">, port: number | null): string {
  return `${location.protocol === "https:" ? "grpcs" : "grpc"}://${location.hostname}:${port ?? kGrpcPort}`;
}

/** The dataset as a target of the commands. */
function targetOf(server: string, dataset: string): string {
  return isAddress(dataset) ? dataset : `${server}/${dataset}`;
}

/** One word of a POSIX shell. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A string of Python: JSON's are. */
function pythonText(text: string): string {
  return JSON.stringify(text);
}

function fileName({ selection, level, layer }: OnScreen): string {
  const name = `${selection.dataset.split("/").at(-1) ?? ""}-${selection.field}-${selection.step}-${layer === undefined ? "" : `a${layer}-`}l${level}.npy`;
  return name.replace(/^[-.]+/, "").replace(/[^A-Za-z0-9_.-]/g, "_");
}

export function getCommand(server: string, what: OnScreen): string {
  const { selection, box, level, layer } = what;
  // A name that looks like an option is not taken for one after "=".
  const field = selection.field.startsWith("-") ? [`--field=${selection.field}`] : ["--field", selection.field];
  const words = ["quarry", "get", targetOf(server, selection.dataset), ...field, "--step", String(selection.step),
                 "--box", boxText(box), "--level", String(level), ...(layer === undefined ? [] : ["--layer", String(layer)]),
                 "--output", fileName(what)];
  return words.map(shellWord).join(" ");
}

/** Boxes of the Python package come z, y, x. */
export function pythonCommand(server: string, { selection, box, level, layer }: OnScreen): string {
  const ranges = ([2, 1, 0] as const).map((a) => `(${box.begin[a]}, ${box.end[a]})`).join(", ");
  const target = pythonText(targetOf(server, selection.dataset));
  return `import quarry; answer = quarry.open(${target})[${pythonText(selection.field)}]` +
         `.read(step=${selection.step}, box=(${ranges}), level=${level}${layer === undefined ? "" : `, layer=${layer}`})`;
}
