#!/usr/bin/env python3
"""Turns results.json of run.py into tables.md and rate-distortion.png, in the same folder.

Example: report.py build/benchmark/results.json
"""

import argparse
import itertools
import json
import math
import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from common import number, table

# Order in tables and plot; missing measurements are left out.
LOSSY = ["interpolate", "wavelet-zfp", "zfp", "zfp-tuned", "sz3-3.4.0", "sz3-3.3.2", "sz3-hdf5plugin", "qoz", "sperr", "zfp, whole"]
PROGRESSIVE = ["sz3-progressive", "prodm"]
LOSSLESS_PEERS = ["zfp-reversible", "shuffle-zstd-1", "shuffle-zstd-3"]
WHOLE_LOSSLESS_PEERS = ["pcodec", "fpzip", "blosc2"]
LOSSLESS = ["lossless"] + LOSSLESS_PEERS + ["zstd-1", "zstd-3"] + WHOLE_LOSSLESS_PEERS
# [dB] The first three are those of the data sets of paper 000, table I, which it stores 7.1, 13.2 and 10.6 times smaller.
PSNRS = [33.9, 35.6, 37.7, 60, 80, 100]
OURS = ["interpolate", "wavelet-zfp", "lossless"]
CURVES = {
    "interpolate": dict(color="#c0392b", marker="o", linewidth=2.2),
    "wavelet-zfp": dict(color="#e08e0b", marker="s", linewidth=1.8),
    "zfp": dict(color="#7f8c8d", marker="x", linestyle="--"),
    "zfp-tuned": dict(color="#34495e", marker="x"),
    "sz3": dict(color="#1f77b4", marker="^"),
    "sperr": dict(color="#2a9d55", marker="v"),
}


def speed(result, what):
    """Empty for peers from sources, whose programs read and write files."""
    return f"{result[f'{what}_mbps']:.0f}" if f"{what}_mbps" in result else ""


def label(result):
    return "zfp, whole" if (result["program"], result["coder"]) == ("peers", "zfp") else result["coder"]


class Results:
    def __init__(self, content):
        self.machine = content["machine"]
        self.patch = content["patch"]
        self.all = [result for result in content["results"] if "ladder" not in result]
        self.progressive = {(r["volume"], r["coder"]): r["ladder"] for r in content["results"] if "ladder" in r}
        self.ladders = content["ladders"]
        self.volumes = list(dict.fromkeys(result["volume"] for result in self.all))
        self.tolerances = sorted({r["tolerance"] for r in self.all if "tolerance" in r}, reverse=True)
        self._main = {(r["volume"], label(r), r.get("tolerance")): r for r in self.all if self._is_main(r)}

    def _is_main(self, result):
        """Peers, and coders with the best instructions at the first size of patch."""
        return result["program"] in ("peers", "source_peers") or (result["isa"] == "best" and max(result["patch"]) == self.patch)

    def get(self, volume, coder, tolerance=None):
        return self._main.get((volume, coder, tolerance))

    def coders(self, wanted):
        return [coder for coder in wanted if any(key[1] == coder for key in self._main)]

    def newest_sz3(self):
        found = [coder for coder in self.coders(LOSSY) if coder.startswith("sz3-")]
        return found[0] if found else None

    def lossy_volumes(self):
        return [v for v in self.volumes if any(key[0] == v and key[2] is not None for key in self._main)]

    def lossless_volumes(self):
        return [v for v in self.volumes if self.get(v, "zstd-1")]


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def ratios(results):
    """One row per volume and tolerance, one column per coder."""
    coders = results.coders(LOSSY)
    rows = []
    for volume in results.lossy_volumes():
        for tolerance in results.tolerances:
            found = [results.get(volume, coder, tolerance) for coder in coders]
            if any(found):
                rows.append([volume, f"{tolerance:g}"] + [number(r["ratio"]) if r else "" for r in found])
    return "## Ratios\n\nBytes of the samples over payload bytes, masks included.\n\n" + table(["volume", "tolerance"] + coders, rows)


