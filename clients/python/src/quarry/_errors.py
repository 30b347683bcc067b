"""The one class of errors."""

from __future__ import annotations

_CODES = ("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
          "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
          "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED")


class Error(Exception):
    """Error of a dataset or its server. Its text says what is wrong, where, and what to do.

    Attributes:
        code: the name of gRPC's status code: "NOT_FOUND", "DATA_LOSS" (what is stored is damaged), "UNAVAILABLE" (no
            server there), "UNAUTHENTICATED", "RESOURCE_EXHAUSTED" (ask for less, or later), and so on.
    """

    def __init__(self, code: int | str, text: str) -> None:
        super().__init__(text)
        self.code: str = _CODES[code] if isinstance(code, int) else code

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (self.code, str(self))
