"""`quarry serve-zarr`: a dataset as Zarr behind HTTP, for what wants a URL.

GET and HEAD of the keys of `_zarr_contents`, which are looked up in a table and never become paths of files. What
cannot be read is never a 404, which Zarr's readers take for a chunk of fill values.
"""

from __future__ import annotations

import argparse
import hashlib
import ipaddress
import os
import re
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from quarry import __version__
from quarry._dataset import open as open_dataset
from quarry._errors import Error
from quarry._zarr_contents import Contents
from quarry._zarr_description import describe

# How long a connection may be silent: always, and before a request where others may be waiting for its place.
_SILENT_SECONDS = 30
_CROWDED_SECONDS = 2
_DRAIN_SECONDS = 10
_MOST_DISCARDED = 1 << 20

# What may be different a little later, and is worth another try. Everything else is 422: tensorstore repeats a request
# that was answered with a 5xx for minutes.
_STATUS = {"UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE, "RESOURCE_EXHAUSTED": HTTPStatus.SERVICE_UNAVAILABLE,
           "DEADLINE_EXCEEDED": HTTPStatus.GATEWAY_TIMEOUT, "INTERNAL": HTTPStatus.INTERNAL_SERVER_ERROR,
           "UNKNOWN": HTTPStatus.INTERNAL_SERVER_ERROR}

# Of errors, as the other programs end.
_EXIT_CODES = {"INVALID_ARGUMENT": 2, "NOT_FOUND": 3, "DATA_LOSS": 4, "UNAVAILABLE": 5, "DEADLINE_EXCEEDED": 5,
               "UNAUTHENTICATED": 5, "PERMISSION_DENIED": 5, "RESOURCE_EXHAUSTED": 5}


