"""`quarry demo`: a field is written, served, and read coarse to fine, with nothing but this package."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_PROGRAMS = Path(__file__).parent / "bin"


def main(arguments: Sequence[str]) -> int:
    """Runs the demo; the exit code."""
    parser = argparse.ArgumentParser(
        prog="quarry demo", description="Writes a turbulent field, serves it, and reads it coarse to fine.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example:\n  quarry demo --output /tmp/quarry-demo --edge 256")
    parser.add_argument("--output", type=Path, default=Path("quarry-demo"),
                        help="a new directory; default: %(default)s")
    parser.add_argument("--edge", type=int, default=192,
                        help="samples along each axis, 16 to 1024; default: %(default)s")
    options = parser.parse_args(arguments)
    if not 16 <= options.edge <= 1024:
        parser.error(f"--edge {options.edge} is not within 16 and 1024")
    try:
        options.output.mkdir(parents=True)
    except FileExistsError:
        parser.error(f"\"{options.output}\" exists already; give another --output, or remove it")
    _run(options.output, options.edge)
    return 0


def _run(folder: Path, edge: int) -> None:
    import quarry
    field = _turbulence(edge)
    _say(f"write {edge} x {edge} x {edge} samples of float32, none off by more than 0.001")
    dataset = folder / "turbulence.quarry"
    begin = time.perf_counter()
    (written,) = quarry.write(dataset, field, field="speed", tolerance=1e-3, units="m/s")
    _tell(f"{written.raw_bytes / 1e6:.1f} MB become {written.stored_bytes / 1e6:.1f} MB, {written.ratio:.1f} times "
          f"smaller, in {time.perf_counter() - begin:.2f} s; the largest error is {written.max_error:.2g}")
    with _server(folder) as address:
        target = f"grpc://{address}/turbulence"
        _say(f"serve it, and read it coarse to fine from {target}")
        with quarry.open(target) as remote:
            _read(remote["speed"], field)
        _say("look at the middle of it")
        for level in (2, 0):
            picture = folder / f"speed-level{level}.png"
            middle = edge // 2 // 4 * 4  # a plane of both levels
            box = f":,:,{middle}:{middle + 1}"
            subprocess.run([_PROGRAMS / "quarry", "get", target, "--field", "speed", "--box", box,
                            "--level", str(level), "--zoom", str(2 << level), "--range=-3:3", "--colormap", "coolwarm",
                            "--output", picture],
                           check=True, stdout=subprocess.DEVNULL)
            _tell(f"{picture}")
    print(f"\nnow yours: python3 -c 'import quarry; print(quarry.open(\"{dataset}\")[\"speed\"][0, ::32, 5, 5])'")


def _read(speed: object, original: npt.NDArray[np.float32]) -> None:
    import numpy as np

    import quarry
    assert isinstance(speed, quarry.Field)
    begin = time.perf_counter()
    for answer in speed.stream():
        shape = " x ".join(map(str, answer.shape))
        _tell(f"level {answer.level} after {1e3 * (time.perf_counter() - begin):.0f} ms: {shape} samples, "
              f"within {answer.max_error:.2g} {speed.units}")
    begin = time.perf_counter()
    box = speed[0, 5:15, ::2, -1]
    _tell(f"speed[0, 5:15, ::2, -1] has the shape {box.shape}, after {1e3 * (time.perf_counter() - begin):.0f} ms")
    error = float(np.abs(answer.array - original).max())
    if error > 1e-3:
        raise SystemExit(f"quarry demo: the samples differ by {error}, and 0.001 was promised; please report this")


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[str]:
    """A server of this machine on a free port, while the context lasts."""
    command = [str(_PROGRAMS / "quarry-server"), str(folder), "--listen", "127.0.0.1:0", "--quiet"]
    log = folder / "server.log"
    with log.open("w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server:
        try:
            assert server.stdout is not None
            line = next((line for line in server.stdout if line.startswith("listening on ")), None)
            if line is None:
                raise SystemExit(f"quarry demo: the server did not start; see \"{log}\"")
            yield line.split()[2]
        finally:
            server.terminate()


def _turbulence(edge: int) -> npt.NDArray[np.float32]:
    """Random modes with the spectrum of turbulence, k^-5/3, and a variance of 1."""
    import numpy as np
    whole, half = (waves(edge, 1 / edge).astype("f4") ** 2 for waves in (np.fft.fftfreq, np.fft.rfftfreq))
    k2 = sum(np.meshgrid(whole, whole, half, indexing="ij", sparse=True))
    noise = np.random.default_rng(42).standard_normal((edge, edge, edge), dtype="f4")
    modes = np.fft.rfftn(noise) * np.maximum(k2, 1) ** (-11 / 12)
    modes[0, 0, 0] = 0
    field = np.fft.irfftn(modes, s=(edge,) * 3, axes=(0, 1, 2))
    scaled: npt.NDArray[np.float32] = (field / field.std()).astype(np.float32)
    return scaled


def _say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def _tell(text: str) -> None:
    print(f"   {text}", flush=True)
