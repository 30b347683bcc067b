"""Several questions in flight: the threads and tasks of a process share one connection to a server, and none waits for the
answer to another."""

import asyncio
import concurrent.futures
import socket
import struct
import subprocess
import threading

from python_testing import np, qt, quarry

FAULTY_FILES = qt.BIN.parent / "lib" / "libfaulty_files.so"
SHAPE = (3, 20, 24, 40)
HELD = 1
"""The step whose samples the server cannot read: the answer does not come."""
OTHERS = (0, 2)


class InFlight(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not FAULTY_FILES.is_file():
            qt.skip(f"there is no {FAULTY_FILES}; build the target faulty_files")
        cls.folder = cls.shared / "data"
        cls.folder.mkdir()
        cls.data = np.cumsum(np.random.default_rng(3).normal(size=SHAPE), axis=3).astype("f4")
        quarry.write(cls.folder / "run.quarry", {"p": cls.data}, lossless=True, patch=8)

    def setUp(self):
        super().setUp()
        self.tell = self.tmp / "stuck"
        self.server = qt.Server(self.folder, "--drain", 1, "--metrics", "127.0.0.1:0")
        self.server.command = ["env", f"LD_PRELOAD={FAULTY_FILES}", f"QUARRY_STUCK=/run.quarry/steps/{HELD:06}/p/",
                               f"QUARRY_STUCK_TELL={self.tell}", "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0",
                               *self.server.command]

    def wait_until_held(self):
        while not self.tell.exists():
            self.assertTrue(self.server.runs())

    def connections(self):
        return self.server.metrics()["quarry_connections_accepted_total"]

    def test_threads_do_not_wait_for_each_other(self):
        ended = []
        with self.server, quarry.open(self.server.target("run"), retries=0) as dataset:
            before = self.connections()
            p = dataset["p"]

            def hold():
                try:
                    p.read(step=HELD)
                except quarry.Error as error:
                    ended.append(error.code)

            held = threading.Thread(target=hold)
            held.start()
            self.wait_until_held()
            for step in OTHERS:
                for encoding in ("samples", "patches", "coded"):
                    np.testing.assert_array_equal(p.read(step=step, encoding=encoding).array, self.data[step])
                np.testing.assert_array_equal(p[step, 3:9, ::2], self.data[step, 3:9, ::2])
                *_, last = p.stream(step=step)
                np.testing.assert_array_equal(last.array, self.data[step])
            with concurrent.futures.ThreadPoolExecutor(8) as pool:  # as the workers of a DataLoader
                boxes = [((z, z + 2), (y, y + 5), (0, 40)) for z in range(0, 18, 3) for y in range(0, 18, 6)]
                for (zs, ys, _), read in zip(boxes, pool.map(lambda box: p.read(step=2, box=box), boxes), strict=True):
                    np.testing.assert_array_equal(read.array, self.data[2, slice(*zs), slice(*ys)])
            self.assertTrue(held.is_alive())
            self.assertEqual(ended, [])
            self.assertEqual(self.connections(), before)
        held.join()  # the server has ended it
        self.assertEqual(len(ended), 1)

    def test_a_task_that_is_cancelled_leaves_the_others_alone(self):
        async def ask(p):
            held = asyncio.create_task(p.aread(step=HELD))
            await asyncio.to_thread(self.wait_until_held)
            first = await p.aread(step=0)
            held.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await held
            return first, *await asyncio.gather(*[p.aread(step=step) for step in OTHERS])

        with self.server, quarry.open(self.server.target("run")) as dataset:
            before = self.connections()
            for read in asyncio.run(ask(dataset["p"])):
                np.testing.assert_array_equal(read.array, self.data[read.step])
            self.assertEqual(self.connections(), before)


class Windows(qt.QuarryTest):
    """The windows that a client offers with its first frames, before it knows anything of the path."""

    DATA, SETTINGS, PING, WINDOW_UPDATE = 0, 4, 6, 8
    INITIAL_WINDOW = 4
    """Kinds of frames, and a setting, of HTTP/2."""

    @staticmethod
    def frames(connection):
        """The frames of a client: kind, flags, stream and content."""
        def take(count):
            data = b""
            while len(data) < count and (more := connection.recv(count - len(data))):
                data += more
            return data
        assert take(24).startswith(b"PRI * HTTP/2.0")
        while len(head := take(9)) == 9:
            yield head[3], head[4], int.from_bytes(head[5:9], "big"), take(int.from_bytes(head[:3], "big"))

    def test_megabytes_may_be_on_their_way(self):
        settings, window = {}, 65535
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = subprocess.Popen([qt.executable("quarry"), "ls", "grpc://127.0.0.1:%d" % server.getsockname()[1]],
                                      env=qt.ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            connection, _ = server.accept()
            with connection:
                connection.sendall(bytes([0, 0, 0, self.SETTINGS, 0, 0, 0, 0, 0]))
                for kind, flags, stream, content in self.frames(connection):
                    if kind == self.SETTINGS:
                        settings |= dict(struct.iter_unpack(">HI", content))
                    elif kind == self.WINDOW_UPDATE and stream == 0:
                        window += int.from_bytes(content, "big")
                    elif kind == self.DATA and flags & 1:  # the question is complete
                        connection.sendall(bytes([0, 0, 8, self.PING, *[0] * 13]))
                    elif kind == self.PING and flags & 1:  # nothing else was on its way
                        break
            client.kill()
            client.wait()
        self.assertGreaterEqual(settings[self.INITIAL_WINDOW], (4 << 20) - 1, "of each answer")
        self.assertGreaterEqual(window, (4 << 20) - 1, "of the connection")


if __name__ == "__main__":
    qt.main()
