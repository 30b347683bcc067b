"""A simulation writes steps while clients watch: every step reaches each of them once, in order, and can be read then."""

import json
import subprocess

import quarry_testing as qt

STEPS = 12


def watch(*arguments):
    """A `quarry watch` that runs on its own."""
    command = [qt.executable("quarry"), "watch", *map(str, arguments)]
    return subprocess.Popen(command, env=qt.ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Watch(qt.QuarryTest):
    def test_three_clients_follow_a_simulation(self):
        field = self.tmp / "f.f32"
        samples = qt.make_field((32, 24, 16), "<f4", name="watch")
        samples.tofile(field)
        options = ("--type", "float32", "--dims", "32x24x16", "--tolerance", "0.01", "--patch", "8", "--field", "f")
        dataset = self.tmp / "run.quarry"
        qt.succeed("quarry-write", field, *options, "--output", dataset)
        with qt.Server(self.tmp, "--watch", "0.05") as server:
            targets = [server.target(dataset), server.target(dataset), dataset]
            watchers = [watch(target, "--count", STEPS, "--json") for target in targets]
            try:
                for step in range(1, STEPS):
                    qt.succeed("quarry-write", field, *options, "--append", "--step", step, "--time", step / 2, "--output",
                               dataset)
                for watcher, target in zip(watchers, targets):
                    seen = []
                    for line in watcher.stdout:
                        event = json.loads(line)
                        seen.append(event["step"])
                        self.assertEqual(event["fields"], ["f"])
                        qt.succeed("quarry", "get", target, "--step", event["step"], "--level", "1", "--output",
                                   self.tmp / "a.raw")
                    self.assertEqual(watcher.wait(), 0)
                    self.assertEqual(seen, list(range(STEPS)))
            finally:
                for watcher in watchers:
                    watcher.kill()
                    watcher.communicate()

    def test_only_what_is_new(self):
        field = self.tmp / "f.f32"
        qt.smooth((16, 16, 16)).tofile(field)
        options = ("--type", "float32", "--dims", "16x16x16", "--tolerance", "0.01", "--field", "f")
        dataset = self.tmp / "run.quarry"
        qt.succeed("quarry-write", field, field, field, *options, "--output", dataset)
        seen = qt.succeed("quarry", "watch", dataset, "--after", "0", "--count", "2").out.splitlines()
        self.assertEqual([line.split(":")[0] for line in seen], ["step 1", "step 2"])
        outcome = qt.run("quarry", "watch", self.tmp / "none.quarry")
        self.assert_one_line(outcome, qt.NOT_FOUND, "none.quarry")

    def test_a_server_that_stops_ends_the_watching(self):
        field = self.tmp / "f.f32"
        qt.smooth((16, 16, 16)).tofile(field)
        dataset = self.tmp / "run.quarry"
        qt.succeed("quarry-write", field, "--type", "float32", "--dims", "16x16x16", "--tolerance", "0.01", "--output",
                   dataset)
        with qt.Server(self.tmp) as server:
            watcher = watch(server.target(dataset))
            self.assertTrue(watcher.stdout.readline().startswith("step 0"))
        _, errors = watcher.communicate()
        self.assertEqual(watcher.returncode, qt.UNREACHABLE, errors)
        self.assertIn("stopping", errors)


if __name__ == "__main__":
    qt.main()
