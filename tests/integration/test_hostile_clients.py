"""Hostile clients: thousands of streams at once, and malformed requests. Each call must end with the right status, and
the server must stay alive, within its memory, and serve as before."""

import json
import subprocess

import quarry_testing as qt

DIMS = (128, 128, 64)
OK, RESOURCE_EXHAUSTED = "0", "8"


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

    def assert_memory(self, server, most):
        if not qt.SANITIZED:
            self.assertLess(server.largest_memory(), most)

    def assert_sound(self, server):
        qt.succeed("quarry", "get", server.target("a"), "--output", self.tmp / "out.raw")

    def test_streams(self):
        """Far more streams than calls may run: as many are answered as fit, all others refused at once."""
        streams, calls, memory = qt.scaled(2000, 10_000), qt.scaled(100, 1000), 128 << 20
        with qt.Server(self.data, "--calls", calls, "--streams", streams, "--memory", f"{memory}B", "--queue",
                       calls // 2, "--quiet") as server:
            self.assert_sound(server)
            before = server.largest_memory()
            outcomes = self.hostile("streams", server, "--count", streams, "--connections", 4)
            self.assertLessEqual(set(outcomes), {OK, RESOURCE_EXHAUSTED}, outcomes)
            self.assertEqual(sum(outcomes.values()), streams)
            self.assertGreater(outcomes[OK], 0)
            # Streams that end while others still arrive make room for them.
            self.assertGreaterEqual(outcomes[RESOURCE_EXHAUSTED], streams // 2)
            # Beside the budget: what gRPC keeps for a stream, and the stacks of the calls.
            self.assert_memory(server, before + memory + streams * (64 << 10))
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
            before = server.largest_memory()
            outcomes = self.hostile("requests", server, "--count", count, "--seed", qt.SEED)
            self.assertGreater(outcomes[OK], 0)
            self.assertGreater(outcomes["3"], 0, "bytes that do not parse, and questions that make no sense")
            self.assertNotIn("13", outcomes, "the fault is the client's")
            self.assert_memory(server, before + (256 << 20))
            self.assert_sound(server)


if __name__ == "__main__":
    qt.main()
