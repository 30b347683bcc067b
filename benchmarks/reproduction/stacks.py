"""Rows of docs/reproduction.md: 001, Marrinan et al., tables II and III, loading stacks of images.

Table III is counted. Table II is modelled with constants that are fitted to it, and measured at 8 ranks on a generated
stack of TIFF images.
"""

import hashlib
import json
import shutil
import statistics
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.running import (
    AGREES,
    FAILS,
    HOLDS,
    NOT_IN_PAPER,
    Command,
    Row,
    agreement,
    cores,
    deviation,
    row,
    this_module,
)

EDGES = (3, 4, 5, 6)  # ranks along each axis
READINGS = ("direct", "round-robin", "consecutive")
SECONDS = {
    "direct": (283.0, 204.6, 188.2, 165.3),
    "round-robin": (39.3, 18.9, 11.1, 9.7),
    "consecutive": (49.2, 18.9, 10.4, 6.6),
}
CONSECUTIVE_MIB = (4315.12, 1920.00, 1006.63, 589.95)
ROUND_ROBIN = ((152, 30.81), (64, 31.50), (33, 31.74), (19, 31.85))

TABLE_3 = (
    "the paper's MB are MiB, 128 GiB / k^3 (1 - 1/k^2) and 32 (1 - 1/k^3) of even shares; quarry-reproduce counts shares "
    "of whole samples and images"
)

# The paper's 4096x2048x4096, an eighth along x and y and a sixteenth along z.
DIMS = (512, 256, 256)
RANKS = 8
REPEAT = 3

# A size of table III agrees within this fraction.
WITHIN = 0.005


def plan(edge: int, reading: str) -> Command:
    """The paper's stack on edge^3 ranks."""
    return Command(
        "quarry-reproduce",
        "stack",
        "--dims",
        "4096x2048x4096",
        "--type",
        "float32",
        "--ranks",
        f"{edge}x{edge}x{edge}",
        "--reading",
        reading,
    )


def table_3(programs: Path) -> list[Row]:
    """Rounds and MiB of a rank in a round."""
    rows = []
    for edge, mib, (rounds, round_mib) in zip(EDGES, CONSECUTIVE_MIB, ROUND_ROBIN, strict=True):
        for reading, size, count in (("consecutive", mib, 1), ("round-robin", round_mib, rounds)):
            command = plan(edge, reading)
            answer = command.answer(programs)
            what = f"{reading}, {edge**3} ranks"
            rows.append(
                row(
                    "001",
                    "table III",
                    f"rounds, {what}",
                    paper_value=count,
                    model_value=answer["rounds"],
                    verdict=AGREES if answer["rounds"] == count else "differs",
                    command=command,
                )
            )
            sent = answer["mib_per_rank_per_round"]
            # The printed digits are rounded, or cut off.
            close = abs(sent - size) < 0.01
            rows.append(
                row(
                    "001",
                    "table III",
                    f"sent in a round, {what}",
                    paper_value=f"{size:.2f} MB",
                    model_value=f"{sent:.2f} MiB",
                    verdict=AGREES if close else agreement(sent, size, WITHIN),
                    command=command,
                    note=TABLE_3,
                )
            )
    return rows


def table_2(programs: Path) -> list[Row]:
    """Seconds, from the model that is fitted to them."""
    rows = []
    modelled: dict[tuple[str, int], float] = {}
    for reading in READINGS:
        for edge, paper in zip(EDGES, SECONDS[reading], strict=True):
            command = plan(edge, reading)
            seconds = float(command.answer(programs)["seconds"]["total"])
            modelled[reading, edge] = seconds
            rows.append(
                row(
                    "001",
                    "table II",
                    f"load, {reading}, {edge**3} ranks",
                    "s",
                    paper_value=paper,
                    model_value=round(seconds, 1),
                    verdict=f"fitted: {deviation(seconds, paper)}",
                    command=command,
                    note="five constants fitted to these twelve times",
                )
            )
    speedup = modelled["direct", 6] / modelled["consecutive", 6]
    rows.append(
        row(
            "001",
            "section IV.A",
            "direct over consecutive, 216 ranks",
            paper_value=24.9,
            model_value=round(speedup, 1),
            verdict=f"fitted: {deviation(speedup, 24.9)}",
            command=[plan(6, "direct"), plan(6, "consecutive")],
            note="165.3 s / 6.6 s are 25.0; the model is fitted to both",
        )
    )
    return rows


def write_image(path: Path, image: "np.ndarray[Any, np.dtype[np.float32]]") -> None:
    """A TIFF file of one strip of float32, deflated."""
    data = zlib.compress(image.astype("<f4").tobytes(), 1)
    height, width = image.shape
    short, long = 3, 4
    tags = [
        (256, long, width),
        (257, long, height),
        (258, short, 32),
        (259, short, 8),
        (262, short, 1),
        (273, long, 8),
        (277, short, 1),
        (278, long, height),
        (279, long, len(data)),
        (339, short, 3),
    ]
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", t, kind, 1, v) for t, kind, v in tags)
    padding = b"\0" * (len(data) % 2)
    path.write_bytes(
        struct.pack("<2sHI", b"II", 42, 8 + len(data) + len(padding)) + data + padding + directory + b"\0\0\0\0"
    )


