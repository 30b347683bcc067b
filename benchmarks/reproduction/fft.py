"""Rows of docs/reproduction.md: 002, Czechowski et al., On the Communication Complexity of 3D FFTs."""

import json
import subprocess
from pathlib import Path
from typing import Any

# The A that section 3.1.2 of the paper prints.
PRINTED = 6.3

# What counts as agreement: the paper prints two digits or three, "nearly 5" and "as much as 10".
TOLERANCE = 0.06

NOTES = {
    "cores of a CPU in 2020": "6 cores that grow 40.7 times, as printed, are 244: a misprint",
    "memory bandwidth of a CPU in 2020": "the table grows 9.7 times; a doubling in 3.0 years is 10.08 times",
    "its fraction of the peak": "2.8 PF/s are 0.07 % of the 4 EF/s of the same sentence",
    "bus over FFT": "measured on Keeneland; the model has the bus at its nominal 8 GB/s",
    "local transpose over FFT": "measured on Keeneland; the same memory limits both terms, so only A matters",
    "torus3d-ideal faster than torus3d, 2020": "P^(1/6), if equation 4 counts two exchanges, as equation 5 does",
}


def verdict(number: dict[str, Any], value: float) -> str:
    """In a few words: does the model with the printed A give the number, or with which A does it?"""
    paper = number["paper"]
    if number["relation"] != "=":
        agrees = value < paper if number["relation"] == "<" else value > paper
        needed = number["needed_memory_constant"]
        limit = "" if needed is None else f", for A below {needed:.0f}"
        return f"agrees{limit}" if agrees else f"does not follow{limit}"
    deviation = value / paper - 1
    text = f"{abs(100 * deviation):.2g} % {'more' if deviation > 0 else 'less'}"
    if deviation > 1:
        text = f"{value / paper:.3g} times as much"
    if abs(deviation) <= TOLERANCE:
        return f"agrees: {text}"
    needed = number["needed_memory_constant"]
    return text if needed is None else f"{text} with the printed A, needs A = {needed:.3g}"


def rows(programs: Path) -> list[dict[str, Any]]:
    """One row for each number of the paper, with the model's value at the printed A."""
    command = ["fft", "--predictions"]
    done = subprocess.run([programs / "quarry-plan", *command, "--json"], capture_output=True, text=True, check=True)
    found = []
    for number in json.loads(done.stdout)["numbers"]:
        sign = "" if number["relation"] == "=" else f"{number['relation']} "
        value = next(column["value"] for column in number["model"] if column["memory_constant"] == PRINTED)
        found.append(
            {
                "paper": "002",
                "where": number["where"],
                "what": number["what"],
                "unit": number["unit"],
                "paper_value": f"{sign}{number['paper']:g}" if sign else number["paper"],
                "model_value": value,
                "measured_value": None,
                "verdict": verdict(number, value),
                "command": " ".join(["quarry-plan", *command]),
                "note": NOTES.get(number["what"], ""),
            }
        )
    return found
