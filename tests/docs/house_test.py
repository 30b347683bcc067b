"""scripts/house.sh finds long files and headers that include each other, and nothing else."""

import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "house.sh"


class HouseTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        subprocess.run(["git", "init", "--quiet", self.root], check=True)

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        subprocess.run(["git", "-C", self.root, "add", name], check=True)

    def check(self):
        """Exit code and output of the script."""
        done = subprocess.run([SCRIPT, self.root], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_a_file_has_500_lines(self):
        for name in ("room/a.cc", "room/b.py", "room/c.inl"):
            self.put(name, "\n" * 500)
        self.put("tests/long_test.cc", "\n" * 501)
        self.put("web/tests/long.test.ts", "\n" * 501)
        self.assertEqual(self.check(), (0, ""))
        self.put("room/b.py", "\n" * 501)
        code, out = self.check()
        self.assertEqual(code, 1)
        self.assertIn("room/b.py: 501 lines", out)
        self.assertNotIn("a.cc", out)
        self.assertNotIn("test", out)

    def test_headers_that_include_each_other(self):
        self.put("room/a.h", '#include "room/b.h"\n#include <vector>\n')
        self.put("room/b.h", '#include "room/c.h"\n')
        self.put("room/c.h", "int c;\n")
        self.put("room/c.cc", '#include "room/a.h"\n')
        self.assertEqual(self.check(), (0, ""))
        self.put("room/c.h", '#include "room/a.h"\n')
        code, out = self.check()
        self.assertEqual(code, 1)
        for name in ("room/a.h", "room/b.h", "room/c.h"):
            self.assertIn(name, out)


if __name__ == "__main__":
    unittest.main()
