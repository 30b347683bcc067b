"""Rows of docs/reproduction.md: 002, Czechowski et al., On the Communication Complexity of 3D FFTs."""

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
from reproduction.running import AGREES, FAILS, HOLDS, Command, Drawing, Row, row

# The A that section 3.1.2 of the paper prints, and the one that gives most of its numbers of 2020.
PRINTED = 6.3
NEEDED = 75

# Deviation that counts as agreement: the paper prints two digits or three, "nearly 5" and "as much as 10".
TOLERANCE = 0.06

NUMBERS = Command("quarry-reproduce", "fft", "--predictions")
FIGURES = {PRINTED: NUMBERS, NEEDED: Command("quarry-reproduce", "fft", "--predictions", "--memory-constant", NEEDED)}

NOTES = {
    "cores of a CPU in 2020": "6 cores that grow 40.7 times, as printed, are 244: a misprint",
    "memory bandwidth of a CPU in 2020": "the table grows 9.7 times; a doubling in 3.0 years is 10.08 times",
    "its fraction of the peak": "2.8 PF/s are 0.07 % of the 4 EF/s of the same sentence",
    "bus over FFT": "measured on Keeneland; the model has the bus at its nominal 8 GB/s",
    "local transpose over FFT": "measured on Keeneland; the same memory limits both terms, so only A matters",
    "torus3d-ideal faster than torus3d, 2020": "P^(1/6), if equation 4 counts two exchanges, as equation 5 does",
}
PLOTTED = "the plot has the printed A = 6.3, and 75, which most numbers of 2020 need"


def verdict(number: dict[str, Any], value: float) -> str:
    """In a few words: does the model with the printed A give the number, or with which A does it?"""
    paper = number["paper"]
    needed = number["needed_memory_constant"]
    if number["relation"] != "=":
        agrees = value < paper if number["relation"] == "<" else value > paper
        limit = "" if needed is None else f", for A below {needed:.0f}"
        return f"{HOLDS if agrees else FAILS}{limit}"
    deviation = value / paper - 1
    text = f"{abs(100 * deviation):.2g} % {'more' if deviation > 0 else 'less'}"
    if deviation > 1:
        text = f"{value / paper:.3g} times as much"
    if abs(deviation) <= TOLERANCE:
        return AGREES if abs(deviation) < 1e-6 else f"{AGREES}: {text}"
    if needed is None:
        return f"differs: {text}"
    return f"differs: {text} with A = {PRINTED}; the paper's number needs A = {needed:.3g}"


def numbers(answer: Any) -> list[Row]:
    """One row for each number of the text, with the model's value at the printed A."""
    found = []
    for number in answer["numbers"]:
        sign = "" if number["relation"] == "=" else f"{number['relation']} "
        value = next(column["value"] for column in number["model"] if column["memory_constant"] == PRINTED)
        found.append(
            row(
                "002",
                number["where"],
                number["what"],
                number["unit"],
                paper_value=f"{sign}{number['paper']:g}" if sign else number["paper"],
                model_value=value,
                verdict=verdict(number, value),
                command=NUMBERS,
                note=NOTES.get(number["what"], ""),
            )
        )
    return found


def figure_5(answers: dict[float, Any]) -> list[Row]:
    """Statements of the text about the bars; it prints no seconds but 0.528, which is a row of prediction 2."""
    bars = {bar["system"]: bar for bar in answers[PRINTED]["figure_5"]}
    total = {name: bar["memory_s"] + bar["network_s"] for name, bar in bars.items()}
    network = {name: bar["network_s"] / bars["GPU"]["network_s"] for name, bar in bars.items()}
    longer = {name: max(bar["memory_s"], bar["network_s"]) for name, bar in bars.items()}
    memory = bars["CPU-2"]["memory_s"] / bars["GPU"]["memory_s"]
    found = [
        ("CPU-2: time over that of the GPU system", "1", total["CPU-2"] / total["GPU"], None),
        ("CPU-2: memory time over that of the GPU system", "above 1", memory, memory > 1),
        ("CPU-3: the longer term over that of the GPU system", "1", longer["CPU-3"] / longer["GPU"], None),
        *(
            (f"{name}: network time over that of the GPU system", "below 1", network[name], network[name] < 1 - 1e-6)
            for name in ("CPU-1", "CPU-2", "CPU-3")
        ),
    ]
    equal = "CPU-3 has as many nodes as the GPU system, where A = 6.3; with A = 75 it has more, and less network time"
    drawing = Drawing("002-figure-5", "figure 5: the systems of 2020", lambda figure: draw_bars(figure, answers))
    return [
        row(
            "002",
            "figure 5",
            what,
            paper_value=paper,
            model_value=f"{value:.3g}",
            verdict=HOLDS if (abs(value - 1) < 0.001 if holds is None else holds) else FAILS,
            command=list(FIGURES.values()),
            note=equal if what.startswith("CPU-3: network") else PLOTTED,
            drawing=drawing,
        )
        for what, paper, value, holds in found
    ]


def figure_6(answers: dict[float, Any]) -> list[Row]:
    """How the ratio of memory to network time grows."""
    found = []
    drawing = Drawing("002-figure-6", "figure 6: memory over network time", lambda figure: draw_curves(figure, answers))
    for curve in answers[PRINTED]["figure_6"]:
        name, first, last = curve["topology"], curve["memory_over_network"][0], curve["memory_over_network"][-1]
        falls = name == "torus3d"
        holds = last < first and max(first, last) < 1 if falls else last > first
        found.append(
            row(
                "002",
                "figure 6",
                f"memory over network time, {name}, 2010 to 2020",
                paper_value="below 1, falls" if falls else "rises",
                model_value=f"{first:.3g} to {last:.3g}",
                verdict=HOLDS if holds else FAILS,
                command=list(FIGURES.values()),
                note=PLOTTED,
                drawing=drawing,
            )
        )
    return found


def draw_bars(figure: Any, answers: dict[float, Any]) -> None:
    """Figure 5, for both A."""
    figure.set_size_inches(8, 3.2)
    for axes, (constant, answer) in zip(figure.subplots(1, 2, sharey=True), answers.items(), strict=True):
        names = [bar["system"] for bar in answer["figure_5"]]
        network = [bar["network_s"] for bar in answer["figure_5"]]
        axes.bar(names, network, color="tab:blue", label="network")
        axes.bar(
            names, [bar["memory_s"] for bar in answer["figure_5"]], bottom=network, color="tab:orange", label="memory"
        )
        axes.set_title(f"A = {constant}")
    figure.axes[0].set_ylabel("time [s]")
    figure.axes[0].legend(frameon=False)


def draw_curves(figure: Any, answers: dict[float, Any]) -> None:
    """Figure 6, for both A."""
    figure.set_size_inches(8, 3.2)
    for axes, (constant, answer) in zip(figure.subplots(1, 2, sharey=True), answers.items(), strict=True):
        for curve in answer["figure_6"]:
            axes.plot(curve["years"], curve["memory_over_network"], label=curve["topology"])
        axes.axhline(1, color="0.6", linewidth=0.8)
        axes.set(title=f"A = {constant}", xlabel="year", yscale="log")
    figure.axes[0].set_ylabel("memory over network time")
    figure.axes[1].legend(frameon=False, ncols=2, loc="lower right")


def modelled(programs: Path) -> list[Row]:
    """The numbers of the text, and figures 5 and 6."""
    answers = {constant: command.answer(programs) for constant, command in FIGURES.items()}
    return numbers(answers[PRINTED]) + figure_5(answers) + figure_6(answers)
