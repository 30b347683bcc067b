"""A step appears whole or not at all: kills at random moments, failing ranks, full disks.

Kills come at random moments of a run, from its first instant to its end. The delay is the experiment, not
synchronisation: the checks hold for every moment of the kill.
"""

import contextlib
import functools
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import quarry_testing as qt

RANKS = 4
DIMS = (96, 80, 72)
LAYOUT = ("--field", "f", "--relative", "1e-4", "--patch", "16", "--files", "8")
STEPS = 4


def write_command(dataset, sources, *options, ranks=RANKS, program="quarry-write"):
    options = ("--dims", "x".join(map(str, DIMS)), "--type", "float32", *LAYOUT, *options)
    return qt.mpi_command(ranks, program, *sources, *options, "--output", dataset)


# The run after a kill is on ranks again, or in one process, which starts faster.
ON_RANKS = {"ranks": RANKS}
IN_ONE_PROCESS = {"ranks": 0, "program": qt.SERIAL_WRITER}


def children_of(pid):
    """All descendants of a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # it has just ended
            continue
        for child in children:
            found += [int(child), *children_of(child)]
    return found


def open_processes(pids):
    """Descriptors of the processes that have not ended yet: safe against reused process numbers."""
    descriptors = []
    for pid in pids:
        try:
            descriptors.append(os.pidfd_open(pid))
        except ProcessLookupError:
            pass
    return descriptors


def kill(descriptor):
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:  # it has just ended
        pass


def wait_for_end(descriptors):
    """Open MPI sometimes leaves ranks in MPI_Init, waiting for an mpirun that has ended. Processes that take too long
    are killed as well, which is one more kill at some moment."""
    latest = time.monotonic() + 10
    for descriptor in descriptors:
        ended, _, _ = select.select([descriptor], [], [], max(0, latest - time.monotonic()))
        if not ended:
            kill(descriptor)
            select.select([descriptor], [], [])
        os.close(descriptor)


class Timing(NamedTuple):
    """Seconds of an undisturbed run: until its first line, and from there to its last."""

    start: float
    work: float


def run_timed(command):
    begin = time.monotonic()
    times = []
    with subprocess.Popen(command, env=qt.ENVIRONMENT, stdout=subprocess.PIPE) as process:
        for _ in process.stdout:
            times.append(time.monotonic() - begin)
    if process.returncode != qt.DONE:
        raise AssertionError(f"failed: {command}")
    return Timing(times[0], times[-1] - times[0])


def kill_during(command, delay, after_first_line, victim):
    """Runs an MPI command and kills (-9) `victim` after `delay` seconds, counted from the start or from its
    first line: "mpirun", "all" of mpirun and its ranks at one moment, or "rank", the last one. Returns a
    function that waits for the processes that were left to themselves."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=qt.ENVIRONMENT)
    if after_first_line:
        process.stdout.readline()
    time.sleep(delay)
    # Stopped first, so that it starts no rank that we do not see. If it has ended, wait() still finds it.
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    ranks = open_processes(children_of(process.pid))
    for rank in {"mpirun": [], "rank": ranks[-1:], "all": ranks}[victim]:
        kill(rank)
    # A mpirun that lives on notices the missing rank and ends the others.
    os.kill(process.pid, signal.SIGCONT if victim == "rank" else signal.SIGKILL)

    def wait():
        wait_for_end(ranks)
        # A mpirun that was stopped before it had started all ranks starts the others, and ends after them.
        if len(ranks) < RANKS:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        # Every rank has ended, so there is nothing more to learn from mpirun. When it had to end some of them itself,
        # it now and then waits for ever in its own last function (pmix_rte_finalize).
        process.kill()
        process.wait()
        process.stdout.close()

    return wait


