#!/usr/bin/env python3
"""Checks the English of comments and the width of documents, as far as a program can.

Usage: scripts/comments.py [FILE...]     default: all files of the repository

A comment is a sentence with a subject, or a noun phrase that stands alone. So no comment begins with "Of", "What" or
another of WORDS: it would be a fragment whose noun is in the code, or a relative clause in place of a noun. A comment
is a block of adjacent comment lines, a comment behind code, or a docstring; an empty comment line ends a block.
Lines of documents have at most 120 columns, outside tables and code. Addresses, links and images may be longer.

Prints FILE:LINE and the text of each finding, and ends with 1 if there is one.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = 120
OTHERS = ("proto/google/", "proto/grpc/", "tests/fuzz/corpus/")
WORDS = ("of", "what", "whatever", "whoever", "whichever", "whose", "whom", "who", "those", "nobody")
BEGINS = re.compile(rf"(?:{'|'.join(WORDS)})\b(?!-)", re.IGNORECASE)

# An address, a link or an image.
UNBREAKABLE = re.compile(r"\S+|!?\[[^\]]*\]\(\S*\)")

# Comments, and the strings in which their signs mean nothing. A quote behind a digit or letter separates digits.
C_LIKE = re.compile(r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | \bR"(?P<delimiter>[^()\\\s]*)\(.*?\)(?P=delimiter)"
  | "(?:\\.|[^"\\\n])*"
  | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'
""", re.DOTALL | re.VERBOSE)
# TypeScript has template strings, and regular expressions where an operand may begin.
SCRIPT = re.compile(r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | `(?:\\.|[^`\\])*`
  | "(?:\\.|[^"\\\n])*"
  | '(?:\\.|[^'\\\n])*'
  | (?<=[(,=:\[!&|?{};])\s*/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/
""", re.DOTALL | re.VERBOSE)
# Strings of shells go over lines; $# counts arguments, and a comment begins a word.
HASH = re.compile(r"""
    (?P<comment> (?<!\S)\#[^\n]* )
  | "(?:\\.|[^"\\])*"
  | (?<![0-9A-Za-z_\\])'[^']*'
  | \\.
""", re.DOTALL | re.VERBOSE)
LANGUAGES = (
    (C_LIKE, (".cc", ".h", ".c", ".inl", ".proto")),
    (SCRIPT, (".ts", ".js", ".mjs")),
    (HASH, (".sh", ".cmake", ".toml", ".service.in", "CMakeLists.txt", ".ci/run")),
)
SIGNS = re.compile(r"^#!.*|^\s*(?://[/!]?<?|/\*\*?|\*(?!/)|#)[ \t]*|[ \t]*\*/$")

Comment = tuple[int, int, bool, str]  # line, column, whether code is before it, the text with its signs


def comments_by_pattern(text: str, pattern: re.Pattern[str]) -> Iterator[Comment]:
    """The comments that a pattern finds."""
    for match in pattern.finditer(text):
        if match.group("comment") is None:
            continue
        begin = match.start("comment")
        start_of_line = text.rfind("\n", 0, begin) + 1
        line = text.count("\n", 0, begin) + 1
        behind = bool(text[start_of_line:begin].strip())
        for i, one in enumerate(match.group("comment").split("\n")):
            yield line + i, begin - start_of_line, behind and i == 0, one


def python_comments(text: str) -> Iterator[Comment]:
    """The comments of a Python program, without docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield *token.start, bool(token.line[:token.start[1]].strip()), token.string


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = ast.get_docstring(node)
            if found:
                yield node.body[0].lineno, " ".join(found.split("\n\n")[0].split())


def blocks(comments: Iterator[Comment]) -> Iterator[tuple[int, str]]:
    """Line and text of each block: lines below each other, at the column of the first."""
    block: list[str] = []
    first = last = column = 0
    for line, at, behind, signed in comments:
        text = SIGNS.sub("", signed).strip()
        goes_on = block and line == last + 1 and not behind and at == column
        if (not goes_on or not text) and block:
            yield first, " ".join(block)
            block = []
        if text:
            if not block:
                first, column = line, at
            block.append(text)
            last = line
    if block:
        yield first, " ".join(block)


def comments_of(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment of a file; nothing if its language is not known."""
    if name.endswith(".py"):
        yield from docstrings(text)
        yield from blocks(python_comments(text))
        return
    for pattern, endings in LANGUAGES:
        if name.endswith(endings):
            yield from blocks(comments_by_pattern(text, pattern))


def long_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a document that are too long, outside tables and code."""
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        begin = line.lstrip()
        if begin.startswith("```"):
            code = not code
        elif not code and not begin.startswith("|") and len(line) > COLUMNS and not UNBREAKABLE.fullmatch(begin):
            yield number, line


def findings(name: str, text: str) -> list[tuple[int, str]]:
    """Line and message of each finding in a file."""
    if name.endswith(".md"):
        return [(line, f"{len(found)} columns: {found}") for line, found in long_lines(text)]
    return sorted((line, f'begins with "{match.group()}": {found}') for line, found in comments_of(name, text)
                  if (match := BEGINS.match(found)))


def tracked() -> list[str]:
    """The files of the repository, without data of tests and the files of others."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and not name.startswith(OTHERS)]


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    count = 0
    for name in parser.parse_args().files or tracked():
        if not name.endswith((".md", ".py", *(ending for _, endings in LANGUAGES for ending in endings))):
            continue
        for line, message in findings(name, (ROOT / name).read_text()):
            print(f"{name}:{line}: {message}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