def means_against(results, reference, field="ratio"):
    """Rows of geometric means of coder over `reference`, with the number of volumes where it is at least as good."""
    rows = []
    for coder in results.coders(LOSSY):
        if coder == reference:
            continue
        row = [coder + (", with patch table" if field == "ratio_with_table" else "")]
        for tolerance in results.tolerances:
            pairs = [(results.get(v, coder, tolerance), results.get(v, reference, tolerance)) for v in results.lossy_volumes()]
            quotients = [ours[field] / theirs["ratio"] for ours, theirs in pairs if ours and theirs and field in ours]
            wins = sum(quotient >= 1 for quotient in quotients)
            row.append(f"{geometric_mean(quotients):.3f} ({wins} of {len(quotients)})" if quotients else "")
        if any(row[1:]):
            rows.append(row)
    return rows


def means(results):
    text = "## Geometric means against SZ3\n\nRatio over that of SZ3 on the same volume; in brackets the number of volumes where it is at least as good.\n"
    # The SZ3 of hdf5plugin is the oldest: a yardstick only where there is no other.
    for reference in [c for c in results.coders(LOSSY) if c.startswith("sz3-")][:2]:
        rows = means_against(results, reference)
        rows += [row for row in means_against(results, reference, "ratio_with_table") if row[0].split(",")[0] in OURS]
        text += f"\nAgainst {reference}:\n\n" + table(["coder"] + [f"{t:g}" for t in results.tolerances], rows)
    return text


def at_psnr(results, volume, coder, psnr):
    """The ratio of a coder at a PSNR [dB]: between the measured tolerances, log(ratio) is taken as linear in the PSNR."""
    found = [results.get(volume, coder, tolerance) for tolerance in results.tolerances]
    points = sorted((r["psnr"], math.log(r["ratio"])) for r in found if r and r["psnr"] is not None)
    for (low, first), (high, second) in itertools.pairwise(points):
        if low <= psnr <= high:
            return math.exp(first + (second - first) * ((psnr - low) / (high - low) if high > low else 0))
    return None


def equal_psnr(results):
    """One row per volume and PSNR at which two coders at least were measured, one column per coder."""
    coders = results.coders(LOSSY)
    rows = []
    for volume in results.lossy_volumes():
        for psnr in PSNRS:
            found = [at_psnr(results, volume, coder, psnr) for coder in coders]
            if sum(ratio is not None for ratio in found) > 1:
                rows.append([volume, f"{psnr:g}"] + [number(ratio) if ratio else "" for ratio in found])
    return ("## Ratios at equal PSNR\n\nCoders that use up a tolerance differ in how evenly they do: at the same tolerance one has the smaller mean "
            "error. Interpolated between the tolerances; empty where they do not reach. 33.9, 35.6 and 37.7 dB are those of "
            "the data sets of paper 000, which stores them 7.1, 13.2 and 10.6 times smaller.\n\n" + table(["volume", "PSNR dB"] + coders, rows))


def details(results):
    """All figures, a table for each volume."""
    header = ["tolerance", "coder", "ratio", "with patch table", "bits a sample", "largest error / tolerance", "PSNR dB", "encode MB/s",
              "decode MB/s"]
    text = "## All figures by volume\n"
    for volume in results.lossy_volumes():
        rows = []
        for tolerance in results.tolerances:
            for coder in results.coders(LOSSY):
                r = results.get(volume, coder, tolerance)
                if not r:
                    continue
                rows.append([f"{tolerance:g}", coder, number(r["ratio"]), number(r["ratio_with_table"]) if coder in OURS else "",
                             number(r["bits_per_sample"], 3), f"{r['error_over_tolerance']:.3f}",
                             f"{r['psnr']:.1f}" if r["psnr"] is not None else "inf", speed(r, "encode"), speed(r, "decode")])
        filled = any(r["volume"] == volume and r.get("filled_before") for r in results.all)
        note = "\nPeers and zfp alone got this volume with missing samples replaced smoothly; the bytes of a mask beside are in their ratios.\n" if filled else ""
        text += f"\n### {volume}\n{note}\n" + table(header, rows)
    return text


def lossless(results):
    coders = results.coders(LOSSLESS)
    rows = []
    for volume in results.lossless_volumes():
        row = [volume]
        for coder in coders:
            r = results.get(volume, coder)
            row.append(f"{r['ratio']:.3f}: {r['encode_mbps']:.0f}, {r['decode_mbps']:.0f}" if r else "")
        rows.append(row)
    return "## Lossless\n\nRatio: MB/s of encoding, decoding.\n\n" + table(["volume"] + coders, rows)


