"""Attacks of strangers on a server, and clients that take more than their share. Each attack is made byte by byte, and
other clients are served all the while."""

import contextlib
import gzip
import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import http2
import quarry_testing as qt

DIMS = (96, 96, 96)
TOKEN = "0123456789abcdef0123456789abcdef"
READ = b"\n\x06" + b"\n\x01a\x12\x01f"  # a ReadRequest of the whole field


class OtherMachine:
    """A machine of its own: a network namespace, and a cable to it. Needs root."""

    HERE, THERE = "10.213.77.1", "10.213.77.2"

    def __init__(self):
        self.name = f"quarry{os.getpid()}"

    def ip(self, *arguments):
        subprocess.run(["ip", *arguments], check=True)

    def __enter__(self):
        self.ip("netns", "add", self.name)
        self.ip("link", "add", "quarry0", "type", "veth", "peer", "name", "quarry1", "netns", self.name)
        self.ip("address", "add", f"{self.HERE}/30", "dev", "quarry0")
        self.ip("link", "set", "quarry0", "up")
        self.ip("-n", self.name, "address", "add", f"{self.THERE}/30", "dev", "quarry1")
        self.ip("-n", self.name, "link", "set", "quarry1", "up")
        return self

    def connect(self, address, *, asks=False):
        """A program there that has connected to a server, and does nothing more; or asks for a field again and again."""
        what = (f"""for stream in range(1, 1 << 30, 2):
        connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.call_headers('Read')) +
                        http2.frame(http2.DATA, http2.END_STREAM, stream, http2.message({READ!r})))
        connection.answers(1)
        if stream == 1: print('connected', flush=True)""" if asks else "print('connected', flush=True); sys.stdin.read()")
        code = (f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import http2\n"
                f"with http2.Connection({address!r}, window=1 << 30, source={self.THERE!r}) as connection:\n    {what}")
        client = subprocess.Popen(["ip", "netns", "exec", self.name, sys.executable, "-c", code], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        client.stdout.readline()
        return client

    def pull_the_cable(self):
        self.ip("-n", self.name, "link", "set", "quarry1", "down")

    def __exit__(self, *error):
        self.ip("link", "del", "quarry0")
        self.ip("netns", "del", self.name)


class Edge(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.shared / "data"
        cls.data.mkdir()
        qt.convert(qt.smooth(DIMS), cls.data / "a.quarry", "--tolerance", "1e-3")
        cls.tokens = cls.shared / "tokens"
        cls.tokens.write_text(f"alice sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()} *\n")
        cls.tokens.chmod(0o600)

    def assert_served(self, server, token=""):
        """A new client is served."""
        qt.succeed("quarry", "get", server.target("a"), "--level", 2, "--output", self.tmp / "out.raw",
                   env={"QUARRY_TOKEN": token} if token else {})

    def read_without_taking(self, connection, stream):
        """Begins a Read, with a window that lets nothing through."""
        connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.call_headers("Read")))
        connection.send(http2.frame(http2.DATA, http2.END_STREAM, stream, http2.message(READ)))

    # --- without a token ---

    if qt.FULL:  # it takes half a minute, and needs a network of its own
        def test_a_client_that_vanishes(self):
            """Its machine loses power, and its connection is never closed."""
            self.check_a_client_that_vanishes(asks=False)

        def test_a_client_that_vanishes_while_it_reads(self):
            self.check_a_client_that_vanishes(asks=True)

        def check_a_client_that_vanishes(self, *, asks):
            server = qt.Server(self.data, "--metrics", "127.0.0.1:0", "--insecure", "--stall", 3600, "--quiet")
            with OtherMachine() as machine:
                server.command[server.command.index("--listen") + 1] = f"{machine.HERE}:0"
                with server:
                    client = machine.connect(server.address, asks=asks)
                    self.addCleanup(client.communicate)
                    self.addCleanup(client.kill)
                    self.assertEqual(server.metrics()["quarry_connections"], 1)
                    machine.pull_the_cable()
                    begin = time.monotonic()
                    while server.metrics()["quarry_connections"]:
                        time.sleep(0.1)
                    self.assertLess(time.monotonic() - begin, 60, "gRPC's own probes take 80 s")

    def test_a_header_without_end(self):
        """CVE-2023-33953: the time to parse it grows with the square of its length."""
        begin = http2.call_headers("Read") + b"\0" + http2.integer(1, 7) + b"x" + http2.integer(1 << 30, 7)
        # Some of them have sent much before the transport has set up their connection.
        floods = 20
        with qt.Server(self.data, "--client-rate", 0) as server:
            before = server.cpu_seconds()
            for _ in range(floods):
                with http2.Connection(server.address) as stranger:
                    try:
                        stranger.send(http2.frame(http2.HEADERS, 0, 1, begin))
                        for _ in range(24 << 20 >> 14):
                            stranger.send(http2.frame(http2.CONTINUATION, 0, 1, bytes(1 << 14)))
                    except ConnectionError:
                        pass
                    self.assertTrue(stranger.is_closed(), "the connection is cut, however much of it has arrived")
            self.assert_served(server)
            if qt.FULL and not qt.SANITIZED:
                self.assertLess(server.cpu_seconds() - before, 2, "one took 14.7 s")
            self.assertIn("is cut: it sent", server.log_until("is cut"))

    def cancelled_calls(self, method, first, calls):
        """Frames that begin calls, and cancel each at once. first: stream of the first one, odd."""
        begin = http2.call_headers(method)
        return b"".join(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, begin) +
                        http2.frame(http2.RST_STREAM, 0, stream, bytes([0, 0, 0, 8]))
                        for stream in range(first, first + 2 * calls, 2))

    def reset(self, server, method, calls, *, cut):
        """A connection whose calls are cancelled as soon as they begin. It is cut, or it is not."""
        frames = self.cancelled_calls(method, 1, calls)
        self.assertLess(len(frames), 512 << 10, "so few bytes are no flood: the calls are what is counted")
        with http2.Connection(server.address) as stranger:
            with contextlib.suppress(ConnectionError):
                stranger.send(frames)
            self.assertTrue(stranger.is_closed() if cut else stranger.has_read_everything(), f"{calls} calls of {method}")

    def test_rapid_reset(self):
        """CVE-2023-44487: calls that are cancelled as soon as they begin. One that is not taken has cost little: counted are
        those that were. At most 200 may wait, 300 may run, and the fault that cuts the connection is the 201st."""
        few, many = 90, 2000  # an unknown method that is cancelled is two faults
        with qt.Server(self.data, "--client-rate", 0, "--metrics", "127.0.0.1:0") as server:
            for method in ("Read", "NoSuchMethod"):  # the second is refused before it has a place among the calls
                self.reset(server, method, few, cut=False)
                before = self.requests(server)
                self.reset(server, method, many, cut=True)
                self.assert_served(server)
                self.assertLess(self.requests(server) - before, 750, "what was not parsed yet is discarded")
            self.assertIn("too many calls were cancelled", server.log_until("is cut"))
            self.assertEqual(server.metrics()["quarry_connections_cut_total"], 2)

    def test_slow_resets(self):
        """Calls that are cancelled a few at a time, so that none waits behind others: each that was begun counts."""
        few, most = 60, 100
        with qt.Server(self.data, "--client-rate", 0) as server, http2.Connection(server.address) as stranger:
            with contextlib.suppress(ConnectionError):
                for turn in range(most):
                    stranger.send(self.cancelled_calls("Read", 1 + 2 * few * turn, few))
                    if not stranger.has_read_everything():
                        break
                    self.assert_served(server)
            self.assertTrue(stranger.is_closed())
            self.assertIn("too many calls were cancelled", server.log_until("is cut"))

    def requests(self, server):
        """How many the server has answered, or refused."""
        return sum(count for name, count in server.metrics().items() if name.startswith("quarry_requests_total"))

    if qt.FULL:
        def test_what_a_rapid_reset_costs(self):
            """In processor time, beside that of calls that are cancelled no faster than they may be."""
            few, many, connections = 150, 2000, 10
            with qt.Server(self.data, "--client-rate", 0) as server:
                def time_of(calls, cut):
                    before = server.cpu_seconds()
                    for _ in range(connections):
                        self.reset(server, "Read", calls, cut=cut)
                    return (server.cpu_seconds() - before) / calls

                usual = min(time_of(few, False) for _ in range(3))
                flood = min(time_of(many, True) for _ in range(3))
                print(f"{1e6 * flood / connections:.0f} us a call, of {1e6 * usual / connections:.0f}")
                self.assertLess(flood, 0.5 * usual, "what was not parsed yet is discarded")

    def test_streams_that_the_server_resets(self):
        """They leave the count of --streams, and one that never acknowledges the settings has no such count at all: gRPC kept
        any number of them, 2.9 GiB of one connection in ten seconds."""
        with qt.Server(self.data, "--memory", "64MiB", "--client-rate", 0) as server:
            for form in http2.FAULTS:
                with http2.Connection(server.address) as stranger:
                    stranger.answers_nobody()
                    try:
                        for first in range(1, 60_000, 400):
                            stranger.send(http2.calls_that_the_server_ends(form, first, 200))
                    except ConnectionError:
                        pass
                    self.assertTrue(stranger.is_closed(), f"30,000 calls with {form}")
                self.assert_served(server)
            if not qt.SANITIZED:
                self.assertLess(server.largest_memory(), 214 << 20, "--memory, and 150 MiB")

    def test_calls_without_a_question_leave_room_for_others_of_their_address(self):
        """1,000 of them, 161 KB, held all 500 places of an address for as long as a question may take."""
        for form in http2.FAULTS:
            with qt.Server(self.data, "--client-rate", 0) as server, http2.Connection(server.address) as stranger:
                stranger.answers_nobody()
                try:
                    stranger.send(http2.calls_that_the_server_ends(form, 1, 1000))
                except ConnectionError:
                    pass
                for _ in range(3):
                    self.assert_served(server)
                self.assertNotIn("is the most that this server answers one client at a time", server.log(), form)

    def test_calls_that_end_without_a_question_are_faults(self):
        """However slowly they come: here as many as may be cancelled at once, and one more for each that is forgiven."""
        with qt.Server(self.data, "--client-rate", 0) as server, http2.Connection(server.address) as stranger:
            try:
                for first in range(1, 6000, 300):
                    stranger.send(http2.calls_that_the_server_ends("data after the end", first, 150))
                    stranger.answers(150)
            except ConnectionError:
                pass
            self.assertTrue(stranger.is_closed())
            self.assertIn("too many calls were cancelled", server.log_until("is cut"))
            self.assertLess(server.log().count("ended without a question"), 3000, "all of them")

    def test_a_compressed_message(self):
        """gRPC compares the length of a message with its limit before it decompresses it: 0.4 MB become 448 MiB."""
        packed = gzip.compress(bytes(448 << 20), 9)
        with qt.Server(self.data, "--memory", "64MiB") as server:
            with http2.Connection(server.address) as stranger:
                headers = http2.call_headers("PlanRead", grpc_encoding="gzip")
                try:
                    stranger.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, headers))
                    stranger.send_data(1, b"\1" + struct.pack(">I", len(packed)) + packed)
                    stranger.answers(1)
                except ConnectionError:
                    pass
            self.assert_served(server)
            if not qt.SANITIZED:
                self.assertLess(server.largest_memory(), 214 << 20, "--memory, and 150 MiB")

    def test_calls_of_the_health_service(self):
        """It needs no token, and has a place for a few calls at a time."""
        with qt.Server(self.data, "--memory", "64MiB", "--tokens", self.tokens, "--calls", 10) as server:
            many = [http2.Connection(server.address) for _ in range(4)]
            for stranger in many:
                stranger.answers_nobody()
                for stream in range(1, 161, 2):
                    stranger.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream,
                                              http2.call_headers("Watch", service="grpc.health.v1.Health")) +
                                  http2.frame(http2.DATA, http2.END_STREAM, stream, http2.message(b"")))
            for _ in range(3):
                self.assert_served(server, TOKEN)
            self.assertLess(server.threads(), 200)
            for stranger in many:
                stranger.socket.close()

    def test_unknown_methods(self):
        begin = http2.call_headers("NoSuchMethod")
        with qt.Server(self.data, "--client-rate", 0) as server, http2.Connection(server.address) as stranger:
            try:
                for stream in range(1, 2 * 300, 2):  # each has its answer, none is cancelled
                    stranger.send(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream, begin))
                    stranger.socket.recv(1 << 16)
            except ConnectionError:
                pass
            self.assertTrue(stranger.is_closed(), "a connection that asks for what there is not")
            self.assertIn("wrong token or method", server.log_until("is cut"))

    def test_random_frames(self):
        """Frames of every type, good and bad, in any order, with any payload."""
        chooser = random.Random(qt.SEED)

        def some_frame():
            stream = chooser.choice((0, 1, 3, 5, 1 << 30))
            kind, payload = chooser.choice((
                (http2.HEADERS, http2.call_headers(chooser.choice(("Read", "ListDatasets", "?")))),
                (http2.DATA, http2.message(b"\n\x06\n\x01a\x12\x01f")),
                (http2.CONTINUATION, http2.literal("x", "y" * chooser.randrange(1000))),
                (http2.RST_STREAM, bytes(4)), (http2.SETTINGS, chooser.randbytes(6 * chooser.randrange(4))),
                (http2.WINDOW_UPDATE, chooser.randbytes(4)), (chooser.randrange(256), chooser.randbytes(20))))
            if chooser.random() < 0.3:
                payload = chooser.randbytes(chooser.randrange(1 + len(payload)))
            return http2.frame(kind, chooser.choice((0, 1, 4, 5, chooser.randrange(256))), stream, payload)

        with qt.Server(self.data, "--quiet", "--client-rate", 0) as server:
            for _ in range(qt.scaled(300, 100_000)):
                with http2.Connection(server.address) as stranger:
                    try:
                        for _ in range(chooser.randrange(1, 30)):
                            stranger.send(some_frame())
                    except ConnectionError:
                        pass
            self.assert_served(server)

    def test_more_connections_than_descriptors(self):
        """CVE-2023-4785: one failed accept, and no client was ever heard again."""
        if qt.SANITIZED:
            return  # UndefinedBehaviorSanitizer needs descriptors itself, and reports good objects without them
        with qt.Server(self.data, "--connections", 1000, descriptors=64) as server:
            host, port = server.address.rsplit(":", 1)
            connections = [socket.create_connection((host, int(port))) for _ in range(80)]
            server.log_until("Too many open files")
            for connection in connections:
                connection.close()
            self.assert_served(server)

    def test_more_connections_than_allowed(self):
        with qt.Server(self.data, "--metrics", "127.0.0.1:0", descriptors=64) as server:
            host, port = server.address.rsplit(":", 1)
            connections = [socket.create_connection((host, int(port))) for _ in range(80)]
            self.assertIn("connections from 127.0.0.1 are refused: 16 of this address are open",
                          server.log_until("are refused"))
            self.assertLessEqual(server.metrics()["quarry_connections"], 16)
            for connection in connections:
                connection.close()
            while server.metrics()["quarry_connections"] == 16:
                pass
            self.assert_served(server)
            self.assertGreater(server.metrics()["quarry_connections_refused_total"], 0)

    def test_questions_before_the_token(self):
        """Nothing of a question is parsed for somebody who has no token."""
        with qt.Server(self.data, "--memory", "64MiB", "--calls", 10, "--tokens", self.tokens) as server:
            self.assert_served(server, TOKEN)
            before = server.largest_memory()
            done = subprocess.run([qt.BIN / "hostile_client", "questions", server.address, "--dataset", "a", "--field",
                                   "f", "--count", "24"], capture_output=True, text=True, check=True)
            self.assertEqual(json.loads(done.stdout), {"16": 24}, "UNAUTHENTICATED")
            self.assert_served(server, TOKEN)
            if not qt.SANITIZED:
                self.assertLess(server.largest_memory() - before, 64 << 20)

    def test_wrong_tokens(self):
        """Guessing ends the connection, and does not fill the log."""
        with qt.Server(self.data, "--tokens", self.tokens) as server:
            with http2.Connection(server.address) as stranger:
                try:
                    for stream in range(1, 4000, 2):
                        headers = http2.call_headers("ListDatasets", authorization=f"Bearer {stream:032}")
                        stranger.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, headers) +
                                      http2.frame(http2.DATA, http2.END_STREAM, stream, http2.message(b"")))
                except ConnectionError:
                    pass
                self.assertTrue(stranger.is_closed())
            self.assert_served(server, TOKEN)
            self.assertIn("is cut", server.log_until("is cut"))
            self.assertLess(server.log().count("UNAUTHENTICATED"), 50)

    def test_names_forge_no_log_lines(self):
        forged = "x.quarry\n[2026-01-01 00:00:00.000] [quarry-server] [info] forged"
        (self.tmp / forged).mkdir()
        folder = self.tmp / (forged + ".quarry")
        (self.data / "a.quarry").rename(folder)
        self.addCleanup(folder.rename, self.data / "a.quarry")
        with qt.Server(self.tmp) as server:
            qt.run("quarry", "info", f"grpc://{server.address}/{forged}")
            with http2.Connection(server.address) as stranger:
                headers = http2.call_headers("Read\n[info] forged", user_agent="a\n[info] forged")
                stranger.send(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1, headers))
                stranger.send(http2.frame(http2.RST_STREAM, 0, 1, bytes([0, 0, 0, 8])))
            qt.succeed("quarry", "ls", f"grpc://{server.address}")
            lines = server.log().splitlines()
        self.assertTrue(all("[quarry-server]" in line.split("]")[1] + "]" for line in lines), lines)
        self.assertFalse([line for line in lines if line.startswith("[2026-01-01")])

    # --- one client, and the others ---

    def test_clients_that_take_nothing_are_cut_off(self):
        """Their reads would hold the memory for ever."""
        with qt.Server(self.data, "--memory", "16MiB", "--stall", 0.5, "--client-calls", 100) as server:
            idle = [http2.Connection(server.address, window=0) for _ in range(3)]
            for connection in idle:
                for stream in range(1, 41, 2):
                    self.read_without_taking(connection, stream)
            self.assert_served(server)
            self.assertIn("took no message for 0.5 s", server.log_until("took no message"))
            for connection in idle:
                connection.socket.close()

    def test_answers_that_nobody_takes(self):
        """They have ended, and have a thread until they are taken: a client has 16 more of these and of calls together than calls."""
        question = http2.message(b"\n\x01a")
        with qt.Server(self.data, "--calls", 20, "--stall", 0, "--drain", 0, "--tokens", self.tokens_of("alice", "bob")) as server:
            greedy = [http2.Connection(server.address, window=0) for _ in range(3)]
            headers = http2.call_headers("GetDataset", authorization="Bearer " + self.token_of("alice"))
            for connection in greedy:
                connection.answers_nobody()
                for stream in range(1, 199, 2):
                    connection.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, headers) +
                                    http2.frame(http2.DATA, http2.END_STREAM, stream, question))
            server.log_until(r'\"alice\" has not taken')
            for _ in range(5):
                self.assert_served(server, self.token_of("bob"))
            self.assertLess(server.threads(), 200)
            for connection in greedy:
                connection.socket.close()

    def test_slow_reads_share_the_descriptors(self):
        """A dataset with more subfiles than descriptors: reads used to keep all of them open for as long as they lasted."""
        many = self.tmp / "many.quarry"
        qt.convert(qt.smooth((160, 64, 64)), many, "--tolerance", "1e-3", "--patch", 16, "--files", 80)
        question = b"\n\x09" + b"\n\x04many\x12\x01f"
        with qt.Server(self.tmp, "--stall", 0, descriptors=64) as server:
            with http2.Connection(server.address, window=2 << 20) as idle:  # most of an answer
                for stream in range(1, 13, 2):
                    idle.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.call_headers("Read")) +
                              http2.frame(http2.DATA, http2.END_STREAM, stream, http2.message(question)))
                taken = 0
                while taken < 6 * (2 << 20):  # all that the windows allow
                    taken += len(idle.socket.recv(1 << 20))
                for _ in range(5):
                    qt.succeed("quarry", "get", server.target("many"), "--output", self.tmp / "out.raw")

    def test_one_client_does_not_take_all_calls(self):
        """Reads whose question never comes."""
        with qt.Server(self.data, "--calls", 20, "--tokens", self.tokens_of("alice", "bob")) as server:
            with http2.Connection(server.address) as greedy:
                for stream in range(1, 121, 2):
                    headers = http2.call_headers("Read", authorization="Bearer " + self.token_of("alice"))
                    greedy.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, headers))
                server.log_until("10 calls of \\\"alice\\\" are running")
                for _ in range(5):
                    self.assert_served(server, self.token_of("bob"))

    def token_of(self, name):
        return hashlib.sha256(name.encode()).hexdigest()

    def tokens_of(self, *names):
        path = self.tmp / "tokens"
        path.write_text("".join(f"{name} sha256:{hashlib.sha256(self.token_of(name).encode()).hexdigest()} *\n"
                                for name in names))
        path.chmod(0o600)
        return path

    def test_a_request_without_end_does_not_stop_the_metrics(self):
        with qt.Server(self.data, "--metrics", "127.0.0.1:0") as server:
            server.metrics()
            address = server.metrics_address()
            host, port = address.rsplit(":", 1)
            unfinished = [socket.create_connection((host, int(port))) for _ in range(4)]
            for connection in unfinished:
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
            # Less than the half minute for which one used to stop everybody.
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=qt.TIMEOUT) as answer:
                self.assertIn(b"quarry_build_info", answer.read())
            for connection in unfinished:
                connection.close()

    def test_a_second_sigterm_does_not_wait(self):
        """The test's own time limit is far below the hour that the server was given."""
        with qt.Server(self.data, "--drain", 3600, "--stall", 0) as server:
            with http2.Connection(server.address, window=0) as idle:
                self.read_without_taking(idle, 1)
                watcher = subprocess.Popen([qt.BIN / "quarry", "watch", server.target("a")], stdout=subprocess.PIPE,
                                           stderr=subprocess.DEVNULL, text=True)
                watcher.stdout.readline()
                server._process.send_signal(signal.SIGTERM)
                server.log_until("stopping")
                server._process.send_signal(signal.SIGTERM)
                server._process.wait(60)
                watcher.kill()
                watcher.communicate()


if __name__ == "__main__":
    qt.main()
