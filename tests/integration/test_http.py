"""The HTTP port: calls by gRPC-Web, the page, and datasets as Zarr, for clients that mean well. What comes is what `quarry
get` decodes."""

import gzip
import hashlib
import json
import shutil
import signal
import socket
import ssl
import subprocess

import grpc_web
import numpy as np
import quarry_testing as qt
from grpc_web import Client, field, parse, read_question

DIMS = (45, 34, 23)
SHAPE = (23, 34, 45)
TOKEN = "0123456789abcdef0123456789abcdef"
OTHER = "fedcba9876543210fedcba9876543210"
(OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, UNAVAILABLE,
 UNAUTHENTICATED) = (0, 3, 4, 5, 7, 8, 12, 14, 16)


class WebServer(qt.Server):
    """With an HTTP port, and a log that is there when it has gone."""

    def __init__(self, root, *options, **keywords):
        super().__init__(root, "--http", "127.0.0.1:0", *options, **keywords)

    def _close(self):
        outcome = super()._close()
        self.final_log = outcome.err
        return outcome

    def client(self, **keywords):
        return Client(self.http_address(), **keywords)

    def signal(self, number):
        self._process.send_signal(number)


class Http(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = cls.shared / "data"
        (cls.data / "wind").mkdir(parents=True)
        for name in ("run42", "wind/a"):
            qt.convert(qt.turbulent(DIMS, name=name), cls.data / f"{name}.quarry", "--tolerance", "1e-3", "--patch", 16)
        cls.path = cls.data / "run42.quarry"
        cls.tokens = cls.shared / "tokens"
        cls.tokens.write_text("".join(f"{name} sha256:{hashlib.sha256(token.encode()).hexdigest()} {pattern}\n" for
                                      name, token, pattern in (("alice", TOKEN, "run42"), ("bob", OTHER, "wind/*"))))
        cls.tokens.chmod(0o600)

    def decoded(self, level, path=None, *options):
        shape = [-(-n >> level) for n in SHAPE]
        return qt.get_array(path or self.path, self.tmp / "decoded.raw", np.dtype("<f4"), "--level", level,
                            *options).reshape(shape)

    # --- calls ---

    def test_every_level_is_what_the_command_decodes(self):
        with WebServer(self.data) as server, server.client() as client:
            listed = client.call("ListDatasets")
            self.assertEqual([parse(one)[1][0] for one in parse(listed.messages[0])[1]], [b"run42", b"wind/a"])
            opened = client.call("GetDataset", field(1, "run42"))
            self.assertEqual(opened.status, OK)
            self.assertEqual(len(parse(opened.messages[0])[2]), 1, "a step")
            for level in range(5):
                answer = client.call("Read", read_question("run42", "f", level))
                self.assertEqual((answer.status, answer.message), (OK, ""))
                np.testing.assert_array_equal(grpc_web.samples_of(answer.messages, "<f4"), self.decoded(level))
            box = ((3, 40), (0, 17), (5, 6))
            answer = client.call("Read", read_question("run42", "f", 0, box))
            np.testing.assert_array_equal(grpc_web.samples_of(answer.messages, "<f4"), self.decoded(0)[5:6, 0:17, 3:40])
            self.assertIn(f"request {answer.headers['quarry-request-id']} from ipv4:127.0.0.1", server.log())

    def test_large_answers(self):
        path = self.tmp / "large.quarry"
        field_of = qt.smooth((150, 140, 130))
        qt.convert(field_of, path, "--tolerance", "1e-3")
        with WebServer(self.tmp) as server, server.client() as client:
            answer = client.call("Read", read_question("large", "f"))
            array = grpc_web.samples_of(answer.messages, "<f4")
        self.assertLessEqual(qt.largest_error(field_of, array), 1e-3)
        self.assertGreater(len(answer.messages), 10)

    def test_errors(self):
        with WebServer(self.data) as server, server.client() as client:
            for method, question, status, text in (
                    ("GetDataset", field(1, "none"), NOT_FOUND, 'there is no dataset "none" here'),
                    ("GetDataset", field(1, "ä%\n"), NOT_FOUND, "ä%\n"),
                    ("Read", read_question("run42", "none"), NOT_FOUND, "none"),
                    ("Read", read_question("run42", "f", 9), INVALID_ARGUMENT, "level"),
                    ("Read", b"\xff\xff", INVALID_ARGUMENT, "ReadRequest"),
                    ("Nothing", b"", UNIMPLEMENTED, "Nothing")):
                answer = client.call(method, question)
                self.assertEqual((answer.status, answer.messages), (status, []), answer)
                self.assertIn(text, answer.message)
                # google.rpc.Status: code, message, and an ErrorInfo with the id of the request.
                self.assertEqual(parse(answer.details)[1], [status])
                self.assertIn(answer.headers["quarry-request-id"].encode(), answer.details)
            own = client.call("ListDatasets", quarry_request_id="mine-1")
            self.assertEqual(own.headers["quarry-request-id"], "mine-1")

    def test_bodies(self):
        """In chunks, compressed, in parts, too long, and with what is no message."""
        question = grpc_web.frame(field(1, "run42"))
        call = "POST", "/quarry.v1.QuarryService/GetDataset"
        with WebServer(self.data) as server, server.client() as client:
            def status(body, **headers):
                code, head, body = client.ask(*call, body, **({"content_type": grpc_web.TYPE} | headers))
                return grpc_web.parse_answer(body, head).status if code == 200 else code

            self.assertEqual(status(iter([question[:3], question[3:6], question[6:]])), OK)
            self.assertEqual(status(question, content_type="application/grpc-web"), OK)
            self.assertEqual(status(question, Expect="100-continue"), OK)
            self.assertEqual(status(b"\x01" + question[1:]), UNIMPLEMENTED, "compressed")
            self.assertEqual(status(question[:4]), INVALID_ARGUMENT)
            self.assertEqual(status(question + b"x"), INVALID_ARGUMENT)
            self.assertEqual(status(b""), INVALID_ARGUMENT)
            self.assertEqual(status(grpc_web.frame(bytes(300 << 10))), RESOURCE_EXHAUSTED)
            for other in ("application/grpc-web-text", "application/json", "text/plain"):
                self.assertEqual(status(question, content_type=other), 415)
            self.assertEqual(client.ask("POST", "/quarry.v1.Other/Read", question, content_type=grpc_web.TYPE)[0], 404)
            self.assertEqual(status(question), OK)

    def test_time_that_the_client_allows(self):
        with WebServer(self.data) as server, server.client() as client:
            # The dataset has one step; after it the call waits for the next.
            # A busy machine may need the time for the first.
            steps, milliseconds = 0, 300
            while steps == 0:
                answer = client.call("WatchSteps", field(1, "run42"), grpc_timeout=f"{milliseconds}m")
                self.assertEqual(answer.status, DEADLINE_EXCEEDED)
                steps, milliseconds = len(answer.messages), 2 * milliseconds
            self.assertEqual(steps, 1)
            self.assertEqual(client.call("GetDataset", field(1, "run42"), grpc_timeout="1H").status, OK)

    def test_steps_as_they_come(self):
        path = self.tmp / "grows.quarry"
        qt.convert(qt.smooth((20, 20, 20)), path, "--lossless")
        with WebServer(self.tmp, "--watch", 0.02) as server, grpc_web.Raw(server.http_address()) as watcher:
            watcher.send(grpc_web.request("WatchSteps", field(1, "grows")))
            watcher.until(b"\r\n\r\n")
            watcher.until(b"0000.qsf")
            qt.convert(qt.smooth((20, 20, 20)), path, "--lossless", "--step", 7, "--append")
            watcher.until(b"0000.qsf")
            server.signal(signal.SIGTERM)
            self.assertIn(b"grpc-status: 14\r\n", watcher.until(b"0\r\n\r\n"))

    # --- who may ask ---

    def test_tokens(self):
        with WebServer(self.data, "--tokens", self.tokens) as server, server.client() as nobody, \
                server.client(token=TOKEN) as alice, server.client(token="x" * 32) as wrong:
            listed = alice.call("ListDatasets")
            self.assertEqual([parse(one)[1][0] for one in parse(listed.messages[0])[1]], [b"run42"])
            self.assertEqual(alice.call("GetDataset", field(1, "wind/a")).status, PERMISSION_DENIED)
            self.assertEqual(alice.call("GetDataset", field(1, "none")).status, PERMISSION_DENIED)
            for client in (nobody, wrong):
                self.assertEqual(client.call("ListDatasets").status, UNAUTHENTICATED)
                for key in ("zarr.json", "0/f/c/0/0/0", "0/z/c/0"):
                    status, headers, _ = client.ask("GET", f"/zarr/run42/{key}")
                    self.assertEqual((status, headers["www-authenticate"]), (401, "Bearer"))
            for key in ("zarr.json", "0/f/c/0/0/0", "0/z/c/0", "0/f/zarr.json"):
                for _ in range(2):  # the second time from memory
                    status, headers, _ = alice.ask("GET", f"/zarr/run42/{key}")
                    self.assertEqual((status, headers["cache-control"].split(",")[0]), (200, "private"), key)
                    self.assertEqual(alice.ask("GET", f"/zarr/wind/a/{key}")[0], 403)
                    self.assertEqual(alice.ask("GET", f"/zarr/none/{key}")[0], 403)
                    self.assertEqual(nobody.ask("GET", f"/zarr/run42/{key}")[0], 401)
                tag = headers["etag"]
                self.assertEqual(alice.ask("GET", f"/zarr/run42/{key}", if_none_match=tag)[0], 304)
                self.assertEqual(nobody.ask("GET", f"/zarr/run42/{key}", if_none_match=tag)[0], 401)
                self.assertEqual(nobody.ask("HEAD", f"/zarr/run42/{key}")[0], 401)
            with server.client(token=OTHER) as bob:
                self.assertEqual(bob.ask("GET", "/zarr/wind/a.zarr/0/f/c/0/0/0")[0], 200)
                self.assertEqual(bob.ask("GET", "/zarr/run42/0/f/c/0/0/0")[0], 403)
            # The page and the port of gRPC are no data, and the health check needs no token.
            self.assertEqual([nobody.ask("GET", path)[0] for path in ("/", "/server.json", "/healthz")], [200, 200, 200])
        self.assertNotIn(TOKEN, server.final_log)

    def test_reload(self):
        """Tokens and certificate, without a restart."""
        tokens = self.tmp / "tokens"
        shutil.copy(self.tokens, tokens)

        def make_certificate():
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                            "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                            self.tmp / "key.pem", "-out", self.tmp / "cert.pem"], check=True, capture_output=True)
            return ssl.PEM_cert_to_DER_cert((self.tmp / "cert.pem").read_text())

        first = make_certificate()
        with WebServer(self.data, "--tokens", tokens, "--tls-cert", self.tmp / "cert.pem", "--tls-key",
                       self.tmp / "key.pem") as server:
            def connect(**keywords):
                context = ssl.create_default_context(cafile=self.tmp / "cert.pem")
                context.set_alpn_protocols(["h2", "http/1.1"])
                return server.client(context=context, **keywords)

            with connect(token=TOKEN) as old:
                self.assertEqual(old.ask("GET", "/zarr/run42/zarr.json")[0], 200)
                self.assertEqual(old.connection.sock.getpeercert(True), first)
                self.assertEqual(old.connection.sock.selected_alpn_protocol(), "http/1.1")
                answer = old.call("Read", read_question("run42", "f"))
                np.testing.assert_array_equal(grpc_web.samples_of(answer.messages, "<f4"), self.decoded(0))
                second = make_certificate()
                tokens.write_text(tokens.read_text().replace("run42", "other"))
                server.signal(signal.SIGHUP)
                server.log_until("datasets are opened anew")
                self.assertEqual(old.ask("GET", "/zarr/run42/zarr.json")[0], 403, "the token is another one now")
                with connect(token=TOKEN) as new:
                    self.assertEqual(new.ask("GET", "/healthz")[0], 200)
                    self.assertEqual(new.connection.sock.getpeercert(True), second)
            # Plain text on this port is no more than an end.
            with grpc_web.Raw(server.http_address()) as plain:
                plain.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertNotIn(b"HTTP", plain.all())

    def test_clients_with_certificates(self):
        script = """
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=authority -keyout ca.key -out ca.pem
            for name in 127.0.0.1 alice; do
              openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=$name -keyout $name.key -out $name.csr
              printf 'subjectAltName=IP:127.0.0.1' >ext
              openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile ext -out $name.pem
            done"""
        subprocess.run(["bash", "-euc", script], cwd=self.tmp, check=True, capture_output=True)
        with WebServer(self.data, "--tls-cert", self.tmp / "127.0.0.1.pem", "--tls-key", self.tmp / "127.0.0.1.key",
                       "--tls-client-ca", self.tmp / "ca.pem") as server:
            context = ssl.create_default_context(cafile=self.tmp / "ca.pem")
            with server.client(context=context) as nobody, self.assertRaises((ssl.SSLError, ConnectionError)):
                nobody.ask("GET", "/")
            context.load_cert_chain(self.tmp / "alice.pem", self.tmp / "alice.key")
            with server.client(context=context) as alice:
                self.assertEqual(alice.call("ListDatasets").status, OK)
                self.assertTrue(alice.ask("GET", "/zarr/run42/zarr.json")[1]["cache-control"].startswith("private"))
            self.assertIn('("alice"): ListDatasets OK', server.log())

    def test_not_in_public_in_plain_text(self):
        refused = qt.run("quarry-server", self.data, "--http", "0.0.0.0:0")
        self.assert_one_line(refused, qt.USAGE, "--http 0.0.0.0:0", "--insecure", "--tls-cert")
        self.assert_one_line(qt.run("quarry-server", self.data, "--http", "nowhere"), qt.USAGE, "nowhere")
        self.assert_one_line(qt.run("quarry-server", self.data, "--http-page", "x"), qt.USAGE, "--http")
        self.assert_one_line(qt.run("quarry-server", self.data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-cors",
                                    "example.org", "--quiet"), qt.USAGE, "example.org")
        for origin in ("*", "https://data.example.org/folder", "https://data.example.org; script-src *"):
            self.assert_one_line(qt.run("quarry-server", self.data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-connect",
                                        origin, "--quiet"), qt.USAGE, "--http-connect", origin)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.assert_one_line(qt.run("quarry-server", self.data, "--listen", "127.0.0.1:0", "--http",
                                        f"127.0.0.1:{taken.getsockname()[1]}", "--quiet"), qt.UNREACHABLE, "cannot listen")

    def test_other_sites(self):
        call = "POST", "/quarry.v1.QuarryService/ListDatasets"
        good, evil = "https://viewer.example.org", "https://evil.example"
        with WebServer(self.data) as server, server.client() as client:
            own = {"content_type": grpc_web.TYPE}
            address = server.http_address()
            for host, status in ((address, 200), ("localhost:1", 200), ("[::1]", 200), ("a.localhost", 200), ("evil.example", 421),
                                 ("127.0.0.1.evil.example", 421), ("evil.example:80", 421)):
                self.assertEqual(client.ask("GET", "/healthz", host=host)[0], status, host)
            for origin, status in ((f"http://{address}", 200), (evil, 403), ("null", 403), ("http://localhost:1", 403)):
                self.assertEqual(client.ask(*call, grpc_web.frame(b""), origin=origin, **own)[0], status, origin)
            status, headers, _ = client.ask("OPTIONS", call[1], origin=evil, access_control_request_method="POST")
            self.assertFalse([name for name in headers if name.startswith("access-control")])
        with WebServer(self.data, "--http-cors", good, "--http-cors", "http://localhost:5173") as server, server.client() as client:
            status, headers, _ = client.ask("OPTIONS", call[1], origin=good, access_control_request_method="POST")
            self.assertEqual((status, headers["access-control-allow-origin"]), (204, good))
            self.assertIn("x-grpc-web", headers["access-control-allow-headers"])
            for origin, status in ((good, 200), ("http://localhost:5173", 200), (evil, 403), (good + ".evil.example", 403)):
                code, headers, _ = client.ask(*call, grpc_web.frame(b""), origin=origin, **own)
                self.assertEqual((code, headers.get("access-control-allow-origin")), (status, origin if status == 200 else None))
                self.assertEqual(headers["vary"], "origin")
            # A proxy in front may pass its own name on.
            self.assertEqual(client.ask("GET", "/healthz", host="viewer.example.org")[0], 200)

    # --- the page ---

    def test_the_page(self):
        page = self.tmp / "page"
        (page / "assets").mkdir(parents=True)
        script = b"console.log('a script')" * 100
        (page / "index.html").write_text("<!doctype html><title>Viewer</title>")
        (page / "assets" / "index-1a2b.js").write_bytes(script)
        (page / "assets" / "index-1a2b.js.gz").write_bytes(gzip.compress(script))
        (page / "assets" / "decoder.wasm").write_bytes(b"\0asm")
        (page / "assets" / "again").symlink_to(page)  # a loop is passed over
        (self.tmp / "secret").write_text("secret")
        with WebServer(self.data, "--http-page", page) as server, server.client() as client:
            status, headers, body = client.ask("GET", "/")
            self.assertEqual((status, body), (200, (page / "index.html").read_bytes()))
            self.assertEqual((headers["content-type"], headers["cache-control"]), ("text/html; charset=utf-8", "no-cache"))
            self.assertEqual(headers["content-security-policy"],
                             "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: "
                             "blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
                             "form-action 'none'")
            with WebServer(self.data, "--http-page", page, "--http-connect", "https://data.example.org", "--http-connect",
                           "http://localhost:9000") as other, other.client() as another:
                self.assertIn("; connect-src 'self' https://data.example.org http://localhost:9000; ",
                              another.ask("GET", "/")[1]["content-security-policy"])
            for name, value in (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"),
                                ("cross-origin-opener-policy", "same-origin"), ("cross-origin-resource-policy", "same-origin")):
                self.assertEqual(headers[name], value)
            self.assertEqual(client.ask("GET", "/", if_none_match=headers["etag"])[::2], (304, b""))
            self.assertEqual(client.ask("GET", "/index.html")[0], 200)

            script_path = "/assets/index-1a2b.js"
            status, headers, body = client.ask("GET", script_path)
            self.assertEqual((status, body, headers["content-type"]), (200, script, "text/javascript; charset=utf-8"))
            self.assertEqual(headers["cache-control"], "public, max-age=31536000, immutable")
            for accept, packed in (("gzip", True), ("br, gzip;q=0.5", True), ("gzip;q=0", False), ("br", False)):
                status, headers, body = client.ask("GET", script_path, accept_encoding=accept)
                self.assertEqual((status, headers.get("content-encoding"), headers["vary"]),
                                 (200, "gzip" if packed else None, "accept-encoding"))
                self.assertEqual(gzip.decompress(body) if packed else body, script)
            status, headers, body = client.ask("HEAD", script_path)
            self.assertEqual((status, int(headers["content-length"]), body), (200, len(script), b""))
            self.assertEqual(client.ask("GET", "/assets/decoder.wasm")[1]["content-type"], "application/wasm")
            # A file that is missing at the start is not served.
            (page / "later.html").write_text("later")
            for path in ("/later.html", "/assets", "/assets/", "/favicon.ico", "/page/index.html", "/../secret", "/assets/../../secret",
                         "/%2e%2e/secret", "/..%2fsecret", "//secret", "/%00", "/assets/index-1a2b.js.gz",
                         "/assets/again/index.html"):
                status, _, body = client.ask("GET", path)
                self.assertIn(status, (400, 404), path)
                self.assertNotIn(b"secret" if "secret" not in path else b"secret\n\n", body)

    def test_a_folder_that_is_no_page(self):
        def assert_refused(folder, code, *mentions):
            self.assert_one_line(qt.run("quarry-server", self.data, "--http", "127.0.0.1:0", "--http-page", folder, "--listen",
                                        "127.0.0.1:0", "--quiet"), code, folder, *mentions)

        folder = self.tmp / "folder"
        assert_refused(folder, qt.NOT_FOUND)
        folder.mkdir()
        assert_refused(folder, qt.NOT_FOUND, "index.html")
        (folder / "index.html").write_text("a page")
        for number in range(1000):
            (folder / str(number)).touch()
        assert_refused(folder, qt.USAGE, "1000 files")

    def test_without_a_page(self):
        page = self.tmp / "empty"
        page.mkdir()
        with WebServer(self.data) as server, server.client() as client:
            status, headers, body = client.ask("GET", "/")
            self.assertEqual(status, 200)
            self.assertIn("default-src 'none'", headers["content-security-policy"])
            self.assertTrue(b"Quarry" in body or b"script" in body)
            for method in ("PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "BREW"):
                status, headers, _ = client.ask(method, "/healthz")
                self.assertEqual((status, headers["allow"]), (405, "GET, HEAD, POST, OPTIONS"), method)
            self.assertEqual(client.ask("GET", "/quarry.v1.QuarryService/Read")[0], 405)
            self.assertEqual(client.ask("POST", "/", b"x")[0], 404)
            self.assertEqual(client.ask("GET", "/healthz")[::2], (200, b"ok\n"))

    def test_the_port_of_grpc(self):
        with WebServer(self.data) as server, server.client() as client:
            status, headers, body = client.ask("GET", "/server.json")
            self.assertEqual((status, headers["content-type"], headers["cache-control"]), (200, "application/json", "no-store"))
            self.assertEqual(json.loads(body), {"grpc_port": int(server.address.rpartition(":")[2])})

    # --- Zarr ---

    def test_zarr(self):
        with WebServer(self.data) as server, server.client() as client:
            root = json.loads(client.ask("GET", "/zarr/run42/zarr.json")[2])
            self.assertEqual(root["consolidated_metadata"]["metadata"]["0/f"]["shape"], [23, 34, 45])
            decoded = self.decoded(0)
            for place in np.ndindex(2, 3, 3):
                key = "/".join(map(str, place))
                for name in ("run42", "run42.zarr", "run42.quarry"):
                    status, headers, body = client.ask("GET", f"/zarr/{name}/0/f/c/{key}")
                    self.assertEqual((status, len(body)), (200, 4 * 16 ** 3))
                chunk = np.frombuffer(body, "<f4").reshape(16, 16, 16)
                box = tuple(slice(16 * i, min(16 * i + 16, n)) for i, n in zip(place, SHAPE))
                inside = tuple(slice(0, part.stop - part.start) for part in box)
                np.testing.assert_array_equal(chunk[inside], decoded[box])
                padding = np.ones(chunk.shape, bool)
                padding[inside] = False
                self.assertTrue(np.isnan(chunk[padding]).all())
            self.assertEqual(client.ask("GET", "/zarr/wind/a/0/f/zarr.json")[0], 200)
            for level in (2, 4):
                array = json.loads(client.ask("GET", f"/zarr/run42/{level}/f/zarr.json")[2])
                self.assertEqual(array["shape"], list(self.decoded(level).shape))
                body = client.ask("GET", f"/zarr/run42/{level}/f/c/0/0/0")[2]
                chunk = np.frombuffer(body, "<f4").reshape(array["chunk_grid"]["configuration"]["chunk_shape"])
                whole = self.decoded(level)
                np.testing.assert_array_equal(chunk, whole[tuple(map(slice, chunk.shape))])
            # A cached answer is shown after a call has allowed it, each time.
            asked = server.log().count('Zarr "run42" OK')
            for method in ("GET", "HEAD"):
                client.ask(method, "/zarr/run42/zarr.json")
            while server.log().count('Zarr "run42" OK') < asked + 2:  # written after the answer was sent
                pass
            self.assertEqual(server.log().count('Zarr "run42" OK'), asked + 2)
            log = server.log()
        self.assertIn('Read "run42" OK', log)

    def test_parts_and_tags(self):
        with WebServer(self.data) as server, server.client() as client:
            for key in ("0/f/c/0/0/0", "0/x/c/0", "0/f/zarr.json"):
                path = f"/zarr/run42/{key}"
                status, headers, whole = client.ask("GET", path)
                n, tag = len(whole), headers["etag"]
                self.assertEqual((status, headers["accept-ranges"]), (200, "bytes"))
                self.assertEqual(headers["cache-control"], "public, max-age=60" if "/f/c" in path else "public, no-cache")
                status, headers, body = client.ask("HEAD", path)
                self.assertEqual((status, headers["content-length"], headers["etag"], body), (200, str(n), tag, b""))
                for asked, begin, end in (("0-9", 0, 10), ("100-", 100, n), ("-5", n - 5, n), (f"{n - 4}-{2 * n}", n - 4, n),
                                          ("-99999", 0, n), ("3-100", 3, 101)):
                    status, headers, body = client.ask("GET", path, range=f"bytes={asked}")
                    self.assertEqual((status, headers["content-range"], body),
                                     (206, f"bytes {begin}-{end - 1}/{n}", whole[begin:end]), (key, asked))
                for asked in (f"{n}-", "999999-1000000", "-0"):
                    status, headers, _ = client.ask("GET", path, range=f"bytes={asked}")
                    self.assertEqual((status, headers["content-range"]), (416, f"bytes */{n}"))
                for asked in ("bytes=5-1", "bytes=0-1,3-4", "bytes=-", "bytes=a-b", "lines=0-1", "bytes=" + "9" * 30 + "-"):
                    self.assertEqual(client.ask("GET", path, range=asked)[::2], (200, whole), asked)
                self.assertEqual(client.ask("GET", path, range="bytes=0-9", if_range='"old"')[0], 200)
                self.assertEqual(client.ask("GET", path, range="bytes=0-9", if_range=tag)[0], 206)
                self.assertEqual(client.ask("GET", path, if_none_match=f'"other", W/{tag}')[::2], (304, b""))
                self.assertEqual(client.ask("GET", path, if_none_match='"other"')[::2], (200, whole))
            self.assertNotEqual(client.ask("GET", "/zarr/run42/0/f/c/0/0/1")[1]["etag"],
                                client.ask("GET", "/zarr/run42/0/f/c/0/0/0")[1]["etag"])
            first = client.ask("GET", "/zarr/run42/0/f/c/0/0/0")[1]["etag"]
        with WebServer(self.data) as server, server.client() as client:
            self.assertEqual(client.ask("GET", "/zarr/run42/0/f/c/0/0/0")[1]["etag"], first, "of another server")

    def test_what_is_no_key(self):
        with WebServer(self.data) as server, server.client() as client:
            for path in ("", "run42", "run42/", "run42/0", "run42/zarr.json/", "run42/9/zarr.json", "run42/0/g/zarr.json",
                         "run42/.zgroup", "run42/0/f/c/0/0/0/0", "run42/0/f/c/0/0", "run42/0/f/c/0/0/03", "run42/0/f/c/0/0/-1",
                         "run42/dataset.json", "run42/steps/000000/step.json", "zarr.json", "none/zarr.json", "wind/zarr.json"):
                self.assertEqual(client.ask("GET", f"/zarr/{path}")[0], 404, path)
            # A lost chunk is not read as fill values.
            self.assertEqual(client.ask("GET", "/zarr/none/0/f/c/0/0/0")[0], 422)

    def test_damage(self):
        path = self.tmp / "bad.quarry"
        shutil.copytree(self.path, path)
        (subfile,) = (path / "steps/000000/f").iterdir()
        content = bytearray(subfile.read_bytes())
        content[len(content) // 2:len(content) // 2 + 300] = bytes(300)
        subfile.write_bytes(content)
        with WebServer(self.tmp, "--metrics", "127.0.0.1:0") as server, server.client() as client:
            answers = [client.ask("GET", "/zarr/bad/0/f/c/" + "/".join(map(str, place))) for place in np.ndindex(2, 3, 3)]
            self.assertEqual({answer[0] for answer in answers}, {200, 422})
            text = next(answer[2] for answer in answers if answer[0] == 422)
            self.assertIn(b"0000.qsf", text)
            self.assertNotIn(str(self.tmp).encode(), text, "where the server keeps its data stays with it")
            self.assertGreater(server.metrics()['quarry_damage_total{dataset="bad"}'], 0)
            # The whole field shows the damage as such.
            self.assertEqual(client.call("Read", read_question("bad", "f")).status, OK)


if __name__ == "__main__":
    qt.main()