def sz3_of_each(results, volume, tolerances):
    """Bytes of SZ3 coded anew for each tolerance, over those of the last one alone; None: not measured."""
    found = [results.get(volume, results.newest_sz3(), tolerance) for tolerance in tolerances]
    return sum(r["bytes"] for r in found) / found[-1]["bytes"] if all(found) else None


def ladders(results):
    rows, quotients = [], {}
    for r in results.ladders:
        steps = r["ladder"]
        tolerances = [step["tolerance"] for step in steps]
        name = ", ".join(f"{t:g}" if t else "exact" for t in tolerances)
        last = steps[-1]["bytes_alone"] + r["mask_bytes"]
        quotient = (sum(step["bytes"] for step in steps) + r["mask_bytes"]) / last
        quotients.setdefault(name, []).append(quotient)
        sz3 = sz3_of_each(results, r["volume"], tolerances)
        rows.append([r["volume"], name, f"{quotient:.3f}", f"{steps[0]['bytes'] / last:.1%}", f"{sz3:.3f}" if sz3 else "",
                     " ".join(f"{step['decode_mbps'] / steps[0]['decode_mbps']:.2f}" for step in steps[1:]),
                     " ".join(f"{step['decode_mbps'] / step['decode_mbps_alone']:.2f}" for step in steps[1:])])
    rows += [["geometric mean", name, f"{geometric_mean(found):.3f}", "", "", "", ""] for name, found in quotients.items()]
    if not rows:
        return ""
    return ("## Layers of accuracy\n\nBytes of all layers over those of the last tolerance alone, with masks; exact alone is `lossless`. The first "
            "layer's share of the same. SZ3 of each: a stream for every tolerance over that of the last one. Speed of decoding of each further "
            "layer over that of the first, and over that of the same tolerance alone.\n\n"
            + table(["volume", "layers", "all / last alone", "first / last alone", "SZ3 of each", "decoding / first",
                     "decoding / alone"], rows))


def progressive(results):
    """Layers beside progressive coders, in bits a sample: for the first tolerance, and for the last with all before."""
    rows = []
    for r in results.ladders:
        tolerances = [step["tolerance"] for step in r["ladder"]]
        theirs = [results.progressive.get((r["volume"], coder)) for coder in PROGRESSIVE]
        theirs = [found if found and [step["tolerance"] for step in found] == tolerances else None for found in theirs]
        if not any(theirs):
            continue
        bits = 8 / math.prod(r["dims"])
        sz3 = [results.get(r["volume"], results.newest_sz3(), tolerance) for tolerance in tolerances]
        row = [(r["ladder"][0]["bytes"] + r["mask_bytes"], sum(step["bytes"] for step in r["ladder"]) + r["mask_bytes"]),
               (sz3[0]["bytes"], sum(each["bytes"] for each in sz3)) if all(sz3) else None]
        row += [(found[0]["bytes"], found[-1]["bytes"]) if found else None for found in theirs]
        rows.append([r["volume"], ", ".join(f"{t:g}" for t in tolerances)]
                    + [f"{pair[0] * bits:.3f}, {pair[1] * bits:.3f}" if pair else "" for pair in row])
    if not rows:
        return ""
    return ("## Layers beside progressive coders\n\nBits a sample that are read for the first tolerance, and for the last one with all before it. SZ3 has "
            "a stream for each. The others read the first of their steps whose largest error is within the tolerance.\n\n"
            + table(["volume", "layers", "interpolate", "SZ3 of each", *PROGRESSIVE], rows))


def spread(values):
    values = sorted(values)
    return f"{geometric_mean(values):.2f}, {values[0]:.2f} to {values[-1]:.2f}"