class Publish(qt.QuarryTest):
    SHARE = 1  # share of the counts

    @classmethod
    def make_field(cls, step):
        return qt.turbulent(DIMS, name=step)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sources = []
        for step in range(STEPS + 1):
            cls.sources.append(cls.shared / f"step{step}.f32")
            cls.make_field(step).tofile(cls.sources[-1])
        cls.first = cls.shared / "first.quarry"
        cls.creating = run_timed(write_command(cls.first, cls.sources[:1]))
        # The undisturbed run: what every published step must be equal to.
        cls.complete = cls.shared / "complete.quarry"
        shutil.copytree(cls.first, cls.complete)
        command = write_command(cls.complete, cls.sources[1:STEPS], "--append", "--step", "1")
        cls.appending = run_timed(command)
        cls.reference = qt.snapshot(cls.complete)

    def check_published(self, dataset, most):
        """The dataset is sound and lists the first steps without a gap, each as the undisturbed run wrote it.
        Returns how many."""
        self.assert_verified(dataset)
        steps = qt.info(dataset)["steps"]
        self.assertIn(steps, [list(range(n)) for n in range(1, most + 1)])
        for step in steps:
            folder = f"steps/{step:06}"
            expected = {name: data for name, data in self.reference.items() if name.startswith(folder + "/")}
            actual = {f"{folder}/{name}": data for name, data in qt.snapshot(dataset / folder).items()}
            self.assertEqual(actual.keys(), expected.keys())
            self.assertTrue(actual == expected, f"step {step} has other bytes than the undisturbed run's")
        return len(steps)

    def check_next_run(self, dataset, done, how):
        """The same series again, or one more step, with --resume: it skips what is published, writes the rest, and
        cleans up."""
        series = self.sources[:STEPS] if done < STEPS else self.sources
        outcome = qt.succeed(*write_command(dataset, series, "--resume", **how))
        if done > 0:
            self.assertIn(f"{done} field{'s' if done > 1 else ''} published already", outcome.out)
        self.assert_verified(dataset)
        self.assertEqual(qt.info(dataset)["steps"], list(range(len(series))))
        self.assert_no_leftovers(dataset.parent)
        if done < STEPS:
            self.assertTrue(qt.snapshot(dataset) == self.reference, "not what the undisturbed run wrote")

    def try_kills(self, short, full, timing, experiment):
        """Runs experiment(folder, kill, how) for random moments and victims, in a fresh folder each time; `how` says
        how the next writer runs. Every third kill comes while MPI starts, which is most of a short run."""
        random = qt.random_numbers(experiment.__name__)
        for number in range(max(1, round(self.SHARE * qt.scaled(short, full)))):
            starting = number % 3 == 0
            moment = {"delay": random.uniform(0, timing.start if starting else timing.work),
                      "after_first_line": not starting,
                      "victim": str(random.choice(("mpirun", "all", "rank")))}
            with self.subTest(**moment):
                folder = self.tmp / str(number)
                folder.mkdir()
                experiment(folder, functools.partial(kill_during, **moment),
                           ON_RANKS if number % 3 == 1 else IN_ONE_PROCESS)
                shutil.rmtree(folder)

    def test_kill_while_appending(self):
        published = []

        def append(folder, kill, how):
            dataset = folder / "run.quarry"
            shutil.copytree(self.first, dataset)
            wait = kill(write_command(dataset, self.sources[1:STEPS], "--append", "--step", "1"))
            try:
                # Ranks that mpirun has left behind may still be at work: a reader must not notice.
                self.assert_verified(dataset)
            finally:
                wait()
            published.append(self.check_published(dataset, STEPS))
            self.check_next_run(dataset, published[-1], how)

        self.try_kills(4, 100, self.appending, append)
        print("steps found after the kills:", sorted(published), flush=True)

    def test_kill_while_creating(self):
        created = []

        def create(folder, kill, how):
            dataset = folder / "run.quarry"
            command = write_command(dataset, self.sources[:1])
            kill(command)()
            created.append(dataset.exists())
            if dataset.exists():
                self.assertEqual(self.check_published(dataset, 1), 1)
            self.check_next_run(dataset, int(created[-1]), how)

        self.try_kills(3, 30, self.creating, create)
        print("datasets found after the kills:", sum(created), "of", len(created), flush=True)

    def test_kill_while_adding_a_field(self):
        """A field that is added to an existing step is complete or not listed in the step."""
        def command(dataset, how):
            command = write_command(dataset, self.sources[1:2], "--append", **how)
            command[command.index("--field") + 1] = "g"
            return command

        def add(folder, kill, how):
            dataset = folder / "run.quarry"
            shutil.copytree(self.first, dataset)
            kill(command(dataset, ON_RANKS))()
            self.assert_verified(dataset)
            fields = [field["name"] for field in qt.step_manifest(dataset)["fields"]]
            self.assertIn(fields, (["f"], ["f", "g"]))
            if fields == ["f"]:
                qt.succeed(*command(dataset, how))
            else:
                self.check_next_step(dataset, how)
            self.assert_no_leftovers(folder)
            self.assert_verified(dataset)
            added = qt.get_array(dataset, folder / "g.raw", "<f4", field="g")
            tolerance = qt.step_manifest(dataset)["fields"][1]["tolerance"]
            self.assert_decoded(self.make_field(1), added, tolerance)

        self.try_kills(3, 30, self.creating, add)

    def check_next_step(self, dataset, how):
        qt.succeed(*write_command(dataset, self.sources[1:2], "--append", "--step", "1", **how))

    def test_left_overs_are_removed(self):
        """Partial files as kills at the worst moments leave them: the next run removes them."""
        def leave(*paths):
            for path in paths:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"half")

        dataset = self.tmp / "run.quarry"
        growing = self.tmp / ".run.quarry.partial"
        leave(growing / "steps/000003/f/0000.qsf", growing / "dataset.json.partial-4242")
        qt.succeed(*write_command(dataset, self.sources[:1], ranks=0))
        self.assert_no_leftovers(self.tmp)
        self.check_published(dataset, 1)

        leave(dataset / "steps/.partial-9/f/0000.qsf", dataset / "steps/.partial-0/step.json",
              dataset / "steps/.partial-dataset.json", dataset / "masks/.0123456789abcdef.partial/0000.qsf")
        self.assert_verified(dataset)
        self.check_next_step(dataset, ON_RANKS)
        self.assert_no_leftovers(self.tmp)


