"""Shared by the scripts of several benchmarks. Standard library only."""

import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def say(text: str) -> None:
    """A line of progress."""
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr, flush=True)


def make_venv(folder: Path, interpreter: str) -> tuple[Path, list[str]]:
    """The Python of a virtual environment in `folder`, which is made if it does not exist, and its pip command."""
    python = folder / "bin" / "python"
    if not python.exists():
        say(f"making {folder}")
        subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    return python, [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def processor() -> tuple[str, set[str]]:
    """Name of the processor, and its flags."""
    name = platform.machine()
    flags: set[str] = set()
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            name = value.strip() if key.strip() == "model name" else name
            flags = set(value.split()) if key.strip() == "flags" else flags
    return name, flags


def source_version() -> str:
    """The commit."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def number(value: float | None, digits: int = 4) -> str:
    """Significant digits; None means lossless."""
    if value is None:
        return "inf"
    return f"{value:.{digits}g}" if abs(value) < 10 ** digits else f"{value:.0f}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """In Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"
