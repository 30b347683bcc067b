"""Every script says what it does with --help, and does nothing else."""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(path for path in (REPOSITORY / "scripts").glob("*.sh") if path.stat().st_mode & 0o100)


class ScriptsTest(unittest.TestCase):
    def test_each_has_help(self):
        self.assertGreater(len(SCRIPTS), 10)
        with tempfile.TemporaryDirectory() as folder:
            # A script that goes on after its help finds nothing that it could work with.
            for program in ("bash", "dirname", "sed"):
                (Path(folder) / program).symlink_to(shutil.which(program))
            for script in SCRIPTS:
                for option in ("--help", "-h"):
                    with self.subTest(script=script.name, option=option):
                        done = subprocess.run([script, option], env={"PATH": folder}, cwd=folder, capture_output=True,
                                              text=True, timeout=600)
                        self.assertEqual((done.returncode, done.stderr), (0, ""))
                        self.assertIn(f"Usage: scripts/{script.name}", done.stdout)
                        self.assertNotIn("set -euo pipefail", done.stdout)


if __name__ == "__main__":
    unittest.main()
