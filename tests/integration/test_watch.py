"""A simulation writes steps while clients watch: every step reaches each of them once, in order, and complete."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading

import numpy as np

import quarry_testing as qt

STEPS = 10
DIMS = (32, 24, 16)
TOLERANCE = 0.01


def field_of(step):
    """Each step differs from the others, so a wrong one shows."""
    return qt.turbulent(DIMS, name=step)


class Server(qt.Server):
    """May take the address of one that has gone."""

    def __init__(self, root, *options, address=""):
        super().__init__(root, "--watch", "0.05", *options)
        if address:
            self.command[self.command.index("--listen") + 1] = address

    def reload(self):
        self._process.send_signal(signal.SIGHUP)


class Watcher:
    """A `quarry watch --json` that runs on its own, and acts on each line as soon as it comes."""

    def __init__(self, target, *options, act=lambda step: None, env=None):
        command = [qt.executable("quarry"), "watch", str(target), "--json", *map(str, options)]
        self._process = subprocess.Popen(command, env=qt.ENVIRONMENT | (env or {}), text=True, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE)
        self._act = act
        self._changed = threading.Condition()
        self._error = None
        self.events = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        try:
            for line in self._process.stdout:
                event = json.loads(line)
                self._act(event["step"])
                with self._changed:
                    self.events.append(event)
                    self._changed.notify_all()
        except BaseException as error:  # pylint: disable=broad-except  # told by finish()
            self._error = error
            self._process.kill()

    @property
    def steps(self):
        return [event["step"] for event in self.events]

    def wait_for(self, step):
        """Until it has received a step."""
        with self._changed:
            if not self._changed.wait_for(lambda: step in self.steps or self._error, qt.TIMEOUT):
                raise AssertionError(f"step {step} has not come, only {self.steps}")
        if self._error:
            raise self._error

    def finish(self):
        """How it ended, once it has."""
        self._reader.join(qt.TIMEOUT)
        if self._error:
            raise self._error
        if self._reader.is_alive():
            raise AssertionError(f"still watching, after steps {self.steps}")
        errors = self._process.stderr.read()
        return qt.check_sound(qt.Outcome("quarry watch", self._process.wait(), "", errors))

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._process.stderr.close()


class Watch(qt.QuarryTest):
    def setUp(self):
        super().setUp()
        self.data = self.tmp / "data"
        self.data.mkdir()
        self.dataset = self.data / "run.quarry"

    def watch(self, target, *options, **keywords):
        watcher = Watcher(target, *options, **keywords)
        self.addCleanup(watcher.stop)
        return watcher

    def write_command(self, step, *options, field=None):
        source = self.tmp / f"step{step}.f32"
        (field_of(step) if field is None else field).tofile(source)
        dims = DIMS if field is None else field.shape[::-1]
        append = ("--append",) if self.dataset.exists() else ()
        return ("quarry-write", source, "--type", "float32", "--dims", "x".join(map(str, dims)), "--tolerance", TOLERANCE,
                "--patch", "8", "--field", "f", "--step", step, "--time", step / 2, *append, "--output", self.dataset,
                *options)

    def write(self, *steps):
        for step in steps:
            qt.succeed(*self.write_command(step))

    def read_at_once(self, target, name):
        """A watcher reads each step whole, in a program of its own, and keeps the bytes."""
        kept = {}

        def act(step):
            kept[step] = qt.get(target, self.tmp / f"{name}.raw", "--step", step)
            self.assert_decoded(field_of(step), np.frombuffer(kept[step], "<f4"), TOLERANCE)

        return kept, act

    def test_clients_follow_a_simulation(self):
        """Three through a server, one of them from step 2 on, and one through the directory."""
        self.write(0)
        with Server(self.data) as server:
            remote = server.target(self.dataset)
            watchers = []
            for number, (target, after) in enumerate([(remote, None), (remote, None), (remote, 2), (self.dataset, None)]):
                kept, act = self.read_at_once(target, f"client{number}")
                expected = list(range(STEPS)) if after is None else list(range(after + 1, STEPS))
                options = ("--count", len(expected), *(() if after is None else ("--after", after)))
                watchers.append((self.watch(target, *options, act=act), kept, expected))
            self.write(*range(1, STEPS))
            for watcher, kept, expected in watchers:
                outcome = watcher.finish()
                self.assertEqual(outcome.code, qt.DONE, outcome)
                self.assertEqual(watcher.steps, expected)
                self.assertEqual([event["time"] for event in watcher.events], [step / 2 for step in expected])
                self.assertTrue(all(event["fields"] == ["f"] for event in watcher.events))
                for step in expected:
                    whole = qt.get(self.dataset, self.tmp / "whole.raw", "--step", step)
                    self.assertEqual(hashlib.sha256(kept[step]).hexdigest(), hashlib.sha256(whole).hexdigest())

    def test_steps_that_are_there_are_announced_or_not(self):
        self.write(0, 1, 2)
        with Server(self.data) as server:
            for target in server.target(self.dataset), self.dataset:
                def seen(*options):
                    outcome = qt.succeed("quarry", "watch", target, *options)
                    return [line.split(",")[0] for line in outcome.out.splitlines()]

                self.assertEqual(seen("--count", 3), ["step 0", "step 1", "step 2"])
                self.assertEqual(seen("--after", 0, "--count", 2), ["step 1", "step 2"])
            watchers = [self.watch(target, "--new", "--count", 2)
                        for target in (server.target(self.dataset), self.dataset)]
            # One after the other until both have heard of two: when they have begun to watch shows in nothing else.
            step = 3
            while any(watcher._reader.is_alive() for watcher in watchers):
                self.assertLess(step, 1000)
                self.write(step)
                step += 1
            for watcher in watchers:
                self.assertEqual(watcher.finish().code, qt.DONE)
                first = watcher.steps[0]
                self.assertGreaterEqual(first, 3)
                self.assertEqual(watcher.steps, [first, first + 1])

    def test_a_step_that_a_killed_writer_has_begun_is_not_announced(self):
        """The writer is stopped in the middle, and then killed."""
        self.dataset = self.data / "large.quarry"
        large = qt.turbulent((96, 96, 96), name="large")
        qt.succeed(*self.write_command(0, field=large))
        with Server(self.data) as server:
            watchers = [self.watch(target) for target in (server.target(self.dataset), self.dataset)]
            killed = 1
            while not self.kill_writer(killed, large):
                killed += 1
                self.assertLess(killed, 100, "the writer was always faster")
            for watcher in watchers:
                watcher.wait_for(killed - 1)
            self.assertFalse((self.dataset / f"steps/{killed:06}").exists())
            self.assertNotEqual(list((self.dataset / "steps").glob(".partial*")), [])
            qt.succeed(*self.write_command(killed + 1, field=large))
            for watcher in watchers:
                watcher.wait_for(killed + 1)
                self.assertEqual(watcher.steps, [*range(killed), killed + 1])

    def has_partial_subfile(self):
        """Whether a step that is not published has a subfile. Folders may go while this looks."""
        return any(name.endswith(".qsf") for folder, _, names in os.walk(self.dataset / "steps") if ".partial" in folder
                   for name in names)

    def kill_writer(self, step, field):
        """Kills a writer that has part of its step on disk and has not published it; false when it has published."""
        command = [*map(str, self.write_command(step, field=field))]
        writer = subprocess.Popen([qt.executable(command[0]), *command[1:]], env=qt.ENVIRONMENT,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        published = self.dataset / f"steps/{step:06}"
        while not self.has_partial_subfile() and writer.poll() is None:
            pass  # the writer ends
        if writer.poll() is None:
            os.kill(writer.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, writer.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        caught = not published.exists()
        # A published step may lack nothing but the end of the program.
        if caught:
            writer.kill()
        else:
            writer.send_signal(signal.SIGCONT)  # nothing happens to one that has ended
        writer.wait()
        return caught

    def test_a_watcher_waits_for_the_dataset(self):
        """The server starts first, then the watcher, then the simulation."""
        with Server(self.data) as server:
            targets = server.target(self.dataset), self.dataset
            for target in targets:
                outcome = qt.run("quarry", "watch", target)
                self.assert_one_line(outcome, qt.NOT_FOUND, "run")
            watchers = [self.watch(target, "--wait", "--count", 3) for target in targets]
            self.write(0, 1, 2)
            for watcher in watchers:
                self.assertEqual(watcher.finish().code, qt.DONE)
                self.assertEqual(watcher.steps, [0, 1, 2])

    def test_watching_ends_when_the_dataset_goes_away(self):
        for leave in shutil.rmtree, lambda path: path.rename(self.tmp / "elsewhere"):
            self.write(0)
            with Server(self.data) as server:
                watchers = [self.watch(target) for target in (server.target(self.dataset), self.dataset)]
                for watcher in watchers:
                    watcher.wait_for(0)
                leave(self.dataset)
                for watcher in watchers:
                    outcome = watcher.finish()
                    # In the middle of a removal it looks like a damaged one.
                    self.assertIn(outcome.code, (qt.NOT_FOUND, qt.DAMAGED), outcome)
                    self.assertEqual(len(outcome.err.splitlines()), 1, outcome)
                    self.assertEqual(watcher.steps, [0])

    def test_a_watcher_outlives_its_server(self):
        """A server that stops, and one that is killed: the next continues after the last step."""
        self.write(0)
        with Server(self.data) as first:
            kept, act = self.read_at_once(self.dataset, "client")
            watcher = self.watch(first.target(self.dataset), "--count", 6, act=act)
            watcher.wait_for(0)
        self.write(1)
        with Server(self.data, address=first.address) as second:
            watcher.wait_for(1)
            self.write(2)
            watcher.wait_for(2)
            second.kill()
            self.write(3)
        with Server(self.data, address=first.address):
            watcher.wait_for(3)
            self.write(4, 5)
            outcome = watcher.finish()
        self.assertEqual(outcome.code, qt.DONE, outcome)
        self.assertEqual(watcher.steps, [0, 1, 2, 3, 4, 5])
        self.assertEqual(list(kept), watcher.steps)

    def test_without_patience_a_server_that_stops_ends_the_watching(self):
        self.write(0)
        with Server(self.data) as server:
            watcher = self.watch(server.target(self.dataset), "--patience", "0")
            watcher.wait_for(0)
        outcome = watcher.finish()
        self.assertEqual(outcome.code, qt.UNREACHABLE, outcome)
        self.assertIn("stopping", outcome.err)

    def test_a_token_that_is_withdrawn_ends_the_watching(self):
        self.write(0)
        tokens = self.tmp / "tokens"
        lines = [f"{name} sha256:{hashlib.sha256(name.encode()).hexdigest()} *\n" for name in ("alice", "bob")]
        tokens.write_text("".join(lines))
        with Server(self.data, "--tokens", tokens) as server:
            watchers = {name: self.watch(server.target(self.dataset), "--count", 2, env={"QUARRY_TOKEN": name})
                        for name in ("alice", "bob")}
            for watcher in watchers.values():
                watcher.wait_for(0)
            tokens.write_text(lines[1])
            server.reload()
            outcome = watchers["alice"].finish()
            self.assertEqual(outcome.code, qt.UNREACHABLE, outcome)
            self.assertIn("token", outcome.err)
            self.write(1)
            self.assertEqual(watchers["bob"].finish().code, qt.DONE)
        self.assertEqual([watcher.steps for watcher in watchers.values()], [[0], [0, 1]])

    def test_options_that_make_no_sense_are_refused(self):
        for option in ("--count", "0"), ("--after", "-1"), ("--patience", "-1"):
            outcome = qt.run("quarry", "watch", self.dataset, *option)
            self.assert_one_line(outcome, qt.USAGE, option[0])


if __name__ == "__main__":
    qt.main()
