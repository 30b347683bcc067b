"""Attacks of strangers on the HTTP port, and clients that take more than their share. Each attack is made byte by byte,
and other clients are served all the while."""

import contextlib
import hashlib
import re
import select
import signal
import socket
import struct
import time
from pathlib import Path

import grpc_web
import quarry_testing as qt
from grpc_web import Client, Raw, field, read_question

DIMS = (160, 160, 160)
TOKEN = "0123456789abcdef0123456789abcdef"
GET = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


class WebServer(qt.Server):
    def __init__(self, root, *options, **keywords):
        super().__init__(root, "--http", "127.0.0.1:0", *options, **keywords)

    def raw(self):
        return Raw(self.http_address())

    def status(self, name):
        """[bytes] or a number of /proc/PID/status."""
        number, *unit = re.search(rf"^{name}:\s+(.*)$", Path(f"/proc/{self._process.pid}/status").read_text(), re.MULTILINE)[1].split()
        return int(number) << (10 if unit else 0)

    def signal(self, number):
        self._process.send_signal(number)


class Edge(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.shared / "data"
        cls.data.mkdir()
        qt.convert(qt.smooth(DIMS), cls.data / "a.quarry", "--tolerance", "1e-6")
        cls.tokens = cls.shared / "tokens"
        cls.tokens.write_text(f"alice sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()} *\n")
        cls.tokens.chmod(0o600)

    def assert_served(self, server, token=""):
        """A new client is served."""
        with Client(server.http_address(), token=token) as client:
            self.assertEqual(client.call("Read", read_question("a", "f", 2)).status, 0)
            self.assertEqual(client.ask("GET", "/zarr/a/3/f/c/0/0/0")[0], 200)

    # --- heads ---

    def test_slow_and_half_heads(self):
        """They hold a descriptor each, and no thread; others do not wait."""
        with WebServer(self.data, "--client-rate", 0) as server:
            self.assert_served(server)
            threads = server.status("Threads")
            slow = [server.raw() for _ in range(200)]
            for number, stranger in enumerate(slow):
                stranger.send(("", "G", "GET / HTTP/1.1\r\nHost: loc", GET, GET + "x-header: 1\r\n")[number % 5])
            self.assert_served(server)
            for stranger in slow[1:]:
                stranger.send("x")
            self.assert_served(server)
            self.assertLess(server.status("Threads"), threads + 10, "a call may find no thread that is free")
            for stranger in slow:
                stranger.socket.close()

    if qt.FULL:  # as long as they may take
        def test_heads_that_never_end_are_cut(self):
            with WebServer(self.data) as server, server.raw() as slow, server.raw() as idle:
                begin = time.monotonic()
                slow.send(GET)
                idle.send(GET + "\r\n")
                idle.until(b"ok\n")
                self.assertEqual(slow.all(), b"")
                self.assertLess(time.monotonic() - begin, 30)
                self.assertEqual(idle.all(), b"")
                self.assertLess(time.monotonic() - begin, 90)

    def test_heads_that_are_too_long(self):
        with WebServer(self.data) as server:
            for head in (GET + "x: " + "y" * 20_000, GET + "x: 1\r\n" * 5000, "GET /" + "z" * 20_000):
                with server.raw() as stranger:
                    stranger.send(head)
                    self.assertTrue(stranger.all().startswith(b"HTTP/1.1 431 "), head[:60])
            # Far beyond what the answer waits for.
            with server.raw() as stranger:
                try:
                    stranger.send(GET)
                    for _ in range(100):
                        stranger.send("x: " + "y" * 10_000 + "\r\n")
                except ConnectionError:
                    pass
                stranger.all()
            # One that is just short enough.
            with server.raw() as stranger:
                stranger.send(GET + "x: " + "y" * 15_000 + "\r\n\r\n")
                self.assertIn(b"200 OK", stranger.until(b"ok\n"))
            self.assert_served(server)

    def test_what_is_no_http(self):
        requests = (b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/3.0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"\0" * 100,
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\nContent-Length: -1\r\n\r\n",
                    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                    b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost: localhost\r\nx\0y: z\r\n\r\n")
        with WebServer(self.data) as server:
            for request in requests:
                with server.raw() as stranger:
                    stranger.send(request)
                    stranger.socket.shutdown(socket.SHUT_WR)
                    answer = stranger.all()
                    self.assertTrue(not answer or answer.startswith(b"HTTP/1.1 400 "), (request, answer))
            self.assert_served(server)

    def test_random_requests(self):
        """Good ones with some bytes changed, left out, or twice."""
        chooser = qt.random_numbers("random requests")
        good = [grpc_web.request("Read", read_question("a", "f", 3)), (GET + "\r\n").encode(),
                b"GET /zarr/a/3/f/c/0/0/0 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-99\r\n\r\n",
                grpc_web.request("ListDatasets", b"").replace(b"content-length: 5", b"transfer-encoding: chunked")]
        with WebServer(self.data, "--quiet", "--client-rate", 0) as server:
            for _ in range(qt.scaled(300, 50_000)):
                request = bytearray(b"".join(good[int(i)] for i in chooser.integers(0, len(good), 3)))
                for _ in range(int(chooser.integers(0, 6))):
                    begin = int(chooser.integers(0, len(request)))
                    end = begin + int(chooser.integers(0, 8))
                    request[begin:end] = chooser.choice([bytes(chooser.integers(0, 256, 4, "u1")), b"", bytes(request[begin:end]) * 2,
                                                         b"\r\n", b"%2e%2e/"])
                with server.raw() as stranger:
                    try:
                        stranger.send(bytes(request))
                        if chooser.random() < 0.5:
                            stranger.socket.shutdown(socket.SHUT_WR)
                            stranger.all()
                    except ConnectionError:
                        pass
            self.assert_served(server)

    # --- bodies ---

    def test_bodies_that_never_come(self):
        """A call waits for its question 10 s, and holds one of the calls of its client; a page has none to wait for."""
        with WebServer(self.data, "--calls", 8, "--client-calls", 4, "--tokens", self.tokens, "--metrics", "127.0.0.1:0",
                       "--client-rate", 0) as server:
            begin = grpc_web.request("Read", read_question("a", "f"), authorization=f"Bearer {TOKEN}")[:-3]
            slow = [server.raw() for _ in range(5)]
            for stranger in slow:
                stranger.send(begin)
            # One is refused once the others are in.
            answered, _, _ = select.select([stranger.socket for stranger in slow], [], [], 60)
            self.assertEqual(len(answered), 1)
            with Client(server.http_address(), token=TOKEN) as client:
                refused = client.call("ListDatasets")
                self.assertEqual(refused.status, 8)
                self.assertIn('4 calls of "alice" are running', refused.message)
                self.assertGreaterEqual(int(refused.headers["grpc-retry-pushback-ms"]), 100)
                status, headers, _ = client.ask("GET", "/zarr/a/zarr.json")
                self.assertEqual((status, headers["retry-after"]), (503, "1"))
                self.assertEqual(client.ask("GET", "/healthz")[0], 200)
            for stranger in slow:
                stranger.socket.close()
            while server.metrics()["quarry_requests_running"]:
                pass
            self.assert_served(server, TOKEN)

    def test_bodies_that_nobody_asked_for(self):
        with WebServer(self.data, "--tokens", self.tokens) as server:
            # A refusal comes before the body, and a small body is passed over.
            with Client(server.http_address()) as client:
                self.assertEqual(client.call("Read", read_question("a", "f")).status, 16)
                self.assertEqual(client.ask("POST", "/healthz", b"x" * 1000)[0], 404)
                self.assertEqual(client.ask("GET", "/healthz", b"x" * 1000)[::2], (200, b"ok\n"))
            # A large one is not: the answer arrives all the same.
            with server.raw() as stranger:
                stranger.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n" + "x" * 100_000)
                self.assertTrue(stranger.all().startswith(b"HTTP/1.1 404 "))
            # And one without end ends the connection.
            with server.raw() as stranger:
                try:
                    stranger.send("POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
                    for _ in range(3000):
                        stranger.send(f"{10_000:x}\r\n" + "x" * 10_000 + "\r\n")
                except ConnectionError:
                    pass
                else:
                    self.fail("30 MB of a body that nobody wants were taken")
            self.assert_served(server, TOKEN)

    def test_chunks_and_trailers_without_end(self):
        """Bytes that are neither content nor a whole line grew the input of a connection to 512 KiB, without a
        token."""
        token = f"Authorization: Bearer {TOKEN}\r\n"
        bodies = grpc_web.ENDLESS_BODIES
        with WebServer(self.data, "--tokens", self.tokens, "--client-rate", 0, "--connections", 1000) as server:
            self.assert_served(server, TOKEN)
            before, strangers = server.status("VmRSS"), []
            for number in range(200):
                stranger = server.raw()
                strangers.append(stranger)
                with contextlib.suppress(ConnectionError):
                    stranger.send(grpc_web.CHUNKED.format("Read", token if number % 2 else "") + bodies[number // 2 % len(bodies)])
            for number, stranger in enumerate(strangers):
                self.assertIn(b"grpc-status: " + (b"3" if number % 2 else b"16"), stranger.until(b"\r\n\r\n") + stranger.all())
            self.assert_served(server, TOKEN)
            if not qt.SANITIZED:
                self.assertLess(server.status("VmHWM") - before, 64 << 20, "200 connections had 100 MiB")
            for stranger in strangers:
                stranger.socket.close()

    def test_transfer_codings_that_nobody_knows(self):
        """Their body must not become the next request. RFC 9112, 6.1 and 6.3."""
        body = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with WebServer(self.data) as server:
            for version, coding, status in (("1.1", "xchunked", 400), ("1.1", "chunked, identity", 400),
                                            ("1.1", "chunked;q=1", 400), ("1.1", "identity", 400), ("1.1", "gzip, chunked", 501),
                                            ("1.1", "gzip\r\nTransfer-Encoding: chunked", 501), ("1.0", "chunked", 400)):
                with server.raw() as stranger:
                    stranger.send(f"POST /healthz HTTP/{version}\r\nHost: localhost\r\nConnection: keep-alive\r\n"
                                  f"Transfer-Encoding: {coding}\r\n\r\n".encode() + body)
                    answer = stranger.all()
                    self.assertTrue(answer.startswith(f"HTTP/1.1 {status} ".encode()), (coding, answer))
                    self.assertEqual(answer.count(b"HTTP/1.1 "), 1, (coding, answer))
            self.assert_served(server)

    # --- connections ---

    def test_pipelined_requests_are_answered_in_order(self):
        question = grpc_web.request("Read", read_question("a", "f", 3))
        with WebServer(self.data, "--client-rate", 0) as server, server.raw() as client:
            client.send((GET + "\r\n").encode() + question + b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n" +
                        question + b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + (GET + "Connection: close\r\n\r\n").encode())
            client.until(b"ok\n")
            for status in (b"404", b"200"):
                client.until(b"application/grpc-web+proto")
                client.until(b"grpc-status: 0\r\n\r\n0\r\n\r\n")
                client.until(b"HTTP/1.1 ")
                self.assertEqual(client.until(b"\r\n\r\n")[:3], status)
            self.assertTrue(client.all().endswith(b"ok\n"))

    def test_a_thousand_connections(self):
        """Memory and threads do not grow with them."""
        count = qt.scaled(1000, 1000)
        with WebServer(self.data, "--connections", 2 * count + 100, "--metrics", "127.0.0.1:0") as server:
            self.assert_served(server)
            before, threads = server.status("VmRSS"), server.status("Threads")
            idle = []
            for number in range(count):
                idle.append(server.raw())
                idle[-1].send(GET + ("\r\n" if number % 2 else ""))
                if number % 2:
                    idle[-1].until(b"ok\n")
            self.assertGreaterEqual(server.metrics()["quarry_connections"], count)
            self.assert_served(server)
            self.assertLess(server.status("Threads"), threads + 10)
            if not qt.SANITIZED:
                self.assertLess(server.status("VmRSS") - before, 24 << 20)
            for connection in idle:
                connection.socket.close()
            while server.metrics()["quarry_connections"]:
                pass

    def test_more_connections_than_allowed(self):
        with WebServer(self.data, "--metrics", "127.0.0.1:0", "--connections", 40) as server:
            many = [server.raw() for _ in range(60)]
            self.assertIn("connections from 127.0.0.1 are refused: 20 of this address are open", server.log_until("are refused"))
            for connection in many:
                connection.socket.close()
            while server.metrics()["quarry_connections"]:
                pass
            self.assert_served(server)

    def test_more_connections_than_descriptors(self):
        if qt.SANITIZED:
            return  # UndefinedBehaviorSanitizer needs descriptors itself, and reports good objects without them
        with WebServer(self.data, "--connections", 1000, descriptors=64) as server:
            many = [server.raw() for _ in range(80)]
            server.log_until("Too many open files")
            for connection in many:
                connection.socket.close()
            served = False
            while not served:  # the server has yet to see that they are closed
                try:
                    self.assert_served(server)
                    served = True
                except ConnectionError:
                    pass

    # --- clients that go, or stay and take nothing ---

    def test_a_client_that_goes_ends_its_call(self):
        """While it watches, while it is sent samples, and while it waits for a chunk."""
        with WebServer(self.data, "--metrics", "127.0.0.1:0", "--watch", 3600) as server:
            for number, request in enumerate((grpc_web.request("WatchSteps", field(1, "a")),
                                              grpc_web.request("Read", read_question("a", "f")))):
                with server.raw() as client:
                    client.send(request)
                    client.until(b"\r\n\r\n")
                while server.metrics()["quarry_requests_running"]:
                    pass
                self.assertEqual(server.log().count("CANCELLED"), number + 1)
            self.assert_served(server)

    def test_a_client_that_takes_nothing_is_cut_off(self):
        with WebServer(self.data, "--stall", 0.5, "--memory", "16MiB", "--client-rate", 0) as server:
            idle = []
            for _ in range(20):
                client = server.raw()
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.send(grpc_web.request("Read", read_question("a", "f")) * 10)
                idle.append(client)
            self.assertIn("took no message for 0.5 s", server.log_until("took no message"))
            self.assert_served(server)
            for client in idle:
                client.socket.close()

    def test_zarr_that_nobody_takes(self):
        """Everything that has a thread has a place among the calls of its client."""
        long = self.tmp / "long.quarry"
        qt.convert(qt.smooth((1_000_000, 1, 1)), long, "--tolerance", "1e-3")
        tokens = self.tmp / "tokens"
        tokens.write_text("".join(f"{name} sha256:{hashlib.sha256(name.encode()).hexdigest()} *\n" for name in ("alice", "bob")))
        tokens.chmod(0o600)
        with WebServer(self.tmp, "--calls", 20, "--tokens", tokens, "--stall", 0, "--drain", 0) as server:
            with Client(server.http_address(), token="alice") as alice:
                self.assertEqual(len(alice.ask("GET", "/zarr/long/0/x/c/0")[2]), 8_000_000)
            idle = []
            for _ in range(36):
                idle.append(server.raw())
                idle[-1].socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                idle[-1].send("GET /zarr/long/0/x/c/0 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer alice\r\n\r\n")
            # Alice has half of the places, and the others are refused at once.
            server.log_until(r'10 calls of \"alice\" are running')
            with Client(server.http_address(), token="bob") as bob:
                for key in ("zarr.json", "0/x/c/0", "0/f/c/0/0/0"):
                    self.assertEqual(bob.ask("GET", f"/zarr/long/{key}")[0], 200, key)
            self.assertIn(': Zarr "long" OK', server.log())
            for connection in idle:
                connection.socket.close()

    def test_a_slow_reader_gets_everything(self):
        """It pauses longer than TCP would wait for one that has vanished; what counts is --stall."""
        with WebServer(self.data, "--stall", 120) as server, server.raw() as client:
            client.send(grpc_web.request("Read", read_question("a", "f"), connection="close"))
            client.until(b"\r\n\r\n")
            if qt.FULL:
                time.sleep(45)
            self.assertIn(b"grpc-status: 0\r\n", client.all())

    def test_resets(self):
        """Connections that end by a reset, as those of a browser that is killed."""
        with WebServer(self.data, "--client-rate", 0) as server:
            for number in range(qt.scaled(200, 20_000)):
                with server.raw() as stranger:
                    stranger.send(grpc_web.request("Read", read_question("a", "f"))[:40 + 10 * (number % 40)])
                    stranger.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.assert_served(server)

    # --- tokens and logs ---

    def test_wrong_tokens(self):
        """Guessing ends the connection, and does not fill the log."""
        with WebServer(self.data, "--tokens", self.tokens) as server:
            with server.raw() as stranger:
                try:
                    for number in range(4000):
                        stranger.send(grpc_web.request("ListDatasets", authorization=f"Bearer {number:032}"))
                except ConnectionError:
                    pass
                stranger.all()
            self.assertIn("is cut", server.log_until("is cut"))
            self.assert_served(server, TOKEN)
            self.assertLess(server.log().count("UNAUTHENTICATED"), 50)

    def test_names_forge_no_log_lines(self):
        forged = "a\\n[info] forged\n[2026-01-01 00:00:00.000] [quarry-server] [info] forged"
        with WebServer(self.data) as server:
            with Client(server.http_address()) as client:
                self.assertEqual(client.call("GetDataset", field(1, forged)).status, 5)
                self.assertEqual(client.ask("GET", "/zarr/a%0a%5binfo%5d%20forged/zarr.json")[0], 400)
                self.assertEqual(client.call("Read%e2%80%ae[info] forged".replace(" ", "%20"), b"").status, 12)
            with server.raw() as stranger:
                stranger.send("GET / HTTP/1.1\r\nHost: x\r\nquarry-request-id: a b\r\n\r\n")
                stranger.until(b"\r\n\r\n")
            lines = server.log().splitlines()
        self.assertTrue(all("[quarry-server]" in line.split("]")[1] + "]" for line in lines), lines)

    # --- the end ---

    def test_drain(self):
        """The health check says so, new calls are refused, and what runs may end."""
        with WebServer(self.data, "--drain", 3600) as server, server.raw() as reader, Client(server.http_address()) as client:
            reader.send(grpc_web.request("Read", read_question("a", "f")))
            reader.until(b"\r\n\r\n")
            self.assertEqual(client.ask("GET", "/healthz")[0], 200)
            server.signal(signal.SIGTERM)
            health = 200
            while health == 200:
                try:
                    health = client.ask("GET", "/healthz")[0]
                except ConnectionError:  # closed after the last answer; the client connects anew
                    client.connection.close()
            self.assertEqual(health, 503)
            client.connection.close()  # the server may have: this answer may have begun before the drain
            refused = client.call("ListDatasets")
            self.assertEqual((refused.status, refused.headers["connection"]), (14, "close"))
            self.assertEqual(client.ask("GET", "/zarr/a/zarr.json")[0], 503)
            self.assertIn(b"grpc-status: 0\r\n", reader.all())
            self.assertEqual(server._process.wait(60), 0)

    def test_the_end_does_not_wait_for_those_who_take_nothing(self):
        with WebServer(self.data, "--drain", 1, "--stall", 0, "--metrics", "127.0.0.1:0") as server:
            idle = []
            for _ in range(20):
                idle.append(server.raw())
                idle[-1].socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                idle[-1].send(grpc_web.request("Read", read_question("a", "f")))
            while server.metrics()["quarry_requests_running"] < 20:
                pass
            server.signal(signal.SIGTERM)
            self.assertEqual(server._process.wait(60), 0)
            for client in idle:
                client.socket.close()

    def test_a_second_sigterm_does_not_wait(self):
        with WebServer(self.data, "--drain", 3600, "--stall", 0) as server, server.raw() as idle:
            idle.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            idle.send(grpc_web.request("Read", read_question("a", "f")))
            idle.until(b"\r\n\r\n")
            server.signal(signal.SIGTERM)
            server.log_until("stopping")
            server.signal(signal.SIGTERM)
            self.assertEqual(server._process.wait(60), 0)


if __name__ == "__main__":
    qt.main()