class ZarrServer(ThreadingMixIn, TCPServer):
    """Answers each connection on a thread of its own, at most so many at a time; others wait in the system's queue.

    Args:
        name: of the hierarchy, the first part of each path: many readers know a Zarr hierarchy by a URL in .zarr
        address: where to listen
        port: 0: a free one
        cors: origins whose pages may read; "*": all
        connections: at most
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, contents: Contents, name: str, *, address: str = "127.0.0.1", port: int = 0,
                 cors: Sequence[str] = (), connections: int = 64) -> None:
        self.contents = contents
        self.name = name
        self.cors = frozenset(cors)
        self.validator = secrets.token_bytes(16)
        self._connections = connections
        self._free = threading.Semaphore(connections)
        self._changed = threading.Condition()
        self._open = 0
        self._busy = 0
        family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        self.address_family = family
        super().__init__(place[:2], _Handler)  # type: ignore[arg-type]
        self.loopback = ipaddress.ip_address(str(self.server_address[0])).is_loopback

    @property
    def url(self) -> str:
        """Of the root."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://[{host}]:{port}/{self.name}" if ":" in host else f"http://{host}:{port}/{self.name}"

    @property
    def crowded(self) -> bool:
        """Whether connections are to end after their answer, since others may be waiting."""
        return self._open > self._connections * 3 // 4

    def process_request(self, request: Any, client_address: Any) -> None:
        """Waits for a free place."""
        self._free.acquire()
        with self._changed:
            self._open += 1
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._left()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers, and frees the place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._left()

    def _left(self) -> None:
        with self._changed:
            self._open -= 1
        self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave are no news."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"quarry serve-zarr: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    def begin(self) -> None:
        """An answer."""
        with self._changed:
            self._busy += 1

    def end(self) -> None:
        """Of an answer."""
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def drain(self, seconds: float) -> bool:
        """Waits for the answers in progress. False: some are still."""
        with self._changed:
            return self._changed.wait_for(lambda: self._busy == 0, seconds)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: ZarrServer
    protocol_version = "HTTP/1.1"
    timeout = _SILENT_SECONDS
    headers = Message()  # of a request that cannot be parsed
    disable_nagle_algorithm = True

    def version_string(self) -> str:
        """The header Server."""
        return f"quarry/{__version__}"

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Requests are not logged."""

    def handle_one_request(self) -> None:
        """Waits for it, and answers."""
        self.connection.settimeout(_CROWDED_SECONDS if self.server.crowded else _SILENT_SECONDS)
        super().handle_one_request()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class cannot parse."""
        self.close_connection = True
        if self.command not in (None, "GET", "HEAD", "OPTIONS") and code == HTTPStatus.NOT_IMPLEMENTED:
            return self._refuse()
        return self._say(code, message or HTTPStatus(code).phrase)

    def do_GET(self) -> None:  # noqa: N802
        """A value, or a range of it."""
        self.server.begin()
        try:
            self._answer()
        finally:
            self.server.end()

    do_HEAD = do_GET  # noqa: N815

    def do_OPTIONS(self) -> None:  # noqa: N802
        """What a page may ask, for a browser."""
        if not self.server.cors:
            return self._refuse()
        self._discard()
        self._begin(HTTPStatus.NO_CONTENT)
        if self._allowed_origin():
            self.send_header("Access-Control-Allow-Methods", "GET, HEAD")
            self.send_header("Access-Control-Allow-Headers", "Range, If-None-Match, If-Range")
            self.send_header("Access-Control-Max-Age", "600")
        self.end_headers()
        return None

    def _refuse(self) -> None:
        """Any method that is not for reading."""
        self._discard()
        self._say(HTTPStatus.METHOD_NOT_ALLOWED, f"{self.command} is refused: this dataset is read-only here; "
                  "quarry-write makes datasets", {"Allow": "GET, HEAD"})

    do_PUT = do_POST = do_DELETE = do_PATCH = _refuse  # noqa: N815

    def _discard(self) -> None:
        """What is sent with the request: it is not the next request, and a client that still sends would not read the
        answer. So the connection ends."""
        if "Content-Length" not in self.headers and "Transfer-Encoding" not in self.headers:
            return
        self.close_connection = True
        length = self.headers.get("Content-Length", "")
        if length.isdecimal():
            self.rfile.read(min(int(length[:20]), _MOST_DISCARDED))

    # ---- Reading

    def _answer(self) -> None:
        self._discard()
        if not self._is_for_us():
            return self._say(HTTPStatus.MISDIRECTED_REQUEST, f"no server for {self.headers['Host']!r} here: a server "
                             "on the loopback interface answers as localhost only; see --address")
        path = unquote(self.path.partition("?")[0])
        key = path.removeprefix(f"/{self.server.name}/")
        size = self.server.contents.size(key) if key != path else None
        if size is None:
            return self._say(HTTPStatus.NOT_FOUND, f"there is no {path!r}; open {self.server.url} with a reader of "
                             "Zarr")
        tag = '"' + hashlib.blake2b(key.encode(), key=self.server.validator, digest_size=12).hexdigest() + '"'
        if self._has(tag):
            self._begin(HTTPStatus.NOT_MODIFIED, {"ETag": tag})
            return self.end_headers()
        part = self._range(size, tag)
        if part is not None and not part:
            return self._say(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, f"{self.headers['Range']!r} is outside the "
                             f"value, which has {size} bytes", {"Content-Range": f"bytes */{size}"})
        return self._send(key, size, tag, part)

    def _send(self, key: str, size: int, tag: str, part: range | None) -> None:
        value: bytes | memoryview | None = None
        if self.command != "HEAD":
            try:
                value = self.server.contents.get(key)
            except Error as error:
                return self._failed(key, error)
            except Exception as error:  # a bug, or no memory: this answer only
                return self._failed(key, Error("INTERNAL", f"{type(error).__name__}: {error}"))
        headers = {"Content-Type": "application/json" if key.endswith(".json") else "application/octet-stream",
                   "ETag": tag, "Accept-Ranges": "bytes", "Cache-Control": "no-cache"}
        if part is None:
            part = range(size)
            self._begin(HTTPStatus.OK, headers)
        else:
            self._begin(HTTPStatus.PARTIAL_CONTENT,
                        headers | {"Content-Range": f"bytes {part.start}-{part.stop - 1}/{size}"})
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if value is not None:
            self.wfile.write(value[part.start:part.stop])
        return None

    def _failed(self, key: str, error: Error) -> None:
        print(f"quarry serve-zarr: {key}: {error.code}: {error}", file=sys.stderr, flush=True)
        self._say(_STATUS.get(error.code, HTTPStatus.UNPROCESSABLE_ENTITY), f"{error.code}: {error}")

    def _is_for_us(self) -> bool:
        """A page whose name was made to lead to this machine sends that name, and is not to read."""
        host = self.headers.get("Host")
        if host is None or not self.server.loopback:
            return True
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name == "localhost" or name.endswith(".localhost") or ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _has(self, tag: str) -> bool:
        known = self.headers.get("If-None-Match")
        return known is not None and (known.strip() == "*" or tag in (one.strip().removeprefix("W/")
                                                                      for one in known.split(",")))

    def _range(self, size: int, tag: str) -> range | None:
        """The bytes of the header Range, none of them if it is outside; None: all, also of headers that are not
        understood."""
        found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", self.headers.get("Range", "").replace(" ", ""), re.ASCII)
        if self.command == "HEAD" or found is None or self.headers.get("If-Range", tag) != tag:
            return None
        first, last = found.groups()
        if first:
            if last and int(last) < int(first):
                return None
            return range(int(first), min(int(last) + 1, size) if last else size)
        return range(max(size - int(last), 0), size) if last else None

    # ---- Answers

    def _allowed_origin(self) -> str | None:
        origin: str | None = self.headers.get("Origin")
        if "*" in self.server.cors:
            return "*"
        return origin if origin in self.server.cors else None

    def _begin(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.connection.settimeout(_SILENT_SECONDS)
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.server.cors:
            if origin := self._allowed_origin():
                self.send_header("Access-Control-Allow-Origin", origin)
                self.send_header("Access-Control-Expose-Headers", "Accept-Ranges, Content-Range, ETag")
            self.send_header("Vary", "Origin")
        if self.close_connection or self.server.crowded:
            self.send_header("Connection", "close")

    def _say(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        """An error, in words."""
        said = f"{text}\n".encode()
        self._begin(status, {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(said)),
                             "Cache-Control": "no-store"} | (headers or {}))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)


