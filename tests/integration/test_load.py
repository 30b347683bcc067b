"""Many clients ask for everything, quickly, slowly, or only for a while: the server's memory stays within its budget,
no call fails, and cancelled calls end soon."""

import json
import re
import subprocess
import threading
import time
from pathlib import Path

import quarry_testing as qt

# Beside the budget: the program, connections, messages on their way. The short field is larger than budget and allowance:
# a server without a budget would keep all of it.
ALLOWANCE = (150 if qt.FULL else 60) << 20


def private_memory(pid):
    """[bytes] The private memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) << 10 for name in ("RssAnon", "RssShmem"))


class Load(qt.QuarryTest):
    def test_clients_that_want_everything(self):
        """In the full tests: 64 clients for ten minutes, with 256 MiB for a field of 4 GiB."""
        if qt.FULL:
            dims, budget, clients, seconds = (1024, 1024, 1024), 256 << 20, 64, 600
        else:
            dims, budget, clients, seconds = (320, 320, 256), 24 << 20, 32, 6
        source = self.shared / "in.f32"
        qt.smooth_file(dims, source)
        data = self.shared / "data"
        data.mkdir()
        qt.succeed(qt.SERIAL_WRITER, source, "--dims", "x".join(map(str, dims)), "--type", "float32", "--field", "f",
                   "--relative", "1e-4", "--output", data / "a.quarry")
        source.unlink()
        qt.succeed("quarry-index", data / "a.quarry")
        with qt.Server(data, "--memory", f"{budget}B", "--metrics", "127.0.0.1:0", "--quiet") as server:
            self.assertEqual(server.metrics()["quarry_memory_budget_bytes"], budget)
            peak, over = [0], threading.Event()

            def watch():
                while not over.wait(0.02):
                    peak[0] = max(peak[0], private_memory(server._process.pid))

            watcher = threading.Thread(target=watch)
            watcher.start()
            done = subprocess.run([qt.BIN / "load_client", server.address, "--dataset", "a", "--field", "f",
                                   "--clients", str(clients), "--seconds", str(seconds), "--seed", str(qt.SEED)],
                                  capture_output=True, text=True, timeout=seconds + qt.TIMEOUT, check=False)
            ended = time.monotonic()
            while server.metrics()["quarry_memory_pinned_bytes"]:
                self.assertLess(time.monotonic() - ended, qt.TIMEOUT, "work goes on after everybody has gone")
            free = time.monotonic() - ended
            over.set()
            watcher.join()
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            said = json.loads(done.stdout)
            print(f"{said}, at most {peak[0] >> 20} MiB of {budget >> 20} + {ALLOWANCE >> 20}, all memory free "
                  f"{1000 * free:.0f} ms after the last cancellation", flush=True)
            self.assertGreater(said["codes"].get("0", 0), 0)
            self.assertGreater(said["codes"].get("1", 0), 0)
            self.assertLess(peak[0], budget + ALLOWANCE)


if __name__ == "__main__":
    qt.main()
