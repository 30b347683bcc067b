"""Servers that datasets are read from: an S3 store and a web server, each over a folder, and a store that lies.

The store checks signatures by its own reading of Amazon's "Create a signed AWS API request", and lists three names on a
page. It takes objects, whole and in parts, with conditions. It is not a whole S3 server; s3_servers.py has some."""

import contextlib
import datetime
import hashlib
import hmac
import http.server
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import uuid
import urllib.parse
from pathlib import Path
from xml.sax.saxutils import escape

KEY, SECRET = "AKTEST", "secret/of the+test"
PAGE = 3


class Handler(http.server.BaseHTTPRequestHandler):
    """GET and HEAD of files with ranges. `self.server.folder` is served; `self.server.spoil` may answer instead."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, with_body):
        with self.server.lock:
            self.server.asked.append(f"{self.command} {self.path}")
        path, _, query = self.path.partition("?")
        if self.refused(path, query):
            return
        if "list-type" in query:
            self.send(200, self.listed(dict(urllib.parse.parse_qsl(query, keep_blank_values=True))))
        elif self.server.spoil is None or not self.server.spoil(self):
            self.send_file(path, with_body)

    def refused(self, path, query):
        return False

    def file_of(self, path):
        return self.server.folder / urllib.parse.unquote(path).lstrip("/")

    def range_of(self, size):
        """Begin and end of the range that was asked for; None without one."""
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if not found or found[0] == "bytes=-":
            return None
        if not found[1]:
            return max(0, size - int(found[2])), size
        return int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)

    def send_file(self, path, with_body=True):
        file = self.file_of(path)
        if not file.is_file():
            return self.send(404, b"<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>", with_body)
        data = file.read_bytes()
        headers = {"ETag": f"\"{hashlib.md5(data).hexdigest()}\""}
        part = self.range_of(len(data))
        if part is None:
            return self.send(200, data, with_body, headers)
        if part[0] >= part[1]:
            return self.send(416, b"", with_body, {"Content-Range": f"bytes */{len(data)}"})
        headers["Content-Range"] = f"bytes {part[0]}-{part[1] - 1}/{len(data)}"
        return self.send(206, data[part[0]:part[1]], with_body, headers)

    def send(self, status, body, with_body=True, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            with self.server.lock:
                self.server.sent += len(body)
            self.wfile.write(body)


class S3Handler(Handler):
    """The same as a bucket: the first name of a path is the bucket."""

    def refused(self, path, query):
        wrong = None if self.server.public else self.wrong_signature(path, query)
        if wrong:
            self.send(403, f"<Error><Code>{wrong}</Code><Message>no access</Message></Error>".encode(),
                      self.command == "GET")
        return wrong

    def wrong_signature(self, path, query):
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/s3/aws4_request, "
                             r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})",
                             self.headers.get("Authorization", ""))
        if not found:
            return "AccessDenied"
        key, day, region, names, signature = found.groups()
        if key != KEY:
            return "InvalidAccessKeyId"
        if "host" not in names.split(";") or "x-amz-date" not in names.split(";"):
            return "SignatureDoesNotMatch"
        lines = "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in names.split(";"))
        body = self.headers["x-amz-content-sha256"]
        canonical = f"{self.command}\n{path}\n{query}\n{lines}\n{names}\n{body}"
        time = self.headers["x-amz-date"]
        text = f"AWS4-HMAC-SHA256\n{time}\n{day}/{region}/s3/aws4_request\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        secret = f"AWS4{SECRET}".encode()
        for part in (day, region, "s3", "aws4_request", text):
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
        sent = datetime.datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if abs(datetime.datetime.now(datetime.timezone.utc) - sent) > datetime.timedelta(minutes=15):
            return "RequestTimeTooSkewed"
        return None if secret.hex() == signature else "SignatureDoesNotMatch"

    def listed(self, query):
        bucket = self.file_of(self.path.partition("?")[0])
        prefix = query.get("prefix", "")
        keys = sorted(str(file.relative_to(bucket)) for file in bucket.rglob("*") if file.is_file())
        entries = {}  # a file or a folder each, in their order
        for key in keys:
            if key.startswith(prefix):
                rest = key[len(prefix):]
                name = prefix + rest.split("/")[0] + ("/" if "/" in rest else "")
                entries[name] = bucket / key
        names = [name for name in entries if name > query.get("continuation-token", "")]
        some, more = names[:PAGE], len(names) > PAGE
        text = "<ListBucketResult><EncodingType>url</EncodingType>" + f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        if more:
            text += f"<NextContinuationToken>{escape(some[-1])}</NextContinuationToken>"
        for name in some:
            quoted = urllib.parse.quote(name)
            if name.endswith("/"):
                text += f"<CommonPrefixes><Prefix>{quoted}</Prefix></CommonPrefixes>"
            else:
                text += f"<Contents><Key>{quoted}</Key><Size>{entries[name].stat().st_size}</Size></Contents>"
        return (text + "</ListBucketResult>").encode()


class WritableS3Handler(S3Handler):
    """The same with PUT, DELETE and uploads in parts. `self.server.before(handler)` is called before each change, and
    `self.server.after(handler)` before its answer: True if there is none."""

    def do_PUT(self):
        self.change(self.put)

    def do_DELETE(self):
        self.change(self.delete)

    def do_POST(self):
        self.change(self.post)

    def change(self, make):
        with self.server.lock:
            self.server.asked.append(f"{self.command} {self.path}")
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            self.server.received += len(body)
        if self.headers.get("x-amz-content-sha256") != hashlib.sha256(body).hexdigest():
            return self.send(400, b"<Error><Code>XAmzContentSHA256Mismatch</Code></Error>")
        if self.refused(path, query) or self.cut(self.server.before):
            return None
        with self.server.changes:
            answer = make(path, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)), body)
        return None if self.cut(self.server.after) else self.send(*answer)

    def cut(self, hook):
        """Whether the connection ends without an answer."""
        if hook is None or not hook(self):
            return False
        self.close_connection = True
        self.connection.close()
        return True

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if "uploads" not in dict(urllib.parse.parse_qsl(query, keep_blank_values=True)):
            return super().do_GET()
        if self.refused(path, query):
            return None
        uploads = "".join(f"<Upload><Key>{escape(key)}</Key><UploadId>{number}</UploadId></Upload>"
                          for number, (key, _) in self.server.uploads.items())
        return self.send(200, f"<ListMultipartUploadsResult>{uploads}</ListMultipartUploadsResult>".encode())

    def place(self, path, data):
        """The answer to a condition, or to an object that is put."""
        file = self.file_of(path)
        if self.server.keeps_conditions and self.headers.get("If-None-Match") == "*" and file.exists():
            return 412, b"<Error><Code>PreconditionFailed</Code><Message>it is there</Message></Error>"
        wanted = self.headers.get("If-Match")
        if self.server.keeps_conditions and wanted and not (file.exists() and wanted == f"\"{hashlib.md5(file.read_bytes()).hexdigest()}\""):
            return 412, b"<Error><Code>PreconditionFailed</Code><Message>it is another</Message></Error>"
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.server.parts, delete=False) as new:
            new.write(data)
        os.replace(new.name, file)
        return 200, b"", True, {"ETag": f"\"{hashlib.md5(data).hexdigest()}\""}

    def put(self, path, query, body):
        if "uploadId" not in query:
            return self.place(path, body)
        if query["uploadId"] not in self.server.uploads:
            return 404, b"<Error><Code>NoSuchUpload</Code></Error>"
        self.server.uploads[query["uploadId"]][1][int(query["partNumber"])] = body
        return 200, b"", True, {"ETag": f"\"{hashlib.md5(body).hexdigest()}\""}

    def delete(self, path, query, body):
        if "uploadId" in query:
            found = self.server.uploads.pop(query["uploadId"], None)
            return (204, b"") if found else (404, b"<Error><Code>NoSuchUpload</Code></Error>")
        file = self.file_of(path)
        if file.is_file():
            file.unlink()
            while not any(file.parent.iterdir()):  # a store has no folders
                file = file.parent
                file.rmdir()
        return 204, b""

    def post(self, path, query, body):
        if "uploads" in query:
            number = uuid.uuid4().hex
            self.server.uploads[number] = urllib.parse.unquote(path).lstrip("/").partition("/")[2], {}
            return 200, (f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId>"
                         "</InitiateMultipartUploadResult>").encode()
        if query["uploadId"] not in self.server.uploads:
            return 404, b"<Error><Code>NoSuchUpload</Code></Error>"
        parts = self.server.uploads[query["uploadId"]][1]
        named = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>(?:&quot;|\")([0-9a-f]+)(?:&quot;|\")</ETag>",
                           body.decode())
        wanted = [(str(n), hashlib.md5(parts[n]).hexdigest()) for n in sorted(parts)]
        if named != wanted or any(len(parts[n]) < 5 << 20 for n in sorted(parts)[:-1]):
            return 400, b"<Error><Code>InvalidPart</Code></Error>"
        answer = self.place(path, b"".join(parts[n] for n in sorted(parts)))
        if answer[0] == 200:
            del self.server.uploads[query["uploadId"]]
        return answer


class Store(contextlib.AbstractContextManager):
    """A server over a folder. asked: the requests so far. spoil(handler): True if it has answered.

    tls: context of a server that has a certificate."""

    def __init__(self, folder, handler=S3Handler, public=False, tls=None):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *error: None  # clients leave
        self.server.folder, self.server.public, self.server.spoil = Path(folder), public, None
        self.server.asked, self.server.lock = [], threading.Lock()
        self.server.sent = self.server.received = 0  # bytes of bodies
        self.server.before = self.server.after = None
        self.server.uploads, self.server.changes, self.server.keeps_conditions = {}, threading.Lock(), True
        self.server.parts = Path(tempfile.mkdtemp(dir=self.server.folder.parent))
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.url = "{}://127.0.0.1:{}".format("https" if tls else "http", self.server.server_address[1])
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        shutil.rmtree(self.server.parts)

    @property
    def asked(self):
        with self.server.lock:
            return list(self.server.asked)

    def environment(self, key=KEY, secret=SECRET):
        """Variables for its clients."""
        return {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret,
                "AWS_REGION": "eu-test-1", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}

    @contextlib.contextmanager
    def losing_answers(self, random, share=0.1):
        """Some connections break before a change, and some behind it, before its answer."""
        lock = threading.Lock()

        def by_chance(handler):
            with lock:
                return random.random() < share

        self.server.before = self.server.after = by_chance
        try:
            yield
        finally:
            self.server.before = self.server.after = None

    def kill_at(self, moment, command, environment):
        """Runs a command that is killed before the change of the store with this number, from 1.

        @return whether it has ended so"""
        victim, known, count = [], threading.Event(), [0]

        def before(handler):
            with self.server.lock:
                count[0] += 1
                if count[0] != moment:
                    return False
            known.wait()
            os.kill(victim[0].pid, signal.SIGKILL)
            return True

        self.server.before = before
        victim.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env=environment | self.environment()))
        known.set()
        victim[0].wait()
        self.server.before = None
        return victim[0].returncode == -signal.SIGKILL


def make_certificate(folder):
    """cert.pem and key.pem of this machine, which nobody has signed."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                    "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem",
                    "-out", folder / "cert.pem"], check=True, capture_output=True)