# ---- The command

def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="quarry serve-zarr", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Serves a dataset as Zarr over HTTP, read-only. Prints the URL when it is ready; SIGTERM and "
                    "Ctrl-C end it.",
        epilog="Example:\n"
               "  quarry serve-zarr run42.quarry --port 8000\n"
               "  python -c 'import zarr; print(zarr.open(\"http://127.0.0.1:8000/run42.zarr\")[\"2/pressure\"])'\n"
               "Exit codes: 0 stopped, 2 bad usage, 3 not found, 4 damaged data, 5 the server cannot be reached, or "
               "refuses,\n6 cannot listen, or other I/O error.")
    parser.add_argument("target", metavar="TARGET", help="dataset directory, or grpc://HOST:PORT/NAME")
    parser.add_argument("--address", default="127.0.0.1",
                        help="where to listen; with another one than the default, everybody who reaches it can read "
                             "the dataset (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--cors", metavar="ORIGIN", action="append", default=[],
                        help="a web site whose pages may read, such as https://neuroglancer-demo.appspot.com, or * for "
                             "all; may be repeated (default: none)")
    parser.add_argument("--connections", type=int, default=64, help="at most at a time (default: %(default)s)")
    parser.add_argument("--float32", action="store_true", help="float64 fields as float32")
    parser.add_argument("--field", metavar="NAME", action="append",
                        help="show this one; may be repeated, the first comes first (default: all)")
    group = parser.add_argument_group("Server")
    group.add_argument("--timeout", type=float, default=0, metavar="S",
                       help="seconds that a server may take for an answer (default: no limit)")
    for name, variable, what in (("ca", "QUARRY_CA", "authorities to trust"),
                                 ("cert", "QUARRY_CERT", "own certificate"),
                                 ("key", "QUARRY_KEY", "the key of --cert")):
        group.add_argument(f"--{name}", default=os.environ.get(variable, ""), metavar="FILE",
                           help=f"for grpcs://: {what}, a PEM file (or {variable})")
    group.add_argument("--token-file", default=os.environ.get("QUARRY_TOKEN_FILE", ""), metavar="FILE",
                       help="holds the token (or QUARRY_TOKEN_FILE; default: the variable QUARRY_TOKEN)")
    return parser


def _name(target: str) -> str:
    """run42.zarr of some/where/run42.quarry or grpc://host:port/run42."""
    last = os.path.basename(os.path.abspath(target)).removesuffix(".quarry")
    return re.sub(r"[^A-Za-z0-9._-]", "-", last) + ".zarr"


def _token(path: str) -> str:
    if not path:
        return os.environ.get("QUARRY_TOKEN", "")
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _serve(options: argparse.Namespace) -> None:
    with open_dataset(options.target, token=_token(options.token_file), ca=options.ca, certificate=options.cert,
                      key=options.key, timeout=options.timeout) as dataset:
        contents = Contents(dataset, describe(dataset, options.field, options.float32))
        with ZarrServer(contents, _name(options.target), address=options.address, port=options.port, cors=options.cors,
                        connections=options.connections) as server:
            if not server.loopback:
                print(f"quarry serve-zarr: everybody who reaches {server.url} can read \"{options.target}\"",
                      file=sys.stderr, flush=True)
            print(server.url, flush=True)
            try:
                server.serve_forever()
            finally:
                server.server_close()
                if not server.drain(_DRAIN_SECONDS):
                    # A thread that reads does not survive the end of the interpreter.
                    os._exit(0)


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    """The command, with the arguments behind its name. Returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.connections < 1 or not 0 <= options.port < 1 << 16:
        _parser().error("--connections must be at least 1, and --port 0 to 65535")
    signal.signal(signal.SIGTERM, _stop)
    try:
        _serve(options)
    except KeyboardInterrupt:
        return 0
    except (Error, KeyError, ValueError, OSError) as error:
        text = error.args[0] if isinstance(error, KeyError) else error
        print(f"quarry serve-zarr: {text}", file=sys.stderr)
        code = error.code if isinstance(error, Error) else "NOT_FOUND" if isinstance(error, KeyError) else ""
        return _EXIT_CODES.get(code, 6)
    return 0
