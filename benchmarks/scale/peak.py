#!/usr/bin/env python3
"""Runs a command and adds a line to a file: its peak resident memory in KiB. Usage: peak.py FILE COMMAND..."""

import os
import sys


def main() -> int:
    """Exit code of the command."""
    file, *command = sys.argv[1:]
    process = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(process, 0)
    with open(file, "a") as lines:
        lines.write(f"{usage.ru_maxrss}\n")
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
