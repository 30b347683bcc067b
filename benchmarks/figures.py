#!/usr/bin/env python3
"""Measures the figures that remote reading aims at, in one run: round trips and planes over paths of packets, the page over
a slow network, loopback next to h5py with zfp and to OpenVisus, decoding next to zfp, and conversion next to its coder.

Runs the other benchmarks with as few questions as the figures need, one after the other, and prints a table of what each
figure is, should reach, and could be. All output goes to one folder (default build/benchmark-figures), with those of the
benchmarks in it. Needs what they need: root for network/run.py, Chromium for web/run.py, the targets of the preset
benchmarks, and a machine with nothing else on it.

Example:                    sudo benchmarks/figures.py
Example, one part again:    sudo benchmarks/figures.py --parts web
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE / "network"), str(HERE)]
from common import ROOT, number, processor, say, source_version, table
from report import Results as NetworkResults

Figure = tuple[str, float | None, str, str]  # its name, the figure, reach, dream


def run(*command: Path | str | int) -> str:
    """Output of a benchmark; its progress is shown."""
    words = ["/usr/bin/python3", *map(str, command)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"figures.py: {' '.join(words)} ended with {done.returncode}")
    return done.stdout


def load(path: Path) -> Any:
    """A file of figures."""
    return json.loads(path.read_text())


def median(values: Iterable[float]) -> float | None:
    """None of nothing."""
    found = list(values)
    return statistics.median(found) if found else None


def over(a: float | None, b: float | None, times: float = 1.0) -> float | None:
    """a / b; None where one was not measured."""
    return times * a / b if a is not None and b is not None else None


# --- network


def measure_network(out: Path) -> Any:
    """Round trips, a plane and a box."""
    run(HERE / "network/run.py", "--out", out / "network", "--repeat", 3, "--ways", "loopback", "campus", "country",
        "--questions", "overview", "line", "plane-z", "plane-coarse", "box", "unaligned")
    return load(next((out / "network").glob("edge384-*/results.json")))


def network_figures(content: Any) -> list[Figure]:
    """From the figures of network/run.py."""
    results = NetworkResults(content)

    def ms(way: str, question: str, contestant: str, figure: str) -> float | None:
        return over(results.median(way, question, contestant, figure), 1e-3)

    trip = content["paths"]["campus"]["round_trip"]
    line = min((seconds for name in ("patches", "samples", "coded", "auto")
                if (seconds := results.median("campus", "line", name, "seconds")) is not None), default=None)
    return [
        ("smallest answer, cold, TLS and token, in round trips: overview of 24³", results.trips("seconds"), "4.3", "3.2"),
        ("the same of a line of 384 samples", over(line, trip), "4.3", "3.2"),
        ("overview, warm, in round trips", results.trips("warm"), "1.1", "1.0"),
        ("plane at full resolution, 40 ms, 100 Mbit/s, ms", ms("country", "plane-z", "auto", "seconds"), "260", "230"),
        ("the same within 4e-3 of the range, ms", ms("country", "plane-coarse", "auto", "seconds"), "", ""),
        ("coded bytes of the plane over those of the best chunked peer", results.plane_over_peers(), "0.033", "0.017"),
        ("256³ box, 20 ms, 1 Gbit/s, over the time of its bytes on the wire", results.box_over_wire(), "2", "1.5"),
        ("`quarry get` of an unaligned 64³, the whole process, directory, ms",
         ms("loopback", "unaligned", "directory", "process"), "20", "12"),
        ("the same from a server over loopback, with TLS, ms", ms("loopback", "unaligned", "auto", "process"), "25", "18"),
    ]


# --- serve


def measure_serve(out: Path) -> Any:
    """Loopback, next to h5py with zfp; the largest field next to OpenVisus."""
    serve = [HERE / "serve/run.py", "--out", out / "serve", "--bin", ROOT / "build/release/bin"]
    run(*serve, "--edge", 256, "--repeat", 9, "--parts", "questions", "get", "--peers", "h5py")
    run(*serve, "--edge", 512, "--repeat", 5, "--parts", "questions", "--peers", "openvisus")
    return {edge: load(next((out / "serve").glob(f"edge{edge}-*/results.json"))) for edge in ("256", "512")}


def serve_figures(content: Any) -> list[Figure]:
    """From the figures of serve/run.py."""
    small, large = content["256"], content["512"]

    def first(results: Any, question: str, contestant: str) -> float | None:
        return median(row["seconds"] for row in results["questions"]
                      if (row["question"], row["contestant"], row["read"]) == (question, contestant, "first"))

    figures: list[Figure] = []
    for question, what, goals in (("full", "256³", (("8", "10"), ("6", "8"))),
                                  ("unaligned", "unaligned 64³", (("10", "12"), ("8", "10"))),
                                  ("overview", "every eighth sample", (("300", "500"), ("200", "350")))):
        peer = first(small, question, "h5py")
        for (contestant, place), (reach, dream) in zip((("directory", "directory"), ("quarry", "server")), goals,
                                                       strict=True):
            figures.append((f"{what}, first read, {place}: h5py + zfp takes so many times as long",
                            over(peer, first(small, question, contestant)), reach, dream))
    command = median(row["command"] for row in small["get"]
                     if (row["question"], row["contestant"]) == ("full", "directory"))
    figures.append(("`quarry get` of 256³ as a process, directory, the same",
                    over(first(small, "full", "h5py"), command), "4", "6"))
    figures.append(("every eighth sample of 512³: speed over OpenVisus'",
                    over(first(large, "overview", "openvisus"), first(large, "overview", "directory")), "1.2", "2"))
    return figures


# --- web


def measure_web(out: Path) -> Any:
    """The page over a slow network."""
    run(HERE / "web/run.py", "--out", out / "web", "--repeat", 5, "--parts", "slow", "bytes", "slow-drag")
    return load(out / "web/results.json")


def web_figures(content: Any) -> list[Figure]:
    """From the figures of web/run.py."""
    now = {what.split(" of ")[0] if what.startswith("first") else what.split(",")[0].split(" to ")[0]: figures["viewer"]
           for what, figures, _, _ in content["rows"]}
    pick = {key: median(values) for key, values in now.items()}
    return [
        ("bytes to a settled view of 512³ in the page, % of those stored", pick["bytes"], "1", "0.4"),
        ("first picture in the page, 20 Mbit/s and 40 ms, ms", pick["first picture"], "550", "400"),
        ("pictures a second of a dragged slice, 20 Mbit/s and 40 ms",
         pick["pictures a second of a slice dragged through 512³"], "15", "30"),
        ("sharp after it stops, ms", pick["sharp after it stops"], "250", "150"),
    ]


# --- codec and writer


def measure_codec(out: Path) -> Any:
    """`interpolate` and zfp on all volumes, in turns."""
    run(HERE / "codec/run.py", "--output", out / "codec", "--no-peers", "--speed", "--repeats", 2, "--isa", "avx2",
        "--tolerances", "1e-2", "1e-3", "1e-4")
    return load(out / "codec/speed.json")


def codec_figures(content: Any) -> list[Figure]:
    """Geometric mean over volumes of float32 and tolerances."""
    speed: dict[tuple[str, float], dict[str, float]] = {}
    for row in content["results"]:
        if row["type"] == "float32":
            speed.setdefault((row["volume"], row["tolerance"]), {})[row["coder"]] = row["decode_mbps"]
    ratios = [both["interpolate"] / both["zfp"] for both in speed.values() if len(both) == 2]
    mean = statistics.geometric_mean(ratios) if ratios else None
    return [("decoding over zfp, float32, AVX2, mean of volumes and tolerances 1e-2 to 1e-4", mean, "5", "6")]


def measure_writer(out: Path) -> Any:
    """One rank for each processor."""
    del out
    said = run(HERE / "writer/large_field.py", "--json", "--edge", 512, "--ranks", os.cpu_count() or 1)
    return json.loads(said.splitlines()[-1])


def writer_figures(content: Any) -> list[Figure]:
    """From the figures of writer/large_field.py."""
    return [("conversion over its coder", content["ratio"], "0.75", "0.9")]


PARTS: dict[str, tuple[Callable[[Path], Any], Callable[[Any], list[Figure]]]] = {
    "network": (measure_network, network_figures), "web": (measure_web, web_figures),
    "serve": (measure_serve, serve_figures), "codec": (measure_codec, codec_figures),
    "writer": (measure_writer, writer_figures)}


def state(now: float | None, reach: str, more_is_better: bool) -> str:
    """Whether a figure has reached its aim."""
    if now is None or not reach:
        return ""
    return "reached" if (now >= float(reach) if more_is_better else now <= float(reach)) else "missed"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmark-figures", help="for everything")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS), help="others keep their figures")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "figures.json"
    kept = load(path) if path.exists() else {}
    for part in args.parts:
        say(part)
        kept[part] = {"content": PARTS[part][0](args.out), "source": source_version(),
                      "date": datetime.datetime.now().isoformat(timespec="minutes")}
        path.write_text(json.dumps(kept))
    rows = []
    for part, (_, figures_of) in PARTS.items():
        if part not in kept:
            continue
        for what, now, reach, dream in figures_of(kept[part]["content"]):
            better = bool(reach) and float(dream) > float(reach)
            rows.append([what, "-" if now is None else number(now, 3), reach, dream, state(now, reach, better)])
    text = table(["", "now", "reach", "dream", ""], rows)
    sources = ", ".join(f"{part} {kept[part]['date']} {kept[part]['source']}" for part in PARTS if part in kept)
    (args.out / "tables.md").write_text(text)
    print(f"{text}\n{processor()[0]}, {os.cpu_count()} processors; {sources}")


if __name__ == "__main__":
    main()