def write_stack(folder: Path) -> None:
    """Smooth waves and a little noise; the same in every run."""
    folder.mkdir()
    random = np.random.default_rng(1)
    x, y = np.arange(DIMS[0], dtype=np.float32), np.arange(DIMS[1], dtype=np.float32)[:, None]
    for z in range(DIMS[2]):
        image = np.sin(x / 21 + z / 17) * np.cos(y / 13 - z / 29)
        image += random.integers(0, 4, image.shape).astype(np.float32) / 4096
        write_image(folder / f"image_{z:04d}.tif", image.astype(np.float32))


def convert(stack: Path, folder: Path, reading: str, ranks: int) -> tuple[Command, Path]:
    """The command that reads the stack, and its report."""
    report = folder / "report.json"
    command = Command(
        "quarry-write",
        stack,
        "--reading",
        reading,
        "--tolerance",
        "1e-3",
        "--files",
        2,
        "--output",
        folder / "out.quarry",
        "--report",
        report,
        ranks=ranks,
    )
    return command, report


def digest(dataset: Path) -> str:
    """Digest of the bytes of all subfiles."""
    total = hashlib.sha256()
    for path in sorted(dataset.rglob("*.qsf")):
        total.update(path.read_bytes())
    return total.hexdigest()


def load_seconds(stack: Path, folder: Path, reading: str, ranks: int, programs: Path) -> tuple[float, float, int, str]:
    """Medians of the seconds of reading, and of reading and exchange; images decoded; digest of the dataset."""
    read, both = [], []
    for _ in range(REPEAT):
        shutil.rmtree(folder / "out.quarry", ignore_errors=True)
        command, report = convert(stack, folder, reading, ranks)
        command.run(programs)
        told = json.loads(report.read_text())
        read.append(told["seconds"]["read"])
        both.append(told["seconds"]["read"] + told["seconds"]["exchange"])
    images = int(told["fields"][0]["images_read"])
    return statistics.median(read), statistics.median(both), images, digest(folder / "out.quarry")


def machine(alone: float) -> list[str]:
    """Constants for quarry-reproduce stack, from the seconds in which one rank reads the stack."""
    size = DIMS[0] * DIMS[1] * DIMS[2] * 4 / 2**20
    # A rank with a core of its own decodes like one alone; where ranks share cores, each is so much slower.
    shared = (RANKS / min(RANKS, cores()) - 1) / RANKS
    constants = {"decode_s_per_mib": alone / size, "decode_slower_per_reader": shared}
    return [word for key, value in constants.items() for word in ("--set", f"{key}={value:.3g}")]


def load_row(reading: str, command: Command, model: float, seconds: float, images: int) -> Row:
    """A time of this machine."""
    return row(
        "001",
        "table II",
        f"load, {reading}, {RANKS} ranks on {cores()} cores, {'x'.join(map(str, DIMS))}",
        "s",
        model_value=round(model, 2),
        measured_value=round(seconds, 2),
        verdict=f"{NOT_IN_PAPER}: the model says {deviation(model, seconds)} than measured",
        command=[this_module("stacks"), command],
        note=f"{images} images decoded; the stack is generated",
    )


def measured(programs: Path) -> list[Row]:
    """The three readings at 8 ranks, and what the model says with the decoding of this machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stack = folder / "scan"
        write_stack(stack)
        alone, _, _, expected = load_seconds(stack, folder, "consecutive", 1, programs)
        seconds, images, same = {}, {}, True
        for reading in READINGS:
            _, seconds[reading], images[reading], found = load_seconds(stack, folder, reading, RANKS, programs)
            same = same and found == expected
    rows, model = [], {}
    words = ("--dims", "x".join(map(str, DIMS)), "--ranks", "2x2x2", *machine(alone), "--reading")
    for reading in READINGS:
        command = Command("quarry-reproduce", "stack", *words, reading)
        model[reading] = float(command.answer(programs)["seconds"]["total"])
        rows.append(load_row(reading, command, model[reading], seconds[reading], images[reading]))
    quotient = seconds["direct"] / seconds["consecutive"]
    rows.append(
        row(
            "001",
            "table II",
            f"direct over consecutive, {RANKS} ranks on {cores()} cores",
            model_value=round(model["direct"] / model["consecutive"], 1),
            measured_value=round(quotient, 1),
            verdict="agrees in the order: direct is slower" if quotient > 1 else "differs: direct is not slower",
            command=this_module("stacks"),
            note="direct decodes each image on 4 of 8 ranks",
        )
    )
    rows.append(
        row(
            "001",
            "section IV.A",
            "datasets of the three readings and of one rank are the same bytes",
            measured_value="yes" if same else "no",
            verdict=HOLDS if same else FAILS,
            command=this_module("stacks"),
        )
    )
    return rows


def modelled(programs: Path) -> list[Row]:
    """The rows of tables II and III, on the paper's machine."""
    return table_3(programs) + table_2(programs)
