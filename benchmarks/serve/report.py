#!/usr/bin/env python3
"""Turns results.json of run.py into tables.md, questions.png, clients.png and memory.png, in the same folder.

Example: report.py build/benchmark-serve/edge512-0.0001-interpolate/results.json
"""

import argparse
import json
import re
import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from common import number, table

NAMES = {"quarry": "Quarry, server", "directory": "Quarry, directory", "quarry-before": "server before",
         "directory-before": "directory before", "grpc": "gRPC alone", "memmap": "memmap", "h5py": "h5py + zfp",
         "zarr": "zarr + zfpy", "openvisus": "OpenVisus + zfp"}
COLORS = {"quarry": "#c0392b", "directory": "#7d2a5e", "quarry-before": "#d98880", "directory-before": "#bb8fae",
          "grpc": "#34495e", "memmap": "#95a5a6", "h5py": "#1f77b4", "zarr": "#2a9d55", "openvisus": "#e08e0b"}
MIB = 1 << 20
UNITS = {"KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}


class Results:
    def __init__(self, content):
        self.content = content
        self.machine = content["machine"]
        self.titles = content["titles"]

    def part(self, name):
        return self.content.get(name, [])

    def seconds(self, question, contestant, read="first"):
        """Median over turns and boxes; None if not measured."""
        found = [r["seconds"] for r in self.part("questions")
                 if (r["question"], r["contestant"], r["read"]) == (question, contestant, read)]
        return statistics.median(found) if found else None

    def got(self, question, contestant, what="seconds"):
        """Median [s] over turns and boxes of what `quarry get` prints, or of the whole `command`; None if not measured."""
        found = [r[what] for r in self.part("get") if (r["question"], r["contestant"]) == (question, contestant)]
        return statistics.median(found) if found else None

    def over_coder(self, contestant):
        """Seconds of the first read of everything over those of decoding alone; None if not measured."""
        seconds = self.seconds("full", contestant)
        coders = [r for r in self.part("coder") if r["contestant"] == contestant]
        if not seconds or not coders:
            return None
        megabytes = 4 * self.machine["edge"]**3 / 1e6
        return seconds / (megabytes / (coders[0]["decode_mbps"] * coders[0]["cores"]))

    def contestants(self, part):
        found = {r["contestant"] for r in self.part(part)}
        return [name for name in NAMES if name in found]

    def picture(self, contestant):
        """Seconds to open, and from then to the picture: each the median of the turns."""
        found = [r for r in self.part("first-picture") if r["contestant"] == contestant]
        return tuple(statistics.median(r[key] for r in found) for key in ("open", "picture")) if found else None

    def clients(self, contestant, count):
        """Reads per second, and percentiles 50 and 99 of their seconds: medians of the turns."""
        turns = [r for r in self.part("clients") if (r["contestant"], r["clients"]) == (contestant, count)]
        if not turns:
            return None
        rates = [len(r["seconds"]) / r["wall"] for r in turns]
        latencies = [[percentile(turn["seconds"], percent) for turn in turns] for percent in (50, 99)]
        return tuple(statistics.median(values) for values in (rates, *latencies))


def percentile(values, percent):
    """The smallest value that this many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def parse_bytes(text):
    value, unit = re.fullmatch(r"(\d+)\s*(\w+)", text).groups()
    return int(value) * UNITS[unit]


def duration(seconds):
    return f"{number(seconds * 1e3, 3)} ms" if seconds < 0.9995 else f"{number(seconds, 3)} s"


def verdict(reached):
    return "reached" if reached else "missed"


# --- tables ---


def marks(results):
    """One row per target, with the earlier release's figure where there is one."""
    rows = []
    if results.picture("quarry"):
        seconds = sum(results.picture("quarry"))
        rows.append(["first coarse picture, cold cache", duration(seconds), "", "50 ms",
                     verdict(seconds <= 0.05)])
    for question, contestant, wanted in (("box", "directory", 12), ("box", "quarry", 9), ("unaligned", "quarry", 12),
                                         ("overview", "quarry", 500)):
        rows += against_h5py(results, question, contestant, wanted)
    for contestant, wanted in (("quarry", 5), ("directory", 8)):
        rows += get_against_h5py(results, contestant, wanted)
    rows += over_coder(results)
    for question in ("box", "full"):
        rows += against_grpc(results, question)
    rows += [wire_mark(results, wire) for wire in results.part("wire") if wire["question"] != "unaligned"]
    m = results.part("memory")
    if m:
        title = f"memory under {m['clients']} clients, {m['raw_bytes'] / MIB:.0f} MiB each"
        rows.append([title, f"{m['peak'] / MIB:.0f} MiB", "", f"{m['budget']} + 150 MiB",
                     verdict(m["peak"] <= parse_bytes(m["budget"]) + 150 * MIB)])
    header = ["", "measured", "before", "aimed at", ""]
    if not any(row[2] for row in rows):
        header, rows = header[:2] + header[3:], [row[:2] + row[3:] for row in rows]
    return "## Targets\n\n" + table(header, rows)


def against_h5py(results, question, contestant, wanted):
    title = f"{results.titles[question]}, {place(contestant)}: h5py + zfp takes so many times as long"
    ours, before = (results.seconds(question, name) for name in (contestant, contestant + "-before"))
    return over_h5py(title, results.seconds(question, "h5py"), ours, before, wanted)


def get_against_h5py(results, contestant, wanted):
    title = f"`quarry get` of the {results.titles['box']} to .npy, {place(contestant)}: of h5py + zfp into memory"
    ours, before = (results.got("box", name) for name in (contestant, contestant + "-before"))
    return over_h5py(title, results.seconds("box", "h5py"), ours, before, wanted)


def over_h5py(title, theirs, ours, before, wanted):
    """At most one row."""
    if not theirs or not ours:
        return []
    measured = [times_as_long(theirs, seconds) for seconds in (ours, before)]
    return [[title, *measured, str(wanted), verdict(theirs / ours >= wanted)]]


def place(contestant):
    return {"quarry": "from a server", "directory": "from a directory"}[contestant]


def times_as_long(theirs, ours):
    return f"{number(theirs / ours, 3)} ({duration(ours)})" if ours else ""


def over_coder(results):
    """The whole field from a directory, over what the same release's coder takes in memory."""
    ours, before = (results.over_coder(name) for name in ("directory", "directory-before"))
    if not ours:
        return []
    title = f"{results.titles['full']}, from a directory: over its coder alone, on as many processors"
    return [[title, number(ours, 3), number(before, 3) if before else "", "1.2", verdict(ours <= 1.2)]]


def against_grpc(results, question):
    plain, ours, before = (results.seconds(question, name, "second") for name in ("grpc", "quarry", "quarry-before"))
    if not ours or not plain:
        return []
    title = f"{results.titles[question]}, read again: speed of gRPC alone"
    share = [f"{100 * plain / seconds:.0f} %" if seconds else "" for seconds in (ours, before)]
    return [[title, *share, "110 %", verdict(plain / ours >= 1.1)]]


def wire_mark(results, wire):
    title = f"{results.titles[wire['question']]}: bytes on the wire, samples over patches"
    if wire["patches"] is None:
        expected = number(wire["samples"] / wire["price"]["payload_bytes"], 3)
        return [title, f"not measured: {wire['reason']}; samples over payload {expected}", "", "5", ""]
    ratio = wire["samples"] / wire["patches"]
    return [title, number(ratio, 3), "", "5", verdict(ratio >= 5)]


TIMES = """## Times

Medians, page cache warm. First: server just started (library, directory: just opened), nothing decoded; second: the same
question again.

"""


def times(results):
    contestants = results.contestants("questions")
    rows = []
    for question, title in results.titles.items():
        for read in ("first", "second"):
            found = [results.seconds(question, name, read) for name in contestants]
            rows.append([title, read] + [duration(value) if value else "" for value in found])
    return TIMES + table(["", "read"] + [NAMES[name] for name in contestants], rows)


GET = """## quarry get

Boxes to a .npy file, page cache warm, server just started: medians of the seconds that the command prints, and of
those from its start to its end. Releases print different parts of their work.

"""


def get(results):
    rows = [[results.titles[question], NAMES[name]] +
            [duration(results.got(question, name, what)) for what in ("seconds", "command")]
            for question in dict.fromkeys(r["question"] for r in results.part("get"))
            for name in results.contestants("get")]
    return GET + table(["", "", "printed", "whole command"], rows)


ACCURACY = """## Layers of accuracy

The field in layers within {bounds} and exact, {layers} bytes; `lossless` alone takes {lossless}. What the whole field within
each bound takes from a new server: seconds to the samples, and bytes of messages if it is sent as patches.

"""


def accuracy(results):
    part = results.content["accuracy"]
    stored = part["stored"]
    bounds = sorted({r["max_error"] for r in part["reads"]}, reverse=True)
    rows = []
    for bound in bounds:
        turns = [r for r in part["reads"] if r["max_error"] == bound]
        sent = statistics.median(r["patch_bytes"] for r in turns)
        rows.append([number(bound) if bound else "exact", duration(statistics.median(r["seconds"] for r in turns)),
                     f"{sent:.0f}", f"{100 * sent / stored['layers']:.1f} %"])
    text = ACCURACY.format(bounds=" and ".join(number(bound) for bound in bounds if bound), **stored)
    return text + table(["within", "seconds", "bytes", "of the archive"], rows)


PICTURES = """## First picture of the whole domain, cold cache

One sample of each {patch}^3. Files dropped from the page cache with posix_fadvise, which needs no root; the last column
is what of them fincore still finds there. Quarry's server has just been started, its files are dropped again after the
start, and its client opens a connection; a library opens the file in a process that runs already.

"""


def pictures(results):
    rows = []
    for name in results.contestants("first-picture"):
        opened, picture = results.picture(name)
        turns = [r for r in results.part("first-picture") if r["contestant"] == name]
        left = [r["cached"] for r in turns if r["cached"] is not None]
        rows.append([NAMES[name], duration(opened), duration(picture), duration(opened + picture),
                     f"{max(left) // 1024} KiB" if left else "unknown"])
    levels = {}
    for result in results.part("first-picture"):
        for level in result.get("levels", []):
            levels.setdefault(level["level"], []).append(level["seconds"])
    later = ", ".join(f"level {level} after {duration(statistics.median(found))}"
                      for level, found in sorted(levels.items(), reverse=True))
    return (PICTURES.format(patch=results.machine["patch"])
            + table(["", "open", "picture", "together", "left in cache"], rows)
            + f"\nQuarry, in one progressive answer: {later}.\n")


CLIENTS = """## Many clients

Each a process with a connection of its own (h5py: a process with the file open), reading random boxes as large as the
unaligned ones, one after the other.

"""


def many(results):
    rows = []
    for name in results.contestants("clients"):
        for count in sorted({r["clients"] for r in results.part("clients")}):
            rate, p50, p99 = results.clients(name, count)
            rows.append([NAMES[name], str(count), number(rate, 3), duration(p50), duration(p99)])
    return CLIENTS + table(["", "clients", "reads/s", "p50", "p99"], rows)


WIRE = """## Bytes on the wire

Messages of the answer with the five bytes before each; without the frames of HTTP/2 and TCP.

"""


def wire(results):
    rows = []
    for result in results.part("wire"):
        patches = result["reason"] if result["patches"] is None else str(result["patches"])
        rows.append([results.titles[result["question"]], str(result["samples"]), patches,
                     str(result["price"]["payload_bytes"])])
    return WIRE + table(["", "samples", "patches", "payload of the touched patches"], rows)


MEMORY = """## Memory under many clients

{clients} clients ask for all of {each:.0f} MiB at once and throw it away: {took}, {rate:.0f} MB/s together. RssAnon +
RssShmem of the server, every 50 ms: {before:.0f} MiB before, {peak:.0f} MiB at the most; budget {budget}.
"""


def memory(results):
    m = results.content["memory"]
    return MEMORY.format(clients=m["clients"], each=m["raw_bytes"] / MIB, took=duration(m["seconds"]),
                         rate=m["wire_bytes"] / m["seconds"] / 1e6, before=m["before"] / MIB, peak=m["peak"] / MIB,
                         budget=m["budget"])


COMPARED = """## Compared

All were given the same absolute tolerance; the largest error over all samples is compared with it.

"""
RAW_STREAM = "raw_stream: as many bytes out of a server's memory, messages of 1 MiB, copied to an array by the client"


def compared(results):
    raw = 4 * results.machine["edge"]**3
    rows = []
    for name, entry in results.content["sizes"].items():
        rows.append([NAMES[name], entry["about"], f"{raw / entry['bytes']:.2f}",
                     f"{entry['max_error'] / results.machine['tolerance']:.3f}"])
    rows.append([NAMES["grpc"], RAW_STREAM, "", ""])
    rows += [[NAMES[name], f"left out: {reason}", "", ""] for name, reason in results.content["absent"].items()]
    rows.append(["idx2", "left out: neither on PyPI nor in Debian", "", ""])
    return COMPARED + table(["", "what", "ratio", "largest error / tolerance"], rows)


HEADING = """# Serving compared

{edge}^3 float32, turbulence with the spectrum k^-5/3, tolerance {relative:g} of its range. {processor}, {processors}
processors, servers and clients on the same, over loopback; load average {before:.1f} before, {after:.1f} after; {date};
source {source}; {repeat} turns.
"""


def heading(results):
    m = results.machine
    text = HEADING.format(before=m["load_before"][0], after=m["load_after"][0], **m)
    runs = results.content.get("measured", {})
    if len(set(runs.values())) > 1:
        text += "\nNot of one run: " + "; ".join(f"{part} {run}" for part, run in runs.items()) + ".\n"
    return text


# --- plots ---


def new_axes(width, height, **options):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), **options)


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def plot_questions(results, path):
    contestants = results.contestants("questions")
    figure, axes = new_axes(4.2 * len(results.titles), 3.4, ncols=len(results.titles), squeeze=False)
    for axis, (question, title) in zip(axes[0], results.titles.items()):
        for row, name in enumerate(reversed(contestants)):
            first, second = (results.seconds(question, name, read) for read in ("first", "second"))
            axis.barh(row + 0.2, first * 1e3, 0.4, color=COLORS[name])
            axis.barh(row - 0.2, second * 1e3, 0.4, color=COLORS[name], alpha=0.45)
            axis.annotate(f" {duration(first)}", (first * 1e3, row + 0.2), va="center", fontsize=8)
        axis.set_yticks(range(len(contestants)), [NAMES[name] for name in reversed(contestants)])
        axis.set_xscale("log")
        axis.margins(x=0.3)
        axis.set_title(title)
        axis.set_xlabel("ms; pale: the same again")
    save(figure, path)


