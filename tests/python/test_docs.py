"""The tutorial runs as it stands, and the page of the interface is what the package says."""

import os
import re
import subprocess
import sys

from python_testing import ROOT, as_installed, qt

sys.path.insert(0, str(ROOT / "scripts"))
import python_api  # noqa: E402


class Docs(qt.QuarryTest):
    def test_the_tutorial_runs(self):
        """All blocks of a page, one after the other, in an empty folder."""
        text = (ROOT / "docs/python.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 5)
        environment = os.environ | {"PYTHONPATH": as_installed(self.tmp / "site"), "MPLBACKEND": "agg"}
        done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=self.tmp, env=environment, capture_output=True,
                              text=True, timeout=qt.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_page_of_the_interface(self):
        self.assertEqual((ROOT / "docs/python-api.md").read_text(), python_api.page(),
                         "docs/python-api.md is not what the package says; PYTHONPATH=build/release/python "
                         "build/python-environment/bin/python scripts/python_api.py writes it anew")


if __name__ == "__main__":
    qt.main()
