"""The command `quarry-pod`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import NoReturn

from quarry._export_command import add_level, add_server, ended, opened, steps_of
from quarry_outofcore._pod import pod, summary


def program() -> NoReturn:
    """The program."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """`quarry-pod TARGET ...`; the exit code."""
    given = _parser().parse_args(arguments)
    return ended("quarry-pod", lambda: _decompose(given))


def _decompose(given: argparse.Namespace) -> int:
    with opened(given) as dataset:
        found = pod(dataset, given.field, modes=given.modes, level=given.level, max_error=given.max_error,
                    layer=given.layer, memory=given.memory, steps=steps_of(given.steps, dataset.steps),
                    subtract_mean=not given.keep_mean, order=given.order, tolerance=given.tolerance,
                    output=given.output, on_pass=_say if given.progress else None)
    said = summary(found)
    if given.json:
        print(json.dumps(said))
    else:
        _print(said)
    return 0 if found.converged else 1


def _say(number: int, angle: float) -> None:
    print(f"pass {number}: modes within {angle:.2g} rad", file=sys.stderr)


def _print(said: dict[str, object]) -> None:
    values, errors, report = said["singular_values"], said["errors"], said["report"]
    assert isinstance(values, list) and isinstance(errors, list) and isinstance(report, dict)
    assert isinstance(said["energy"], float)
    print("mode  singular value      energy   within")
    for number, (value, error) in enumerate(zip(values, errors, strict=True)):
        share = value**2 / said["energy"] if said["energy"] else 0
        print(f"{number:4}  {value:14.8g}  {share:9.3%}  {error:.1e} rad")
    print(f"{report['passes']} passes, {report['seconds']:.1f} s, of these {report['io_seconds']:.1f} s reading and "
          f"{report['compute_seconds']:.1f} s computing beside each other")
    print(f"{report['bytes_moved']} bytes moved of {report['data_bytes']} bytes of samples, with at most "
          f"{report['peak']} in memory; {report['hit_ratio']:.1%} were there already")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="quarry-pod", formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        description="proper orthogonal decomposition of the steps of a dataset, which may be larger than memory: the "
        "leading modes, their singular values, and how much of each is in each step",
        epilog="Example:\n  quarry-pod wake.quarry --field velocity_x --field velocity_y --modes 10 --memory 256MiB "
               "--output modes --json")
    add = parser.add_argument
    add("target", metavar="TARGET", help="dataset directory, or grpc://HOST:PORT/NAME")
    add("--field", action="append", required=True, help="name; several together make up one vector at each place")
    add("--modes", type=int, default=10, help="how many; default: 10")
    add("--steps", help="numbers, BEGIN:END or BEGIN:END:STRIDE, separated by commas; default: all")
    add_level(parser)
    add("--memory", default="256MiB", help="for decoded samples: bytes, or a number with KiB, MiB, GiB; default: "
        "256MiB")
    add("--tolerance", type=float, default=1e-7, help="largest angle between a mode and the exact one, in radians; "
        "default: 1e-7")
    add("--keep-mean", action="store_true", help="decompose the steps themselves, not their fluctuations about "
        "the mean")
    add("--order", choices=["data-aware", "fifo"], default="data-aware", help="which box is next: what brings the "
        "least new bytes, or as they lie; default: data-aware")
    add("--output", metavar="FOLDER", help="is made, for modes.npy, mean.npy, coefficients.npy, singular_values.npy "
        "and pod.json")
    add("--json", action="store_true", help="print the result as JSON, without the arrays")
    add("--progress", action="store_true", help="say after each pass how close the modes are")
    add_server(parser)
    return parser