class Lies:
    """Spoils some answers, by chance: what a store does on a bad day, and what none should do."""

    def __init__(self, seed, share=0.3):
        self.random, self.share, self.lock = random.Random(seed), share, threading.Lock()

    def __call__(self, handler):
        with self.lock:
            if self.random.random() >= self.share:
                return False
            lie = self.random.choice([self.slow_down, self.too_many, self.reset, self.short, self.wrong_bytes, self.long,
                                      self.other_tag, self.other_range, self.around, self.bomb, self.server_error])
        lie(handler)
        return True

    def slow_down(self, handler):
        handler.send(503, b"<Error><Code>SlowDown</Code></Error>", handler.command == "GET")

    def too_many(self, handler):
        handler.send(429, b"", headers={"Retry-After": "0"})

    def server_error(self, handler):
        handler.send(500, b"oops", handler.command == "GET")

    def reset(self, handler):
        handler.close_connection = True
        handler.connection.close()

    def _whole(self, handler):
        """Status, headers and body of the right answer."""
        data = handler.file_of(handler.path).read_bytes() if handler.file_of(handler.path).is_file() else b""
        begin, end = handler.range_of(len(data)) or (0, len(data))
        headers = {"ETag": f"\"{hashlib.md5(data).hexdigest()}\"", "Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"}
        return 206 if handler.headers.get("Range") else 200, headers, data[begin:end]

    def short(self, handler):
        status, headers, body = self._whole(handler)
        handler.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body[:len(body) // 2])
        handler.close_connection = True

    def long(self, handler):
        status, headers, body = self._whole(handler)
        handler.send(status, body + b"more", handler.command == "GET", headers)

    def wrong_bytes(self, handler):
        status, headers, body = self._whole(handler)
        spoilt = bytearray(body)
        if spoilt:
            spoilt[len(spoilt) // 2] ^= 1
        handler.send(status, bytes(spoilt), handler.command == "GET", headers)

    def other_tag(self, handler):
        status, headers, body = self._whole(handler)
        handler.send(status, body, handler.command == "GET", headers | {"ETag": "\"another\""})

    def other_range(self, handler):
        status, headers, body = self._whole(handler)
        handler.send(status, body, handler.command == "GET", headers | {"Content-Range": "bytes 7-9/11"})

    def around(self, handler):
        handler.send(302, b"", headers={"Location": handler.path})

    def bomb(self, handler):
        text = "<!DOCTYPE b [<!ENTITY a \"aaaaaaaaaa\">" + "".join(
            f"<!ENTITY a{i} \"{('&a' + str(i - 1 if i else '') + ';') * 10}\">" for i in range(9)) + "]><Error>&a8;</Error>"
        handler.send(403, text.encode(), handler.command == "GET")
