"""The boxes of subfiles in the index: as LMDB's own tool shows them, and as quarry-index lists them."""

import json
import struct
import subprocess

import quarry_testing as qt

DIMS = (60, 44, 28)
FILES = 19


def dumped(index, database):
    """Keys and values of a database of the index, in all pieces, by mdb_dump."""
    found = {}
    for piece in index.glob("patches-*.mdb"):
        text = subprocess.run(["mdb_dump", "-n", "-s", database, piece], check=True, capture_output=True,
                              text=True).stdout
        lines = [bytes.fromhex(line.strip()) for line in text.partition("HEADER=END")[2].split("DATA=END")[0].split()]
        found |= dict(zip(lines[::2], lines[1::2], strict=True))
    return found


def meets(one, other):
    return all(a < d and c < b for a, b, c, d in zip(one["begin"], one["end"], other["begin"], other["end"]))


class IndexBoxes(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.path = self.tmp / "run.quarry"
        for step in (3, 8):
            qt.convert(qt.with_holes(qt.smooth(DIMS), float("nan")), self.path, "--tolerance", "1e-3", "--patch", "4",
                       "--files", FILES, "--step", step, *(("--append",) if step == 8 else ()))
            qt.succeed("quarry-index", self.path)
        self.index = self.path / "index"

    def subfiles(self, step):
        return qt.step_manifest(self.path, step)["fields"][0]["subfiles"]

    def test_lmdbs_own_tool_shows_them(self):
        self.assertEqual(len(list(self.index.glob("patches-*.mdb"))), 1, "two equal steps are one piece")
        self.assert_shown()
        qt.convert(qt.smooth(DIMS), self.path, "--append", "--files", FILES, "--step", 9)
        qt.succeed("quarry-index", self.path)
        self.assertEqual(len(list(self.index.glob("patches-*.mdb"))), 2)
        self.assert_shown()

    def assert_shown(self):
        found = {}
        for key, value in dumped(self.index, "boxes").items():
            step, field, level, _ = struct.unpack(">QIBI", key)
            self.assertEqual((field, len(value) % 28), (0, 0))
            if level == 0:
                for entry in struct.iter_unpack("<7I", value):
                    found[step, entry[6]] = {"begin": list(entry[0:6:2]), "end": list(entry[1:6:2])}
        self.assertEqual(found, {(step, number): subfile["bounds"] for step in qt.info(self.path)["steps"]
                                 for number, subfile in enumerate(self.subfiles(step))})
        self.assertGreater(len(dumped(self.index, "mask_boxes")), 0)

    def test_the_files_of_a_region(self):
        for begin, end in (((0, 0, 0), DIMS), ((5, 7, 1), (6, 8, 2)), ((30, 0, 0), (31, 44, 28))):
            box = {"begin": list(begin), "end": list(end)}
            listed = json.loads(qt.succeed("quarry-index", self.path, "--list", "--step", 8, "--field", "f", "--box",
                                           qt.box_text(begin, end), "--json").out)
            self.assertEqual([one["box"] for one in listed],
                             [one["bounds"] for one in self.subfiles(8) if meets(one["bounds"], box)])
            for one in listed:
                self.assertEqual((self.path / one["file"]).stat().st_size, one["bytes"])
        text = qt.succeed("quarry-index", self.path, "--list").out
        self.assertEqual(text.count("\n"), 2 * FILES + 1)
        self.assertIn(f"{2 * FILES} subfiles", text)

    def test_what_cannot_be_listed(self):
        self.assert_one_line(qt.run("quarry-index", self.path, "--list", "--step", 5), qt.NOT_FOUND, "no step 5")
        self.assert_one_line(qt.run("quarry-index", self.path, "--list", "--field", "g"), qt.NOT_FOUND, '"g"')
        self.assert_one_line(qt.run("quarry-index", self.path, "--list", "--box", "0:99"), qt.USAGE, "0:99")
        self.assertEqual(qt.run("quarry-index", self.path, "--box", "0:9").code, qt.USAGE)
        for file in self.index.iterdir():
            file.unlink()
        self.assert_one_line(qt.run("quarry-index", self.path, "--list"), qt.NOT_FOUND, "index")


if __name__ == "__main__":
    qt.main()