class PublishMasks(Publish):
    """The same with missing samples: steps share masks, and bring new ones."""

    SHARE = 0.7

    @classmethod
    def make_field(cls, step):
        holes = qt.with_holes(qt.turbulent(DIMS, name=step), np.nan)
        return np.roll(holes, step // 2, axis=2)


class Failures(qt.QuarryTest):
    """A failure on one rank fails the run: it ends, with one message, and without leftovers."""

    # Open MPI keeps its shared memory in files, which a limit on file sizes must not hit.
    NO_SHARED_FILES = {
        "PMIX_MCA_gds": "hash",
        "OMPI_MCA_btl": "self,tcp",
        "OMPI_MCA_btl_tcp_if_include": "lo",
    }

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        source = cls.shared / "in.f32"
        qt.with_holes(qt.turbulent(DIMS), np.nan).tofile(source)
        qt.succeed(*write_command(cls.shared / "existing.quarry", [source], **IN_ONE_PROCESS))

    def setUp(self):
        super().setUp()
        shutil.copytree(self.shared, self.tmp, dirs_exist_ok=True)
        self.source, self.existing = self.tmp / "in.f32", self.tmp / "existing.quarry"

    def check_fails(self, code, command, **options):
        """The failure itself: the exit code, one line, and everything as it was before."""
        before = qt.snapshot(self.tmp)
        outcome = qt.run(*command, **options)
        self.assertEqual(outcome.code, code, outcome)
        self.assertEqual(len(outcome.lines_of("quarry-write")), 1, outcome)
        self.assertTrue(qt.snapshot(self.tmp) == before, f"something has changed: {outcome}")
        self.assert_verified(self.existing)
        return outcome

    def check_create_and_append(self, code, make_command, **options):
        """The same failure of a new dataset, and of a step that is added to an existing one."""
        for dataset, more in ((self.tmp / "new.quarry", ()), (self.existing, ("--append", "--step", "7"))):
            with self.subTest(dataset=dataset.name):
                self.check_fails(code, make_command(dataset, more), **options)

    def one_rank_elsewhere(self, prepare):
        """A command whose last rank finds another file under the name of the input, made by prepare(path)."""
        elsewhere = self.tmp / "elsewhere"
        elsewhere.mkdir()
        prepare(elsewhere / self.source.name)

        def make_command(dataset, options):
            program = write_command(dataset, [self.source.name], *options, ranks=0)
            return ["mpirun", "-n", str(RANKS - 1), "-wdir", str(self.tmp), *program,
                    ":", "-n", "1", "-wdir", str(elsewhere), *program]

        return make_command

    def test_input_missing_on_one_rank(self):
        self.check_create_and_append(qt.NOT_FOUND, self.one_rank_elsewhere(lambda path: None))

    def test_input_short_on_one_rank(self):
        def half(path):
            path.write_bytes(self.source.read_bytes()[: self.source.stat().st_size // 2])

        self.check_create_and_append(qt.USAGE, self.one_rank_elsewhere(half))

    def test_input_unreadable_on_one_rank(self):
        """An empty folder in its place: permissions would not stop root."""
        self.check_create_and_append(qt.NOT_FOUND, self.one_rank_elsewhere(Path.mkdir))

    def test_input_that_is_cut_short_during_the_run(self):
        """The last of several inputs shrinks as soon as the first step is out. It may have been read by then:
        steps that were published stay, and the rest is as if it had never been."""
        for ranks in (0, RANKS):
            with self.subTest(ranks=ranks):
                sources = [self.source] * 5 + [self.tmp / f"last{ranks}.f32"]
                shutil.copy(self.source, sources[-1])
                dataset = self.tmp / f"shrinking{ranks}.quarry"
                command = write_command(dataset, sources, ranks=ranks)
                with subprocess.Popen(command, env=qt.ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT) as process:
                    lines = []
                    for line in process.stdout:
                        if "published" in line and not any("published" in earlier for earlier in lines):
                            os.truncate(sources[-1], 1000)
                        lines.append(line)
                outcome = qt.check_sound(qt.Outcome("quarry-write", process.returncode, "", "".join(lines)))
                failed = int(outcome.code != qt.DONE)
                self.assertEqual(len(outcome.lines_of("quarry-write")), failed, outcome)
                self.assertEqual(qt.info(dataset)["steps"], list(range(len(sources) - failed)))
                self.assert_verified(dataset)
                self.assert_no_leftovers(self.tmp)

    def test_full_file_system(self):
        """A file system with room for two steps and a half, mounted for the test: the dataset that is on it stays as it was, and the same
        run finishes with --resume when there is room."""
        place = self.tmp / "small"
        place.mkdir()
        step = sum(len(data) for data in qt.snapshot(self.existing).values() if data)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={5 * step // 2}", "tmpfs", str(place)]
        if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode != 0:
            qt.skip("this needs the right to mount a file system")
        try:
            sources = [self.source] * 5
            dataset = place / "run.quarry"
            for ranks in (RANKS, 0):
                outcome = qt.run(*write_command(dataset, sources, "--resume", ranks=ranks))
                self.assertEqual(outcome.code, qt.IO_ERROR, outcome)
                self.assertEqual(len(outcome.lines_of("quarry-write")), 1, outcome)
                self.assertIn("No space left on device", outcome.err)
                self.assert_verified(dataset)
                self.assert_no_leftovers(place)
            done = len(qt.info(dataset)["steps"])
            self.assertIn(done, range(1, len(sources)))
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
            qt.succeed(*write_command(dataset, sources, "--resume"))
            whole = self.tmp / "whole.quarry"
            qt.succeed(*write_command(whole, sources, **IN_ONE_PROCESS))
            self.assertTrue(qt.snapshot(dataset) == qt.snapshot(whole), "not what an undisturbed run writes")
        finally:
            subprocess.run(["umount", str(place)], check=True)

    def test_full_disk(self):
        """A limit on file sizes acts like a full disk: on the only rank, on all, on one of many."""
        limited = ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh"]

        def only_rank(dataset, options):
            return [*limited, *write_command(dataset, [self.source], *options, ranks=0)]

        def every_rank(dataset, options):
            program = write_command(dataset, [self.source], *options, ranks=0)
            return ["mpirun", "-n", str(RANKS), *limited, *program]

        def last_rank(dataset, options):
            program = write_command(dataset, [self.source], *options, ranks=0)
            return ["mpirun", "-n", str(RANKS - 1), *program, ":", "-n", "1", *limited, *program]

        for make_command in (only_rank, every_rank, last_rank):
            with self.subTest(limited=make_command.__name__):
                self.check_create_and_append(qt.IO_ERROR, make_command, env=self.NO_SHARED_FILES)


if __name__ == "__main__":
    qt.main()
