"""Clients that no server wishes for: thousands of streams at once, and requests that are no messages. Each call must
end with the right status, and the server stay alive, within its memory, and as good as before."""

import json
import re
import subprocess
from pathlib import Path

import quarry_testing as qt

DIMS = (128, 128, 64)
OK, RESOURCE_EXHAUSTED = "0", "8"


def largest_memory(process):
    """[bytes] The most that a process has had in memory so far."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


class HostileClients(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.shared / "data"
        cls.data.mkdir()
        qt.convert(qt.smooth(DIMS), cls.data / "a.quarry", "--tolerance", "1e-3")

    def hostile(self, kind, server, *options):
        """How many calls ended with each code."""
        done = subprocess.run([qt.BIN / "hostile_client", kind, server.address, "--dataset", "a", "--field", "f",
                               *map(str, options)], capture_output=True, text=True, timeout=qt.TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def assert_sound(self, server):
        qt.succeed("quarry", "get", server.target("a"), "--output", self.tmp / "out.raw")

    def test_streams(self):
        """Far more streams than calls may run: as many are answered as fit, all others refused at once."""
        streams, calls, memory = qt.scaled(2000, 10_000), qt.scaled(100, 1000), 128 << 20
        with qt.Server(self.data, "--calls", calls, "--streams", streams, "--memory", f"{memory}B", "--queue",
                       calls // 2, "--quiet") as server:
            self.assert_sound(server)
            before = largest_memory(server._process)
            outcomes = self.hostile("streams", server, "--count", streams, "--connections", 4)
            self.assertLessEqual(set(outcomes), {OK, RESOURCE_EXHAUSTED}, outcomes)
            self.assertEqual(sum(outcomes.values()), streams)
            self.assertGreater(outcomes[OK], 0)
            # No client takes anything before all have asked: beyond `calls` there is nothing but refusals.
            self.assertGreaterEqual(outcomes[RESOURCE_EXHAUSTED], streams - calls)
            # Beside the budget: what gRPC keeps for a stream, and the stacks of the calls.
            self.assertLess(largest_memory(server._process) - before, memory + streams * (64 << 10), outcomes)
            self.assert_sound(server)

    def test_streams_wait_in_the_client(self):
        """As the server is out of the box: 100 streams of one connection at a time, the others wait, and none is
        refused."""
        streams = qt.scaled(300, 10_000)
        with qt.Server(self.data, "--quiet") as server:
            self.assertEqual(self.hostile("streams", server, "--count", streams, "--connections", 2, "--take"),
                             {OK: streams})

    def test_requests(self):
        count = qt.scaled(2000, 200_000)
        with qt.Server(self.data, "--log-level", "error") as server:
            self.assert_sound(server)
            before = largest_memory(server._process)
            outcomes = self.hostile("requests", server, "--count", count, "--seed", qt.SEED)
            self.assertGreater(outcomes[OK], 0)
            self.assertGreater(outcomes["3"], 0, "questions that parse and make no sense")
            self.assertGreater(outcomes["13"], 0, "bytes that do not parse")
            self.assertLess(largest_memory(server._process) - before, 256 << 20)
            self.assert_sound(server)


if __name__ == "__main__":
    qt.main()