def speed_rows(results):
    """`interpolate` over zfp at the same tolerance, each pair from one run in turns, by instruction set."""
    rows = []
    pairs = {}
    for r in results.all:
        if r["program"] == "codec_bench" and r["coder"] in ("interpolate", "zfp") and max(r["patch"]) == results.patch:
            pairs.setdefault((r["isa"], r["type"], r["volume"], r["tolerance"]), {})[r["coder"]] = r
    for isa in dict.fromkeys(key[0] for key in pairs):
        for kind in ("float32", "float64"):
            chosen = [p for key, p in pairs.items() if key[:2] == (isa, kind) and len(p) == 2]
            for what in ("decode", "encode") if chosen else ():
                quotients = [p["interpolate"][f"{what}_mbps"] / p["zfp"][f"{what}_mbps"] for p in chosen]
                speeds = sorted(p["interpolate"][f"{what}_mbps"] for p in chosen)
                rows.append([f"interpolate {what} / zfp {what}, {isa}, {kind}", spread(quotients),
                             f"{speeds[0]:.0f} / {statistics.median(speeds):.0f} / {speeds[-1]:.0f} MB/s", f"{len(chosen)} pairs"])
    return rows


def ratio_rows(results):
    rows = []
    reference = results.newest_sz3()
    if reference is None:
        return rows
    for coder in [c for c in ("interpolate", "wavelet-zfp") if c in results.coders(LOSSY)]:
        quotients = [r["ratio"] / theirs["ratio"] for (v, c, t), r in results._main.items() if c == coder
                     and (theirs := results.get(v, reference, t))]
        if quotients:
            rows.append([f"{coder} ratio / {reference} ratio", spread(quotients), "",
                         f"at least as good in {sum(q >= 1 for q in quotients)} of {len(quotients)}"])
    return rows


def lossless_rows(results):
    measured = [(v, results.get(v, "lossless")) for v in results.lossless_volumes() if results.get(v, "lossless")]
    if not measured:
        return []
    rows = []
    for peers in (LOSSLESS_PEERS, LOSSLESS_PEERS + ["zstd-1", "zstd-3"], WHOLE_LOSSLESS_PEERS):
        if not results.coders(peers):
            continue
        quotients, below = [], []
        for volume, r in measured:
            best = max((results.get(volume, peer)["ratio"] for peer in peers if results.get(volume, peer)), default=None)
            if best is None:
                continue
            quotients.append(r["ratio"] / best)
            if r["ratio"] < best:
                below.append(volume)
        note = f"at least as good in {len(quotients) - len(below)} of {len(quotients)}"
        rows.append(["lossless ratio / best of " + ", ".join(peers), spread(quotients), "",
                     note + (f"; not on {', '.join(below)}" if below else "")])
    decode = sorted(r["decode_mbps"] for _, r in measured)
    return rows + [["lossless decode", "", f"{decode[0]:.0f} / {statistics.median(decode):.0f} / {decode[-1]:.0f} MB/s", f"{len(decode)} volumes"]]


def record_rows(results):
    rows = []
    for coder in [c for c in OURS if c in results.coders(LOSSY + LOSSLESS)]:
        shares = [r["record_share"] for (_, c, _), r in results._main.items() if c == coder and "record_share" in r]
        if not shares:
            continue
        rows.append([f"{coder}: share of the error record in the time of EncodePatch", f"median {statistics.median(shares):.1%}",
                     f"{min(shares):.1%} to {max(shares):.1%}", f"{len(shares)} runs"])
    return rows


def acceptance(results):
    rows = ratio_rows(results) + speed_rows(results) + lossless_rows(results) + record_rows(results)
    return ("## Acceptance\n\nQuotients: geometric mean, smallest to largest. Speeds: smallest / median / largest.\n\n"
            + table(["what", "quotient", "range", "of"], rows))


