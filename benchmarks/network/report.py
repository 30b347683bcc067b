#!/usr/bin/env python3
"""Turns results.json of run.py into tables.md in the same folder, and prints it.

Example: report.py build/benchmark-network/edge384-0.0001-interpolate/results.json
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent)]
from common import number, table
from wire import WAYS

ENCODINGS = ("patches", "samples", "coded")
PEERS = ("zarr", "tensorstore", "h5py")


class Results:
    """Medians of the figures."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.rows: list[dict[str, Any]] = content["rows"]

    def median(self, way: str, question: str, contestant: str, figure: str) -> float | None:
        """None if it was not measured."""
        found = [row[figure] for row in self.rows
                 if (row["way"], row["question"], row["contestant"]) == (way, question, contestant)
                 and row[figure] is not None]
        return statistics.median(found) if found else None

    def ways(self) -> list[str]:
        """Ways that were measured."""
        return [way for way in WAYS if any(row["way"] == way for row in self.rows)]

    def contestants(self, way: str) -> list[str]:
        """In the order of the run."""
        return list(dict.fromkeys(row["contestant"] for row in self.rows if row["way"] == way))

    def worst_auto(self, way: str) -> tuple[float, str] | None:
        """Time of `auto` over the best of the three encodings, where it is largest, and the question."""
        worst = None
        for question in self.content["titles"]:
            times = [self.median(way, question, encoding, "seconds") for encoding in ENCODINGS]
            chosen = self.median(way, question, "auto", "seconds")
            known = [seconds for seconds in times if seconds is not None]
            if chosen is not None and known:
                worst = max(worst or (0.0, ""), (chosen / min(known), question))
        return worst

    def trips(self, figure: str) -> float | None:
        """Round trips of the overview in the encoding that is best at it, on the path of 20 ms."""
        path = self.content["paths"].get("campus")
        times = [self.median("campus", "overview", name, figure) for name in (*ENCODINGS, "auto")]
        known = [seconds for seconds in times if seconds is not None]
        return min(known) / path["round_trip"] if path and known else None

    def plane_over_peers(self) -> float | None:
        """Bytes of a coded plane over those of the best peer."""
        ours = self.median("country", "plane-z", "coded", "wire_bytes")
        theirs = [self.median("country", "plane-z", peer, "wire_bytes") for peer in PEERS]
        known = [count for count in theirs if count is not None]
        return ours / min(known) if ours is not None and known else None

    def box_over_wire(self) -> float | None:
        """Time of the box over that of its bytes on the wire."""
        seconds = self.median("campus", "box", "auto", "seconds")
        count = self.median("campus", "box", "auto", "wire_bytes")
        path = self.content["paths"].get("campus")
        return seconds / (count / path["rate"]) if seconds and count and path else None


def milliseconds(seconds: float | None) -> str:
    """"12.3"; "-" where nothing was measured."""
    return "-" if seconds is None else number(1e3 * seconds, 3)


def size(count: float | None) -> str:
    """"1.2 MB"."""
    if count is None:
        return "-"
    for unit, factor in (("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{number(count / factor, 3)} {unit}"
    return f"{count:.0f} B"


def factor(value: float | None) -> str:
    """"1.23"."""
    return "-" if value is None else number(value, 3)


def way_table(results: Results, way: str, figure: str, form: Callable[[float | None], str]) -> str:
    """Questions against contestants."""
    contestants = results.contestants(way)
    rows = []
    for key, title in results.content["titles"].items():
        medians = [results.median(way, key, name, figure) for name in contestants]
        if any(median is not None for median in medians):
            rows.append([title, *map(form, medians)])
    return str(table(["question", *contestants], rows))


def targets(results: Results) -> str:
    """The figures that have a target."""
    auto = [(results.worst_auto(way), way) for way in results.ways()]
    worst = max(((found[0], way, found[1]) for found, way in auto if found), default=None)
    rows = [
        ["smallest answer, cold, TLS and token, in round trips", factor(results.trips("seconds")), "4.3", "3.2"],
        ["the same, warm", factor(results.trips("warm")), "1.1", "1.0"],
        ["plane at full resolution, 40 ms, 100 Mbit/s, ms",
         milliseconds(results.median("country", "plane-z", "auto", "seconds")), "260", "230"],
        ["its coded bytes over those of the best chunked peer", factor(results.plane_over_peers()), "0.033", "0.017"],
        ["box, 20 ms, 1 Gbit/s, over the time that its bytes take on the wire", factor(results.box_over_wire()), "2",
         "1.5"],
        ["`quarry get` of an unaligned 64^3, the whole process, from a directory, ms",
         milliseconds(results.median("loopback", "unaligned", "directory", "process")), "20", "12"],
        ["the same from a server on loopback, ms",
         milliseconds(results.median("loopback", "unaligned", "auto", "process")), "25", "18"],
        ["`auto` over the best of the three encodings" + (f" (worst: {worst[2]}, {worst[1]})" if worst else ""),
         factor(worst[0] if worst else None), "1.2", "1.2"],
    ]
    return str(table(["figure", "measured", "reach", "dream"], rows))


def report(results: Results) -> str:
    """All tables."""
    machine = results.content["machine"]
    parts = [f"{machine['edge']}^3 samples of float32, within {machine['relative']:g} of the range, {machine['codec']},"
             f" patches of {machine['patch']}^3; {machine['processors']} processors ({machine['processor']}), source "
             f"{machine['source']}, {machine['date']}; medians of {machine['repeat']} turns.\n", targets(results)]
    for name, why in results.content["absent"].items():
        parts.append(f"{name} is left out: {why}\n")
    for way in results.ways():
        path = results.content["paths"][way]
        parts.append(f"## {WAYS[way].title}\n\nMeasured with a bare connection: round trip "
                     f"{milliseconds(path['round_trip'])} ms, {number(8e-6 * path['rate'], 3)} Mbit/s.\n")
        for title, figure, form in (
                ("Milliseconds from the question to the array (peers: with opening)", "seconds", milliseconds),
                ("Milliseconds of the process", "process", milliseconds),
                ("Milliseconds of the second read over an open connection", "warm", milliseconds),
                ("Bytes of packets to the client", "wire_bytes", size)):
            parts.append(f"{title}:\n\n{way_table(results, way, figure, form)}")
    return "\n".join(parts)


def main() -> int:
    """See the top."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    args = parser.parse_args()
    text = report(Results(json.loads(args.results.read_text())))
    args.results.with_name("tables.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
