"""Answers survive connections that are cut at any byte, and servers that are killed. What arrives equals the dataset,
and nothing comes twice."""

import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time

import numpy as np

import quarry_testing as qt

DIMS = (120, 96, 80)
NAME = "run.quarry"
ENCODINGS = ("samples", "patches", "coded")


class CuttingProxy:
    """Forwards connections to a server, and cuts each after so many bytes of its answers."""

    def __init__(self, address, lengths):
        host, port = address.rsplit(":", 1)
        self._server = (host, int(port))
        self._lengths = lengths
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        self._lock = threading.Lock()
        self._ended = []
        self._threads = []
        self._start(self._accept)

    def _start(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._start(self._pump, client, server, None)
            self._start(self._pump, server, client, next(self._lengths, None))

    def _pump(self, source, sink, length):
        """None: never cut."""
        try:
            while data := source.recv(65536 if length is None else min(65536, length)):
                sink.sendall(data)
                if length is not None:
                    length -= len(data)
                    if length <= 0:
                        self.cuts += 1
                        break
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        with self._lock:  # the other direction may still look at them
            self._ended += [source, sink]

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()
        for end in self._ended:
            end.close()


class Resume(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dataset = cls.shared / NAME
        qt.convert(qt.make_field(DIMS, "<f4", name=1), cls.dataset, "--tolerance", "1e-4", "--patch", "32", "--step", 0)
        cls.expected = qt.get(cls.dataset, cls.shared / "whole.raw")
        layers = cls.shared / "layers.quarry"
        qt.convert(qt.turbulent(DIMS), layers, "--relative-layers", "1e-1,1e-2,1e-4", "--patch", "32", "--step", 0)
        cls.layers = qt.get(layers, cls.shared / "layers.raw")

    def test_cut_connections(self):
        """At random bytes, several times an answer."""
        numbers = random.Random(7)
        wanted = qt.scaled(30, 200)
        cuts = answers = 0
        # With little memory messages are small: every connection lives for some of them, or a part of one.
        with qt.Server(self.shared, "--memory", "256MiB") as server:
            while cuts < wanted:
                encoding = ENCODINGS[answers % 3]
                options = ["--progressive"] if answers // 3 % 2 == 1 else []
                name, expected = ("layers", self.layers) if answers // 3 % 4 >= 2 else ("run", self.expected)
                # The first connection opens the dataset, too. A client gives up after six that bring no message,
                # and a cut can take messages along that its client has not read yet: so no more than five.
                lengths = (numbers.randrange(20_000, 600_000) for _ in range(5))
                proxy = CuttingProxy(server.address, lengths)
                target = f"grpc://{proxy.address}/{name}"
                with self.subTest(answer=answers, encoding=encoding, options=options, name=name):
                    answer = qt.get(target, self.tmp / "answer.raw", "--encoding", encoding, *options)
                    self.assertTrue(answer == expected, "other samples")
                proxy.close()
                cuts += proxy.cuts
                answers += 1
        self.assertGreaterEqual(cuts, wanted)

    def test_three_servers_of_which_one_is_killed(self):
        """Again and again, while boxes are read through all three: every few answers, and in the full tests every
        ten seconds for five minutes."""
        kills, pause = (30, 10) if qt.FULL else (qt.scaled(5, 30), 0)
        servers = []
        for _ in range(3):
            servers.append(Replica(self.shared))
            self.addCleanup(servers[-1].stop)
        target = "grpc://" + ",".join(server.address for server in servers) + "/run"
        whole = np.frombuffer(self.expected, "<f4").reshape(DIMS[::-1])
        failures, answers, answered, over = [], [0], threading.Condition(), threading.Event()

        def read(seed):
            numbers = random.Random(seed)
            output = self.tmp / f"{seed}.raw"
            while not over.is_set():
                begin = [numbers.randrange(n) for n in DIMS]
                stop = [numbers.randrange(b, n) + 1 for b, n in zip(begin, DIMS)]
                encoding = numbers.choice(ENCODINGS)
                outcome = qt.run("quarry", "get", target, "--field", "f", "--box", qt.box_text(begin, stop), "--output",
                                 output, "--encoding", encoding)
                expected = whole[tuple(slice(b, e) for b, e in zip(begin, stop))[::-1]].tobytes()
                if outcome.code != qt.DONE or output.read_bytes() != expected:
                    failures.append(outcome)
                with answered:
                    answers[0] += 1
                    answered.notify_all()

        readers = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
        for reader in readers:
            reader.start()
        try:
            for number in range(kills):
                due, enough = time.monotonic() + pause, answers[0] + 5
                with answered:
                    self.assertTrue(answered.wait_for(lambda: answers[0] >= enough and time.monotonic() >= due,
                                                      qt.TIMEOUT))
                servers[number % 3].kill()
                servers[number % 3].start()
        finally:
            over.set()
            for reader in readers:
                reader.join()
        self.assertEqual(failures, [])


class Replica:
    """A server that is killed, and comes back at the same address."""

    def __init__(self, root):
        self._root = root
        self._process = None
        self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        command = [qt.executable("quarry-server"), str(self._root), "--listen", self.address]
        self._errors = tempfile.TemporaryFile("w+", dir=qt.SCRATCH, errors="replace")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, text=True,
                                         env=qt.ENVIRONMENT)
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            raise AssertionError(f"a server did not start: {line!r}")
        self.address = line.split()[-1]

    def kill(self):
        self._end(signal.SIGKILL, -signal.SIGKILL)

    def stop(self):
        """Ends the server by SIGTERM; its exit code must be 0."""
        self._end(signal.SIGTERM, qt.DONE)

    def _end(self, how, expected):
        """@raises AssertionError: the server died by itself, or does not end as it should"""
        died = self._process.poll()
        self._process.send_signal(how)
        code = self._process.wait(qt.TIMEOUT)
        self._process.stdout.close()
        with self._errors:
            self._errors.seek(0)
            said = self._errors.read()
        if died is not None or code != expected:
            raise AssertionError(f"the server at {self.address} died by itself, with code {code}: {said}")


if __name__ == "__main__":
    qt.main()
