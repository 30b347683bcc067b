"""Long patch tables: found in blocks of them, in little memory, by directory, server and index alike."""

import os
import re

import numpy as np

import quarry_testing as qt

SMALL = (48, 40, 24)  # 5760 patches of 2x2x2
LARGE = (128, 128, 64)  # 131,072 patches
PATCH = ("--patch", 2)
ROWS_PER_BLOCK = 1024


def block_bits(subfile):
    """Byte 50 of the header, by docs/format.md."""
    return subfile[50] >> 3


class Tables(qt.QuarryTest):
    def test_any_number_of_ranks_writes_the_same_blocks(self):
        # Patches of 2x2x2 have no coarse level.
        for order, dims, patch, files in (("patch", SMALL, PATCH, 2), ("level", SMALL, PATCH, 2),
                                          ("coarse", (64, 48, 32), ("--patch", 4), 1)):
            field = qt.with_holes(qt.turbulent(dims), np.nan)
            options = (*patch, "--order", order, "--tolerance", 1e-2, "--files", files)
            written = []
            for ranks in (0, 1, 3):
                path = self.tmp / f"{order}-{ranks}.quarry"
                qt.convert(field, path, *options, ranks=ranks)
                written.append(qt.subfiles(path))
                self.assertEqual({block_bits(subfile) for subfile in written[-1].values()}, {10})
            self.assertTrue(written[0] == written[1] == written[2], order)
            self.assert_verified(path)

    def test_tables_of_a_block_or_less_are_whole(self):
        for extent, blocks in ((ROWS_PER_BLOCK, 0), (ROWS_PER_BLOCK + 1, 10)):
            path = self.tmp / f"{extent}.quarry"
            qt.convert(np.arange(extent, dtype="<f4").reshape(1, 1, extent), path, "--patch", 1, "--lossless")
            self.assertEqual([block_bits(subfile) for subfile in qt.subfiles(path).values()], [blocks])

    def test_boxes(self):
        """The same through the tables of a directory, those of a server, and the index."""
        field = qt.with_holes(qt.turbulent(SMALL), np.nan)
        path = self.tmp / "boxes.quarry"
        qt.convert(field, path, *PATCH, "--order", "level", "--lossless")
        random = qt.random_numbers("boxes")
        boxes = [np.sort(random.integers(0, np.array(SMALL)[:, None] + 1, (3, 2)), axis=1) for _ in range(12)]
        with qt.Server(self.tmp, "--memory", "8MiB") as server:
            for indexed in (False, True):
                if indexed:
                    qt.succeed("quarry-index", path)
                    qt.succeed("quarry-index", path, "--verify")
                for box in boxes:
                    begin, end = box[:, 0], np.maximum(box[:, 1], box[:, 0] + 1)
                    begin = np.minimum(begin, np.array(SMALL) - 1)
                    end = np.minimum(end, SMALL)
                    x, y, z = (slice(a, b) for a, b in zip(begin, end))
                    for target in (path, server.target(path)):
                        answer = qt.get(target, self.tmp / "box.raw", "--box", qt.box_text(begin, end))
                        self.assertEqual(answer, field[z, y, x].tobytes(), (target, begin, end))

    def test_one_patch_does_not_take_the_memory_of_a_table(self):
        path = self.tmp / "large.quarry"
        qt.convert(np.zeros(LARGE[::-1], "<f4"), path, *PATCH, "--lossless")
        with qt.Server(self.tmp, "--memory", "16MiB") as server:
            before = server.largest_memory()
            for begin in ((0, 0, 0), (64, 64, 32), (126, 126, 62)):
                box = qt.box_text(begin, [corner + 2 for corner in begin])
                self.assertEqual(qt.get(server.target(path), self.tmp / "one.raw", "--box", box), bytes(4 * 8))
            grown = server.largest_memory() - before
        # Decoded, the rows take 21 MB.
        self.assertLess(grown, 12 << 20)

    def test_damage_in_one_block(self):
        """Patches of other blocks are still found; `quarry verify` names the place."""
        path = self.tmp / "damaged.quarry"
        field = qt.turbulent(SMALL)
        qt.convert(field, path, *PATCH, "--lossless")
        subfile = path / "steps/000000/f/0000.qsf"
        data = bytearray(subfile.read_bytes())
        at = int.from_bytes(data[-48:-40], "little") + 10  # in the first block
        data[at] ^= 1
        subfile.write_bytes(data)
        last = ("--box", qt.box_text([n - 1 for n in SMALL], SMALL))
        self.assertEqual(qt.get(path, self.tmp / "last.raw", *last), field[-1, -1, -1].tobytes())
        for command in (("get", path, "--box", "0:1,0:1,0:1", "--output", self.tmp / "first.raw"), ("verify", path)):
            outcome = qt.run("quarry", *command)
            self.assertEqual(outcome.code, qt.DAMAGED)
            self.assertIsNotNone(re.search(r"0000.qsf\": patch table \(bytes \d+\.\.\d+\): checksum", outcome.err + outcome.out))
        self.assertFalse(os.path.exists(self.tmp / "first.raw"))


if __name__ == "__main__":
    qt.main()
