"""The speed of the default coder with everything in memory, which conversions and reads are compared with."""

import json
import subprocess
import tempfile

BLOCK = 1 << 24


def coder_alone(binaries, field, edge, tolerance, cores):
    """MB/s of samples, encoded and decoded, on one core while all cores do the same, as they do in a conversion; from
    patches of the middle of the field.

    Args:
        binaries: folder with codec_bench
        field: file of edge^3 float32
        tolerance: absolute
    """
    import numpy  # here, for scripts that enter an environment first

    planes = min(edge, 128)
    with tempfile.NamedTemporaryFile(suffix=".f32") as part:
        with open(field, "rb") as source:
            source.seek((edge - planes) // 2 // 64 * 64 * edge * edge * 4)
            rest = planes * edge * edge * 4
            while rest > 0:
                block = source.read(min(rest, BLOCK))
                part.write(block)
                rest -= len(block)
        part.flush()
        values = numpy.memmap(part.name, dtype="<f4", mode="r")
        relative = tolerance / float(values.max() - values.min())
        command = [binaries / "codec_bench", part.name, "--dims", f"{edge}x{edge}x{planes}", "--tolerances",
                   repr(relative), "--coders", "interpolate", "--repeats", "1"]
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(cores)]
        outputs = [run.communicate()[0] for run in runs]
    if any(run.returncode != 0 for run in runs):
        raise SystemExit("codec_bench has failed")
    results = [json.loads(output.splitlines()[-1]) for output in outputs]
    return tuple(sum(result[key] for result in results) / cores for key in ("encode_mbps", "decode_mbps"))
