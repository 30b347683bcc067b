"""scripts/comments.py finds planted comments and lines, and nothing in text that only looks like them."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LONG = " ".join(["word"] * 25)

# File name, text, and the lines of the findings.
CASES = (
    ("a.h", "/// Of a patch.\nint a;\n/// Bytes of a patch,\n/// of which some are read.\nint b;\n", [1]),
    ("b.cc", 'int a;  // what is left\nint b;  /* whoever calls */\nconst char* c = "// Of no comment";\n', [1, 2]),
    ("c.cc", "int a = 1'000;  ///< nobody's\n/* Those that\n * remain. */\nauto s = R\"(// Of text)\";\n", [1, 2]),
    ("d.cc", "// Patches.\n//\n// Of each, the first.\nint a;  // number\n        // of patches\n", [3]),
    ("e.ts", "/**\n * What is shown.\n */\nconst a = `// Of text`;\nconst b = /\\/\\/ Of a pattern/;\n/** Whose pane. */\n", [2, 6]),
    ("f.py", '"""What a module does."""\nA = "# Of text"\n\n\ndef f():\n    """Whatever it is."""\n    return 1  # of it\n', [1, 6, 7]),
    ("g.sh", "#!/bin/bash\n# Whose files\necho $# \"# Of text\" '# Of text'\nls  # those of a folder\n", [2, 4]),
    ("h.cmake", "# Who links whom.\nset(a \"# Of text\")\n", [1]),
    ("i.proto", "message A {\n  // Of an answer.\n  int64 a = 1;  // Offset, whatever the type.\n}\n", [2]),
    ("j.md", f"{LONG}\n\n| {LONG} |\n\n```text\n{LONG}\n```\n\n![a {LONG}](b)\n\n* {LONG}\n", [1, 11]),
)


def check(*files):
    """Exit code and output of the script."""
    done = subprocess.run([sys.executable, REPOSITORY / "scripts" / "comments.py", *files], capture_output=True,
                          text=True, timeout=600)
    if done.stderr:
        raise AssertionError(done.stderr)
    return done.returncode, done.stdout


class CommentsTest(unittest.TestCase):
    def test_planted_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text, lines in CASES:
                path = Path(folder) / name
                path.write_text(text)
                with self.subTest(name):
                    code, out = check(path)
                    self.assertEqual([int(line.split(":")[1]) for line in out.splitlines()], lines, out)
                    self.assertEqual(code, 1)

    def test_the_text_is_printed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.h"
            path.write_text("int a;\n/// What a caller\n/// must know.\nint b;\n")
            self.assertEqual(check(path), (1, f'{path}:2: begins with "What": What a caller must know.\n'))

    def test_good_comments_pass(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.py"
            path.write_text('"""Offsets of patches."""\n# Somebody\'s whole file.\nA = 1  # whatsoever\n')
            self.assertEqual(check(path), (0, ""))


if __name__ == "__main__":
    unittest.main()