def plot_clients(results, path):
    counts = sorted({r["clients"] for r in results.part("clients")})
    figure, (rates, latencies) = new_axes(10, 3.8, ncols=2)
    for name in results.contestants("clients"):
        found = [results.clients(name, count) for count in counts]
        rates.plot(counts, [f[0] for f in found], marker="o", color=COLORS[name], label=NAMES[name])
        p50, p99 = ([f[i] * 1e3 for f in found] for i in (1, 2))
        latencies.plot(counts, p50, "o-", color=COLORS[name], label=f"{NAMES[name]}, p50")
        latencies.plot(counts, p99, "^--", color=COLORS[name], label=f"{NAMES[name]}, p99")
    for axis, label in ((rates, "reads/s"), (latencies, "ms")):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(counts, [str(count) for count in counts])
        axis.set_xlabel("clients")
        axis.set_ylabel(label)
        axis.grid(True, which="both", alpha=0.25)
        axis.legend(fontsize=8)
    save(figure, path)


def plot_memory(results, path):
    m = results.content["memory"]
    figure, axis = new_axes(7, 3.4)
    axis.plot([t for t, _ in m["samples"]], [used / MIB for _, used in m["samples"]], color=COLORS["quarry"])
    budget = parse_bytes(m["budget"]) / MIB
    axis.axhline(budget, color="#34495e", linestyle=":", label=f"budget {m['budget']}")
    axis.axhline(budget + 150, color="#34495e", linestyle="--", label="budget + 150 MiB")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("s")
    axis.set_ylabel("MiB, RssAnon + RssShmem")
    axis.legend(fontsize=8)
    save(figure, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="results.json of run.py")
    path = parser.parse_args().results
    results = Results(json.loads(path.read_text()))
    parts = {"questions": (times, plot_questions), "get": (get, None), "accuracy": (accuracy, None),
             "first-picture": (pictures, None), "clients": (many, plot_clients), "wire": (wire, None),
             "memory": (memory, plot_memory)}
    texts = [heading(results), marks(results)]
    for name, (write, plot) in parts.items():
        if results.part(name):
            texts.append(write(results))
            if plot:
                plot(results, path.with_name(f"{name}.png"))
    path.with_name("tables.md").write_text("\n".join([*texts, compared(results)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
