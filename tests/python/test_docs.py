"""The tutorial runs as it stands, and the page of the interface is what the package says."""

import os
import re
import subprocess
import sys

from bare_environment import bare_environment, of_the_package
from python_testing import ROOT, qt

sys.path.insert(0, str(ROOT / "scripts"))
import python_api  # noqa: E402


class Docs(qt.QuarryTest):
    text = (ROOT / "docs/python.md").read_text()

    def test_the_tutorial_runs(self):
        """All blocks of a page, one after the other, in an empty folder, with nothing installed but the wheels and extras
        that it names."""
        blocks = re.findall(r"^```python\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 5)
        wheels = re.findall(r"\"\./(quarry_\w+)-[\w.-]+\.whl(\[[\w,]+\])\"", self.text)
        self.assertEqual([name for name, _ in wheels], ["quarry_data", "quarry_outofcore"])
        path = bare_environment(self.tmp, [name.replace("_", "-") + extras for name, extras in wheels])
        done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=self.tmp, capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": path, "MPLBACKEND": "agg"}, timeout=qt.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_extras(self):
        """The tutorial names those of the packages, with what they bring."""
        rows = re.findall(r"^\| `(\w+)` \| ([^`|]+) \| .* \|$", self.text, re.MULTILINE)
        self.assertEqual({extra: brings.split(", ") for extra, brings in rows},
                         of_the_package("quarry-data")[1] | of_the_package("quarry-outofcore")[1])

    def test_the_page_of_the_interface(self):
        self.assertEqual((ROOT / "docs/python-api.md").read_text(), python_api.page(),
                         "docs/python-api.md is not what the package says; PYTHONPATH=build/release/python "
                         "build/python-environment/bin/python scripts/python_api.py writes it anew")


if __name__ == "__main__":
    qt.main()
