"""Analysis that is larger than memory: order, store of blocks, matrices in blocks, LOBPCG, modes of a series, workers of dask.

QUARRY_TEST_FULL=1 has the sizes of the acceptance: 200 steps of a flow, and a matrix of 256 MB.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import unittest
import weakref
import zlib
from pathlib import Path

from python_testing import PACKAGE, np, qt, quarry

import scipy.sparse as sp
import scipy.sparse.linalg
from distributed import Client, LocalCluster
import quarry_outofcore as outofcore
from quarry_outofcore import BlockedMatrix
from quarry_outofcore._engine import Runner, parsed
from quarry_outofcore._lobpcg import _new_directions, lobpcg
from quarry_outofcore._order import Task, assign, data_aware
from quarry_outofcore._pod import _angles
from quarry_outofcore._blocks import BlockStore

# Memory of this program: getrusage shows the peak of its parent process, too.
PEAK = """
def peak():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10
"""

FIELDS = ["velocity_x", "velocity_y", "velocity_z"]
DIMS, STEPS = ((128, 64, 64), 200) if qt.FULL else ((64, 32, 32), 40)
ROWS, PER_ROW, BLOCK = (20000, 2000, 1250) if qt.FULL else (3000, 1000, 250)


def block_of_hamiltonian(i, j):
    """Block (i, j) of a sparse symmetric matrix whose diagonal grows, as in configuration interaction."""
    generator = np.random.default_rng((7, i, j))
    shape = (min(BLOCK, ROWS - i * BLOCK), min(BLOCK, ROWS - j * BLOCK))
    made = sp.random_array(shape, density=PER_ROW / ROWS, rng=generator, format="csr",
                           data_sampler=lambda size: 0.05 * generator.standard_normal(size))
    if i != j:
        return made
    made = sp.triu(made, 1)
    return (made + made.T + sp.diags_array(0.5 * np.sqrt(1 + np.arange(i * BLOCK, i * BLOCK + shape[0])))).tocsr()


def whole(matrix):
    """All of a blocked matrix, put together from its files by another reader."""
    parts = range(matrix.parts)
    rows = []
    for i in parts:
        upper = {j: block_of_hamiltonian(min(i, j), max(i, j)) for j in parts}
        rows.append([upper[j] if i <= j else upper[j].T for j in parts])
    return sp.block_array(rows).tocsr()


class Orders(unittest.TestCase):
    def test_least_new_bytes_first(self):
        sizes = {"a": 5, "b": 3, "c": 1, "x": 4, "y": 1}
        tasks = [Task("a", ("x",)), Task("b", ("x",)), Task("c", ("y",))]

        # New bytes 9, 7, 2: c. Then 9, 7: b, which brings x. Then 5.
        self.assertEqual([task.block for task in data_aware(tasks, [], sizes)], ["c", "b", "a"])
        # New bytes 4, 7, 2: c. Then 4, 7: a, which brings x. Then 3.
        self.assertEqual([task.block for task in data_aware(tasks, ["a"], sizes)], ["c", "a", "b"])

    def test_a_node_goes_column_by_column(self):
        """The lemma of Saule et al., section 5.2: a node has the parts of its rows; blocks differ by less than a part."""
        rows, columns = range(3), range(4)
        tasks = [Task(f"{i},{j}", (f"row {i}", f"column {j}")) for i in rows for j in columns]
        sizes = {task.block: 100 + number % 5 for number, task in enumerate(tasks)}
        sizes |= {f"row {i}": 10 for i in rows} | {f"column {j}": 10 for j in columns}

        ordered = data_aware(tasks, [f"row {i}" for i in rows], sizes)

        seen = [task.parts[1] for task in ordered]
        self.assertEqual([seen[n] for n in range(0, 12, 3)], list(dict.fromkeys(seen)), "each column is one run")

    def test_it_is_the_loop_of_the_paper(self):
        """Against algorithm 1 as it is printed, which asks every task each time."""
        generator = qt.random_numbers("order")
        for _ in range(50):
            names = [str(n) for n in range(12)]
            sizes = {name: int(generator.integers(1, 9)) for name in names} | {f"b{n}": 3 for n in range(10)}
            tasks = [Task(f"b{n}", tuple(generator.choice(names, 3, replace=False))) for n in range(10)]
            held = set(generator.choice(names, 3, replace=False))
            available, left, wanted = set(held), list(tasks), []
            while left:
                best = min(left, key=lambda task: sum(sizes[name] for name in set(task.inputs) - available))
                available |= set(best.inputs)
                left.remove(best)
                wanted.append(best)
            self.assertEqual(data_aware(tasks, held, sizes), wanted)

    def test_workers_have_what_they_hold_and_equal_shares(self):
        tasks = [Task(name) for name in "abcd"]
        sizes = dict.fromkeys("abcd", 1)
        held = {"one": {"a", "d"}, "two": set()}

        self.assertEqual(assign("data-aware", tasks, held, sizes), {"one": [tasks[0], tasks[3]], "two": tasks[1:3]})
        self.assertEqual(assign("fifo", tasks, held, sizes), {"one": tasks[:2], "two": tasks[2:]})
        # One holds all, but has half of the bytes.
        self.assertEqual(assign("data-aware", tasks, {"one": set("abcd"), "two": set()}, sizes),
                         {"one": tasks[:2], "two": tasks[2:]})


class Block:
    """Counts how many of them there are."""

    alive, most, lock = 0, 0, threading.Lock()

    def __init__(self, name):
        self.name = name
        with Block.lock:
            Block.alive += 1
            Block.most = max(Block.most, Block.alive)
        weakref.finalize(self, Block.gone)

    @classmethod
    def gone(cls):
        with cls.lock:
            cls.alive -= 1


class Numbers:
    """A problem without numbers: adds up the names of its blocks."""

    working = 0

    def __init__(self, sizes, load=Block):
        self.sizes, self.load = sizes, load
        self.tasks = [Task(name, ("sum",)) for name in sizes]

    def compute(self, kind, task, block, vectors):
        assert block.name == task.block
        yield "sum", np.array([int(task.block)])

    def close(self):
        pass


class BlockStores(unittest.TestCase):
    def passes(self, order, count, sizes, limit, threads=1):
        """Runs passes over all blocks; their counts."""
        Block.most = Block.alive
        problem = Numbers(sizes)
        runner = Runner(problem, order, limit, threads)
        for _ in range(count):
            total = runner.run("", problem.tasks, {"sum": np.zeros(1)})["sum"]
            self.assertEqual(total[0], sum(map(int, sizes)))
        runner.close()
        return runner.store.counts

    def test_what_is_held_runs_first(self):
        """Four blocks of a byte, memory for two. The first pass loads 0 1 2 3 and ends with 2 3. In given order the
        next loads 0 in place of 2, and so on: all four again. Otherwise it runs 2 3 first, and loads 0 1."""
        sizes = dict.fromkeys("0123", 1)

        fifo, aware = self.passes("fifo", 3, sizes, 2), self.passes("data-aware", 3, sizes, 2)

        self.assertEqual((fifo.bytes_moved, fifo.hits, fifo.misses), (12, 0, 12))
        self.assertEqual((aware.bytes_moved, aware.hits, aware.misses), (8, 4, 8))
        self.assertEqual((fifo.peak, aware.peak), (2, 2))

    def test_never_more_than_the_limit(self):
        generator = qt.random_numbers("storage")
        for threads in (1, 3):
            for order in ("fifo", "data-aware"):
                self.passes(order, qt.scaled(40, 1000), {str(n): 1 for n in range(17)}, 6, threads)
                self.assertLessEqual(Block.most, 6, "blocks in memory")
                sizes = {str(n): int(generator.integers(1, 9)) for n in range(30)}
                counts = self.passes(order, qt.scaled(40, 1000), sizes, 40, threads)
                self.assertLessEqual(counts.peak, 40)
                self.assertEqual(counts.hits + counts.misses, 30 * qt.scaled(40, 1000))
                self.assertLessEqual(max(used for _, used, _, _ in counts.trace), 40)

    def test_a_block_that_cannot_be_loaded_ends_its_pass_only(self):
        broken = {"1"}

        def load(name):
            if name in broken:
                raise quarry.Error("DATA_LOSS", "block 1 is damaged")
            return Block(name)

        problem = Numbers(dict.fromkeys("0123", 1), load)
        for threads in (1, 3):
            runner = Runner(problem, "data-aware", 4, threads)
            broken.add("1")
            with self.assertRaisesRegex(quarry.Error, "block 1 is damaged"):
                runner.run("", problem.tasks, {"sum": np.zeros(1)})
            broken.clear()
            self.assertEqual(runner.run("", problem.tasks, {"sum": np.zeros(1)})["sum"][0], 6)
            runner.close()

    def test_the_least_recently_used_goes(self):
        """0 1 2 were loaded in this order, and 0 was used again. So 3 takes the place of 1."""
        store = BlockStore(Block, dict.fromkeys("0123", 1), 3)
        for names in ("012", "0", "3"):
            store.begin(list(names))
            for name in names:
                with store.pinned(name):
                    pass
            store.end()
        self.assertEqual(store.held(), {"0", "2", "3"})
        store.close()

    def test_what_is_pinned_stays(self):
        store = BlockStore(Block, dict.fromkeys("01", 1), 1)
        store.begin(["0", "1"])
        with store.pinned("0") as block:
            self.assertEqual((block.name, store.held()), ("0", {"0"}))
        with store.pinned("1"):
            self.assertEqual(store.held(), {"1"})
        store.close()


class Matrices(qt.QuarryTest):
    """Files of a matrix."""

    def laplacian(self, rows, name="laplacian", block=7):
        folder = self.folder(name)
        ones = np.ones(rows)
        return BlockedMatrix.write(folder, sp.diags_array([-ones[1:], 2 * ones, -ones[1:]], offsets=[-1, 0, 1]), block=block)

    def folder(self, name):
        return self.tmp / f"{name}.blocks"

    def test_eigenvalues_of_a_string(self):
        """The matrix 2 on the diagonal, -1 beside it, of n rows: 2 - 2 cos(k pi / (n + 1)), k = 1, 2, ..."""
        matrix = self.laplacian(60)
        self.assertEqual(len(matrix.tasks), 9 + 8)  # 9 parts: the diagonal blocks and those beside them

        for order in ("data-aware", "fifo"):
            found = outofcore.lowest_eigenpairs(matrix, 5, memory="2MiB", order=order, tolerance=1e-10)
            exact = 2 - 2 * np.cos(np.arange(1, 6) * np.pi / 61)
            np.testing.assert_allclose(found.values, exact, atol=1e-12)
            shapes = np.sqrt(2 / 61) * np.sin(np.outer(np.arange(1, 61), np.arange(1, 6)) * np.pi / 61)
            np.testing.assert_allclose(np.abs(shapes.T @ found.vectors), np.eye(5), atol=1e-8)
            self.assertTrue(found.converged)

    def test_single_precision_and_threads(self):
        matrix = BlockedMatrix.write(self.folder("f4"), sp.diags_array(np.arange(1, 101, dtype="f4")), block=30)
        self.assertEqual((matrix.dtype, matrix.sizes["0-0"]), (np.dtype("f4"), 4 * 31 + 8 * 30))
        found = outofcore.lowest_eigenpairs(matrix, 3, memory="2MiB", threads=3)
        np.testing.assert_allclose(found.values, [1, 2, 3], atol=1e-10)

    def test_passes_end_with_a_warning(self):
        with self.assertWarnsRegex(RuntimeWarning, "after 3 passes the largest residual is .*max_passes="):
            found = outofcore.lowest_eigenpairs(self.laplacian(60), 5, memory="2MiB", max_passes=3)
        self.assertFalse(found.converged)
        self.assertEqual(found.report.passes, 3)

    def test_damage_is_an_error_that_names_the_file(self):
        matrix = self.laplacian(60)
        path = matrix.folder / "1-2.blk"
        sound = path.read_bytes()
        for bytes_, text in ((sound[:-1] + bytes([sound[-1] ^ 1]), "1-2.blk\" is damaged: checksum"),
                             (sound[:-1], "has .* bytes instead of"), (None, "1-2.blk\" is missing")):
            path.unlink()
            if bytes_ is not None:
                path.write_bytes(bytes_)
            with self.assertRaisesRegex(quarry.Error, text) as caught:
                outofcore.lowest_eigenpairs(matrix, 5, memory="2MiB")
            self.assertEqual(caught.exception.code, "DATA_LOSS")
            path.write_bytes(sound)

    def test_a_manifest_is_checked(self):
        matrix = self.laplacian(60)
        path = matrix.folder / "matrix.json"
        sound = json.loads(path.read_text())

        def refuse(change, text, code="DATA_LOSS", sign=True):
            said = json.loads(json.dumps(sound))
            change(said)
            if sign:
                said["crc32"] = zlib.crc32(json.dumps(said.get("matrix"), sort_keys=True).encode())
            path.write_text(json.dumps(said))
            with self.assertRaisesRegex(quarry.Error, text) as caught:
                BlockedMatrix.open(matrix.folder)
            self.assertEqual(caught.exception.code, code)

        refuse(lambda said: said["matrix"].update(rows=61), "is damaged: its checksum", sign=False)
        refuse(lambda said: said["matrix"].update(rows=-1), "does not describe")
        refuse(lambda said: said["matrix"].update(block=0), "does not describe")
        refuse(lambda said: said["matrix"].update(type="<i8"), "does not describe")
        refuse(lambda said: said["matrix"].pop("blocks"), "does not describe")
        refuse(lambda said: said["matrix"]["blocks"][0].update(row=99), "does not describe")
        refuse(lambda said: said["matrix"]["blocks"][0].update(entries=2**40), "does not describe")
        refuse(lambda said: said.update(version=2), "has version 2", "UNIMPLEMENTED")
        refuse(lambda said: said.update(matrix=[1]), "does not describe")
        path.write_text("{")
        with self.assertRaisesRegex(quarry.Error, "matrix.json"):
            BlockedMatrix.open(matrix.folder)
        with self.assertRaisesRegex(quarry.Error, "holds no blocked matrix"):
            BlockedMatrix.open(self.folder("none"))

    def test_entries_outside_of_their_block_are_not_used(self):
        """Even with right checksums: scipy would read and write where they point."""
        matrix = self.laplacian(60)
        path = matrix.folder / "0-1.blk"
        bytes_ = bytearray(path.read_bytes())
        bytes_[4 * 8:4 * 9] = (7).to_bytes(4, "little")  # the column of its only entry; there are 7, from 0
        path.write_bytes(bytes_)
        manifest = json.loads((matrix.folder / "matrix.json").read_text())
        (block,) = [one for one in manifest["matrix"]["blocks"] if (one["row"], one["column"]) == (0, 1)]
        block["crc32"] = zlib.crc32(bytes_)
        manifest["crc32"] = zlib.crc32(json.dumps(manifest["matrix"], sort_keys=True).encode())
        (matrix.folder / "matrix.json").write_text(json.dumps(manifest))
        with self.assertRaisesRegex(quarry.Error, "entries outside of its block"):
            BlockedMatrix.open(matrix.folder).load("0-1")

    def test_what_cannot_be_written_leaves_nothing(self):
        folder = self.folder("none")
        one = sp.eye_array(4).tocsr()
        for wrong, text in ((sp.random_array((4, 5), density=1), "is 4 x 5"), (sp.triu(np.ones((4, 4))), "not symmetric"),
                            (one * np.inf, "not finite")):
            with self.assertRaisesRegex(ValueError, text):
                BlockedMatrix.write(folder, wrong.tocsr(), block=2)
        with self.assertRaisesRegex(ValueError, "is 3 x 3; it has to be 2 x 2"):
            BlockedMatrix.write_blocks(folder, 4, 2, lambda i, j: sp.eye_array(3))
        with self.assertRaisesRegex(ValueError, "block=0"):
            BlockedMatrix.write_blocks(folder, 4, 0, lambda i, j: None)
        self.assertEqual([path for path in folder.parent.iterdir() if folder.name in path.name], [])
        BlockedMatrix.write(folder, one, block=2)
        with self.assertRaisesRegex(quarry.Error, "exists") as caught:
            BlockedMatrix.write(folder, one, block=2)
        self.assertEqual(caught.exception.code, "ALREADY_EXISTS")

    def test_too_little_memory_says_how_much(self):
        matrix = self.laplacian(60)
        with self.assertRaisesRegex(ValueError, "allow ([0-9]+) or more") as caught:
            outofcore.lowest_eigenpairs(matrix, 5, memory=1000)
        enough = int(str(caught.exception).split("allow ")[1].split(" ")[0])
        self.assertLessEqual(outofcore.lowest_eigenpairs(matrix, 5, memory=enough).report.peak, enough)
        with self.assertRaises(ValueError):
            outofcore.lowest_eigenpairs(matrix, 5, memory=enough - 1)

    def test_bad_arguments(self):
        matrix = self.laplacian(60)
        for arguments, text in (({"count": 0}, "0 pairs"), ({"count": 40}, "40 pairs"), ({"order": "lifo"}, "lifo"),
                                ({"threads": 0}, "threads=0"), ({"memory": "12 parsecs"}, "12 parsecs")):
            with self.assertRaisesRegex(ValueError, text):
                outofcore.lowest_eigenpairs(matrix, **({"count": 5} | arguments))
        self.assertEqual([parsed(size) for size in ("1.5KiB", "2 MB", "7", 9)], [1536, 2000000, 7, 9])

    def test_new_directions_are_orthogonal_to_the_old_ones(self):
        """Also where they are all but contained in them."""
        generator = qt.random_numbers("directions")
        basis = np.linalg.qr(generator.standard_normal((50, 6)))[0]
        nearly = basis[:, :3] @ generator.standard_normal((3, 4)) + 1e-9 * generator.standard_normal((50, 4))
        found = _new_directions(nearly, [basis[:, :3], basis[:, 3:]])
        np.testing.assert_allclose(basis.T @ found, np.zeros((6, 4)), atol=1e-14)
        np.testing.assert_allclose(found.T @ found, np.eye(4), atol=1e-14)

    def test_angles(self):
        """Values 9, 8, 1 are 1 and 7 apart: the first two are 1 from their neighbours, and the last 7."""
        np.testing.assert_allclose(_angles(np.array([-9, -8, -1.0]), np.array([0.5, 0.3, 0.7])), [0.5, 0.3, 0.1])

    def test_small_residuals_of_a_wide_spectrum(self):
        """Where a basis that is not orthonormal stops: 12 orders of magnitude between the values."""
        values = np.concatenate([[1e-6, 2e-6, 5e-6], np.geomspace(1, 1e6, 97)])
        turn = np.linalg.qr(qt.random_numbers("turn").standard_normal((100, 100)))[0]
        inverse = turn @ np.diag(-1 / values) @ turn.T  # the lowest of this are the lowest of the matrix
        found = lobpcg(lambda v: inverse @ v, qt.random_numbers("start").standard_normal((100, 6)), wanted=3,
                       error=lambda v, r: r / 1e6, tolerance=1e-13, max_passes=100)
        np.testing.assert_allclose(-1 / found.values[:3], values[:3], rtol=1e-10)


class Hamiltonian(qt.QuarryTest):
    """A matrix four times as large as the memory."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.matrix = BlockedMatrix.write_blocks(cls.shared / "hamiltonian.blocks", ROWS, BLOCK, block_of_hamiltonian)
        cls.exact = np.sort(scipy.sparse.linalg.eigsh(whole(cls.matrix), 10, which="SA", tol=1e-12)[0])
        cls.memory = cls.matrix.nbytes // 4

    def test_ten_lowest_with_a_quarter_of_the_memory(self):
        found = {order: outofcore.lowest_eigenpairs(self.matrix, 10, memory=self.memory, order=order)
                 for order in ("data-aware", "fifo")}

        for pairs in found.values():
            self.assertLess(np.abs(pairs.values - self.exact).max(), 1e-8)
            self.assertLessEqual(pairs.report.peak, self.memory)
        aware, fifo = found["data-aware"].report, found["fifo"].report
        print(f"matrix of {self.matrix.nbytes} bytes in {self.memory}: {aware.summary()}\nfifo: {fifo.summary()}")
        self.assertEqual(fifo.bytes_moved, fifo.passes * self.matrix.nbytes, "nothing is found again in given order")
        self.assertLess(aware.bytes_moved / aware.passes, fifo.bytes_moved / fifo.passes)

    def test_the_process_stays_within_it(self):
        """Its peak memory, by the system: interpreter and libraries aside, and with what allocators keep."""
        script = f"""
import numpy, scipy.sparse, scipy.linalg
import quarry_outofcore as outofcore
matrix = outofcore.BlockedMatrix.open({str(self.matrix.folder)!r})
numpy.linalg.eigh(numpy.eye(100)); numpy.ones((500, 500)) @ numpy.ones((500, 500))
{PEAK}
before = peak()
outofcore.lowest_eigenpairs(matrix, 10, memory={self.memory})
print(peak() - before)
"""
        grown = int(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True,
                                   env=os.environ | {"PYTHONPATH": str(PACKAGE)}).stdout)
        self.assertLess(grown, self.memory + max(6 << 20, self.memory // 4))
        self.assertLess(grown, self.matrix.nbytes * 0.6)


def flow(folder):
    """Velocities of a flow around a cylinder, as a dataset of small patches."""
    x, y, z = DIMS
    every = 30
    qt.run("mpirun", "--oversubscribe", "--allow-run-as-root", "-n", 2, qt.BIN / "lbm", "--dims", f"{x}x{y}x{z}", "--steps",
           every * STEPS, "--dump-every", every, "--output", folder / "dump")
    arrays = {}
    for name in FIELDS:
        paths = sorted((folder / "dump").glob(f"step*/lbm-{name}-*.raw"))
        arrays[name] = np.stack([np.fromfile(path, "<f4").reshape(z, y, x) for path in paths])
    quarry.write(folder / "wake.quarry", arrays, relative=1e-4, patch=32 if qt.FULL else 16)
    return quarry.open(folder / "wake.quarry")


class Modes(qt.QuarryTest):
    """A series four times as large as the memory."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not (qt.BIN / "lbm").exists():
            qt.skip("there is no lbm; build it")
        cls.dataset = flow(cls.shared)
        cls.addClassCleanup(cls.dataset.close)
        cls.samples = np.concatenate([cls.dataset[name][:].reshape(STEPS, -1).T for name in FIELDS]).astype("f8")
        cls.bytes = cls.samples.size * 4
        cls.mean = cls.samples.mean(axis=1)
        cls.samples -= cls.mean[:, None]
        cls.modes, cls.values, _ = np.linalg.svd(cls.samples, full_matrices=False)

    def check(self, found, modes=10):
        self.assertTrue(found.converged)
        np.testing.assert_allclose(found.singular_values, self.values[:modes], rtol=1e-9)
        got = found.modes.reshape(modes, -1)
        signs = np.sign(np.einsum("ji,ij->j", got, self.modes[:, :modes]))
        worst = np.linalg.norm(got.T * signs - self.modes[:, :modes], axis=0).max()
        self.assertLess(worst, 1e-6)
        np.testing.assert_allclose(found.mean.ravel(), self.mean, atol=1e-12)
        self.assertAlmostEqual(found.energy / (self.values**2).sum(), 1, places=9)
        # Together with its coefficients it is the best approximation of that rank.
        left = self.samples - got.T @ found.coefficients.T
        self.assertAlmostEqual((left**2).sum() / (self.values[modes:]**2).sum(), 1, places=6)
        return worst

    def test_modes_are_those_of_numpy(self):
        found = {order: outofcore.pod(self.dataset, FIELDS, memory=self.bytes // 4, order=order)
                 for order in ("data-aware", "fifo")}

        for order, one in found.items():
            worst = self.check(one)
            print(f"{order}: modes differ by {worst:.1e}, {one.report.summary()}")
            self.assertLessEqual(one.report.peak, self.bytes // 4)
        self.assertLess(found["data-aware"].report.bytes_moved, found["fifo"].report.bytes_moved)
        self.assertEqual(found["fifo"].report.hits, 0)

    def test_the_process_stays_within_it(self):
        memory = self.bytes // 4
        script = f"""
import numpy, quarry
import quarry_outofcore as outofcore
dataset = quarry.open({self.dataset.target!r}, memory=1)
dataset["velocity_x"].read(box=((0, 16), (0, 16), (0, 16)))
numpy.linalg.eigh(numpy.eye(100)); numpy.ones((500, 500)) @ numpy.ones((500, 500))
{PEAK}
before = peak()
found = outofcore.pod(dataset, {FIELDS!r}, modes=2, memory={memory})
print(peak() - before - found.modes.nbytes - found.mean.nbytes)
"""
        grown = int(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True,
                                   env=os.environ | {"PYTHONPATH": str(PACKAGE)}).stdout)
        self.assertLess(grown, memory + max(10 << 20, memory // 4))
        self.assertLess(grown, self.bytes * 0.6)

    def test_command(self):
        output = self.tmp / "modes"
        arguments = [sys.executable, "-m", "quarry_outofcore", self.dataset.target, "--memory", self.bytes // 4, "--field",
                     "velocity_y", "--modes", "3", "--json", "--output", output]
        environment = {"PYTHONPATH": str(PACKAGE)}
        said = json.loads(qt.run(*arguments, env=environment).out)
        self.assertEqual((said["converged"], said["report"]["passes"] > 1), (True, True))
        modes = np.load(output / "modes.npy")
        self.assertEqual(modes.shape, (3, 1, *self.dataset.shape))
        np.testing.assert_allclose(np.tensordot(modes, modes, [[1, 2, 3, 4]] * 2), np.eye(3), atol=1e-9)
        again = qt.run(*arguments, env=environment)
        self.assertEqual((again.code, "exists; remove it" in again.err), (2, True))
        for wrong, text in ((["--field", "nothing"], "no field"), (["--modes", "99999"], "99999 modes"),
                            (["--memory", "1"], "too few"), (["--level", "70"], "no level 70")):
            refused = qt.run(*arguments[:-2], *wrong, env=environment)
            self.assertEqual((refused.code, text in refused.err), (2, True), refused)

    def test_a_server_and_a_level(self):
        with qt.Server(self.shared) as server, quarry.open(server.target(Path(self.dataset.target))) as behind:
            far = outofcore.pod(behind, "velocity_y", modes=4, level=1, memory="64MiB")
        samples = np.stack([self.dataset["velocity_y"].read(step=step, level=1).array.ravel()
                            for step in self.dataset.steps]).astype("f8")
        values = np.linalg.svd(samples - samples.mean(axis=0), compute_uv=False)
        np.testing.assert_allclose(far.singular_values, values[:4], rtol=1e-9)

    if qt.FULL:  # a quarter of the short form's data is less than an interpreter takes

        def test_workers_of_dask_with_a_quarter_of_the_memory(self):
            """The limit is dask's: it ends a worker that takes more."""
            limit = self.bytes // 4
            with workers(1, limit) as client:
                import psutil
                (taken,) = client.run(lambda: psutil.Process().memory_info().rss).values()
                found = outofcore.pod(self.dataset, FIELDS, memory=int(0.75 * limit - taken), client=client)
            print(f"worker of {limit} bytes: {found.report.summary()}")
            self.check(found)


class Dying(BlockedMatrix):
    """The worker that computes a certain block first ends at once, without a word."""

    def compute(self, kind, task, block, vectors):
        if task.block == "2-5":
            try:
                os.unlink(self.folder.parent / "poison")
                os.kill(os.getpid(), signal.SIGKILL)
            except FileNotFoundError:
                pass
        return super().compute(kind, task, block, vectors)

    def __reduce__(self):
        return Dying, (str(self.folder),)


def workers(count, memory=0):
    """A client of a new cluster, which it closes."""
    os.environ["PYTHONPATH"] = str(PACKAGE)
    return Client(LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None, memory_limit=memory,
                               silence_logs=40))


class Workers(Hamiltonian):
    """Two processes."""

    test_ten_lowest_with_a_quarter_of_the_memory = None
    test_the_process_stays_within_it = None

    def setUp(self):
        super().setUp()
        self.client = workers(2)
        self.addCleanup(self.client.cluster.close)
        self.addCleanup(self.client.close)
        self.memory = self.matrix.nbytes // 2  # the vectors are in both

    def test_the_same_from_two(self):
        reports = {}
        for order in ("data-aware", "fifo"):
            found = outofcore.lowest_eigenpairs(self.matrix, 10, memory=self.memory, order=order, client=self.client)
            self.assertLess(np.abs(found.values - self.exact).max(), 1e-8)
            self.assertLessEqual(found.report.peak, self.memory)
            reports[order] = found.report
        self.assertLess(reports["data-aware"].bytes_moved, reports["fifo"].bytes_moved)
        left = self.client.run(lambda: len(sys.modules["quarry_outofcore._engine"]._runners))
        self.assertEqual(set(left.values()), {0}, "blocks that nobody frees")

    def test_one_is_killed(self):
        dying = Dying(self.matrix.folder)
        (self.shared / "poison").touch()
        before = set(self.client.nthreads())

        found = outofcore.lowest_eigenpairs(dying, 10, memory=self.memory, client=self.client)

        self.assertFalse((self.shared / "poison").exists())
        self.assertNotEqual(set(self.client.nthreads()), before, "one has gone, another came")
        self.assertLess(np.abs(found.values - self.exact).max(), 1e-8)

    def test_series(self):
        array = qt.random_numbers("series").standard_normal((12, 16, 20, 24)).astype("f4")
        path = self.tmp / "noise.quarry"
        quarry.write(path, array, field="f", lossless=True, patch=8)
        with quarry.open(path) as dataset:
            found = outofcore.pod(dataset, "f", modes=3, memory="16MiB", client=self.client)
            damaged = pickle.loads(pickle.dumps(dataset))
            subfile = next((path / "steps").glob("*5/f/*.qsf"))
            bytes_ = bytearray(subfile.read_bytes())
            bytes_[100:20000] = bytes(19900)
            subfile.write_bytes(bytes_)
            with self.assertRaises(quarry.Error) as caught:
                outofcore.pod(damaged, "f", modes=3, memory="16MiB", client=self.client)
        self.assertEqual(caught.exception.code, "DATA_LOSS")
        samples = array.reshape(12, -1).astype("f8")
        values = np.linalg.svd(samples - samples.mean(axis=0), compute_uv=False)
        np.testing.assert_allclose(found.singular_values, values[:3], rtol=1e-9)
        self.assertGreater(found.report.bytes_sent, 0)


class Missing(qt.QuarryTest):
    """Series with missing samples."""

    def test_missing_in_every_step_or_in_some(self):
        array = qt.random_numbers("missing").standard_normal((6, 8, 8, 8)).astype("f4")
        array[:, 2:4, 3, 3] = np.nan
        path = self.tmp / "a.quarry"
        quarry.write(path, array, field="f", lossless=True, patch=8)
        with quarry.open(path) as dataset:
            found = outofcore.pod(dataset, "f", modes=2, memory="16MiB")
        filled = np.nan_to_num(array).reshape(6, -1).astype("f8")
        values = np.linalg.svd(filled - filled.mean(axis=0), compute_uv=False)
        np.testing.assert_allclose(found.singular_values, values[:2], rtol=1e-9)
        self.assertTrue((found.modes[:, 0, 2:4, 3, 3] == 0).all())

        array[4, 6, 6, 6] = np.nan
        path = self.tmp / "b.quarry"
        quarry.write(path, array, field="f", lossless=True, patch=8)
        with quarry.open(path) as dataset, self.assertRaisesRegex(ValueError, "missing in step 4, but not in all steps"):
            outofcore.pod(dataset, "f", modes=2, memory="16MiB")


if __name__ == "__main__":
    qt.main()
