"""The twelve questions of the benchmark."""

import dataclasses
import random
from typing import Any

Box = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]  # begin and end along x, y, z


@dataclasses.dataclass(frozen=True)
class Question:
    """A read; or values at points, in the only form that they have."""

    key: str
    title: str
    box: Box
    level: int = 0
    stride: int = 1
    max_error: float | None = None
    points: tuple[tuple[float, float, float], ...] = ()

    def box_text(self) -> str:
        """As `--box` takes it."""
        return ",".join(f"{begin}:{end}" for begin, end in self.box)

    def options(self) -> list[str]:
        """Options of `quarry get`."""
        options = ["--box", self.box_text()]
        if self.max_error is not None:
            return [*options, "--max-error", repr(self.max_error)]
        if self.stride > 1:
            return [*options, "--stride", str(self.stride)]
        return [*options, "--level", str(self.level)]

    def warm(self) -> dict[str, Any]:
        """For client_bench."""
        question: dict[str, Any] = {"boxes": [self.box_text()]}
        if self.max_error is not None:
            return question | {"max_error": self.max_error}
        return question | ({"stride": self.stride} if self.stride > 1 else {"level": self.level})

    def plain(self) -> dict[str, Any]:
        """For a peer, whose levels are arrays of their own: a stride of 8 is one of them, an error is level 0."""
        level = self.stride.bit_length() - 1 if self.stride > 1 else self.level
        return {"box": self.box, "level": level, "points": self.points}

    def samples(self) -> int:
        """Most samples of the answer."""
        step = self.stride if self.stride > 1 else 1 << self.level
        count = 1
        for begin, end in self.box:
            count *= -(-end // step) - -(-begin // step)
        return count


def make_questions(edge: int, value_range: float) -> list[Question]:
    """Questions to a field of edge^3 samples with this range of values."""
    whole = (0, edge)
    middle = (edge // 2 + 5, edge // 2 + 6)
    large = (edge // 6, edge // 6 + 2 * edge // 3)
    small = (edge // 4 + 3, edge // 4 + 67)
    numbers = random.Random(1)
    points = tuple((numbers.uniform(0, edge - 1), numbers.uniform(0, edge - 1), numbers.uniform(0, edge - 1))
                   for _ in range(1000))
    all_of_it = (whole, whole, whole)
    return [
        Question("overview", f"overview, {edge // 16}^3", all_of_it, level=4),
        Question("small-level", f"level 3, {edge // 8}^3", all_of_it, level=3),
        Question("plane-z", "plane across z", (whole, whole, middle)),
        Question("plane-y", "plane across y", (whole, middle, whole)),
        Question("plane-x", "plane across x", (middle, whole, whole)),
        Question("plane-coarse", "plane within 4e-3 of the range", (whole, whole, middle),
                 max_error=4e-3 * value_range),
        Question("unaligned", "unaligned 64^3", (small, small, small)),
        Question("box", f"{large[1] - large[0]}^3 box", (large, large, large)),
        Question("stride", "every eighth sample", all_of_it, stride=8),
        Question("line", "line along x", (whole, middle, middle)),
        Question("box-level", "level 1 of the box", (large, large, large), level=1),
        Question("points", "1000 points", all_of_it, points=points),
    ]