def levels(results):
    """Decoding level by level, on the largest volume at the middle tolerance."""
    candidates = [r for r in results._main.values() if "levels" in r and "tolerance" in r]
    if not candidates:
        return ""
    volume = max(candidates, key=lambda r: math.prod(r["dims"]))["volume"]
    tolerance = results.tolerances[len(results.tolerances) // 2]
    chosen = [r for r in candidates if r["volume"] == volume and r["tolerance"] == tolerance]
    exact = results.get(volume, "lossless")
    chosen += [exact] if exact else []
    rows = []
    for number_of_level in range(len(chosen[0]["levels"]) if chosen else 0):
        row = [str(number_of_level), str(chosen[0]["levels"][number_of_level]["samples"])]
        for r in chosen:
            level = r["levels"][number_of_level]
            row += [str(level["bytes"]), f"{level['decode_ns_per_sample']:.2f}"]
        rows.append(row)
    header = ["level", "samples"] + [f"{r['coder']} {what}" for r in chosen for what in ("bytes", "ns a sample")]
    return (f"## Decoding by level\n\n{volume} at {tolerance:g}, all patches. Nanoseconds are for a sample of that level, from the level before; the "
            f"coarsest includes making the decoder.\n\n" + table(header, rows))


def patch_sizes(results):
    """Ratio and speed by size of patch, where several were measured."""
    sizes = sorted({max(r["patch"]) for r in results.all if "patch" in r})
    if len(sizes) < 2:
        return ""
    by_size = {(r["volume"], r["coder"], r.get("tolerance"), max(r["patch"])): r for r in results.all
               if r["program"] == "codec_bench" and r["isa"] == "best"}
    rows = []
    for coder in results.coders(OURS):
        for tolerance in results.tolerances + [None]:
            row = [coder, f"{tolerance:g}" if tolerance else "lossless"]
            for size in sizes:
                # The same volumes for every size.
                volumes = [v for v in results.volumes if all((v, coder, tolerance, s) in by_size for s in sizes)]
                found = [by_size[v, coder, tolerance, size] for v in volumes]
                row += [f"{geometric_mean([r['ratio_with_table'] for r in found]):.3f}: "
                        f"{geometric_mean([r['decode_mbps'] for r in found]):.0f}"] if found else [""]
            if any(row[2:]):
                rows.append(row)
    return ("## Sizes of patches\n\nGeometric means over the volumes: ratio with patch table: MB/s of decoding.\n\n"
            + table(["coder", "tolerance"] + [f"{size}^3" for size in sizes], rows))


def heading(results):
    m = results.machine
    return (f"# Coders compared\n\n{m['processor']}, {m['processors']} processors, pinned to number {m['pinned_to']}; load average "
            f"{m['load_before'][0]:.1f} before, {m['load_after'][0]:.1f} after; {m['date']}; source {m['source']}. One thread, in memory. Coders, zfp and "
            f"zstd on patches of {results.patch}^3 in turns, the best of {m['repeats']} times of each patch; zfp-tuned is zfp at equal true error. SZ3, SPERR, "
            f"\"zfp, whole\", pcodec, fpzip, blosc2 and what is built from sources on whole volumes. MB/s are 1e6 bytes of samples a second.\n")


def plot(results, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    volumes = results.lossy_volumes()
    columns = min(3, len(volumes))
    rows = math.ceil(len(volumes) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5.2 * columns, 4.2 * rows), squeeze=False)
    drawn = {}
    for axis, volume in zip(axes.flat, volumes):
        for coder in [c for c in LOSSY if curve_style(c, results)]:
            points = [results.get(volume, coder, tolerance) for tolerance in results.tolerances]
            points = sorted((r["bits_per_sample"], r["psnr"]) for r in points if r and r["psnr"] is not None)
            if points:
                drawn[coder], = axis.plot(*zip(*points), markersize=5, **curve_style(coder, results))
        axis.set_xscale("log")
        axis.set_title(volume)
        axis.set_xlabel("bits a sample")
        axis.set_ylabel("PSNR [dB]")
        axis.grid(True, which="both", alpha=0.25)
        axis.xaxis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in axes.flat[len(volumes):]:
        axis.axis("off")
    figure.legend(drawn.values(), drawn.keys(), loc="lower center", ncols=len(drawn), frameon=False)
    figure.tight_layout(rect=(0, 0.6 / (4.2 * rows), 1, 1))
    figure.savefig(path, dpi=110)


def curve_style(coder, results):
    """None: not in the plot, which has only the newest version of SZ3."""
    return CURVES.get("sz3") if coder == results.newest_sz3() else CURVES.get(coder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="results.json of run.py")
    path = parser.parse_args().results
    results = Results(json.loads(path.read_text()))
    parts = [heading(results), acceptance(results), means(results), ratios(results), equal_psnr(results), ladders(results), progressive(results),
             lossless(results), levels(results), patch_sizes(results), details(results)]
    path.with_name("tables.md").write_text("\n".join(part for part in parts if part))
    if results.lossy_volumes():
        plot(results, path.with_name("rate-distortion.png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
