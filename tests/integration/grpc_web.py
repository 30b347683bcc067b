"""gRPC-Web by hand, with nothing but the standard library: calls of the service over HTTP/1.1, and the messages that the
tests look into. https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md"""

import base64
import http.client
import socket
import struct
import urllib.parse
from typing import NamedTuple

import numpy as np

TYPE = "application/grpc-web+proto"


# --- messages ---

def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(128 | value % 128)
        value //= 128
    return bytes(out) + bytes([value])


def field(number, value):
    """A number, or text, bytes or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def parse(message):
    """Fields by number: a list of numbers and bytes for each."""
    fields, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            value = number()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or number()
            value, at = message[at:at + size], at + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def unpack(packed):
    """A repeated field of numbers."""
    values, value, shift = [], 0, 0
    for byte in packed:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value = shift = 0
    return values


def read_question(dataset, field_name, level=0, box=None):
    """A ReadRequest."""
    query = field(1, dataset) + field(2, field_name) + field(5, level)
    if box:
        begin, end = (b"".join(map(varint, corner)) for corner in zip(*box))
        query += field(4, field(1, begin) + field(2, end))
    return field(1, query)


def samples_of(messages, dtype):
    """The only level of an answer to Read, [z, y, x]."""
    array = None
    for message in map(parse, messages):
        if 1 in message:
            (extent,) = (parse(level) for level in parse(message[1][0])[3])
            first, shape = unpack(extent[2][0]), unpack(extent[3][0])
            array = np.empty(shape[::-1], dtype)
        for blocks in message.get(2, []):
            blocks = parse(blocks)
            data = blocks[1000][0]
            for block in map(parse, blocks[2]):
                begin, shape = unpack(block[1][0]), unpack(block[2][0])
                count = int(np.prod(shape))
                part, data = np.frombuffer(data[:count * array.itemsize], dtype), data[count * array.itemsize:]
                place = tuple(slice(b - f, b - f + n) for b, f, n in zip(begin, first, shape))
                array[place[::-1]] = part.reshape(shape[::-1])
            if data:
                raise AssertionError(f"{len(data)} bytes more than the blocks have")
    return array


# --- calls ---

def frame(message):
    return b"\0" + struct.pack(">I", len(message)) + message


class Answer(NamedTuple):
    """How a call has ended, and what came before."""

    status: int
    message: str
    messages: list
    headers: dict
    details: bytes


def parse_answer(body, headers):
    """The frames of a body, the last of which has the trailers."""
    messages, trailers = [], None
    while body:
        flags, size = struct.unpack(">BI", body[:5])
        content, body = body[5:5 + size], body[5 + size:]
        if len(content) < size or trailers is not None:
            raise AssertionError("not such frames")
        if flags == 0x80:
            trailers = dict(line.split(": ", 1) for line in content.decode("ascii").split("\r\n") if line)
        else:
            messages.append(content)
    if trailers is None:
        raise AssertionError("no trailers")
    details = trailers.get("grpc-status-details-bin", "")
    return Answer(int(trailers["grpc-status"]), urllib.parse.unquote(trailers.get("grpc-message", "")), messages,
                  dict(headers), base64.b64decode(details + "=" * (-len(details) % 4)))


class Client:
    """A connection for one request after the other."""

    def __init__(self, address, token="", timeout=600, context=None):
        host, port = address.rsplit(":", 1)
        self.connection = (http.client.HTTPSConnection(host, int(port), timeout=timeout, context=context) if context else
                           http.client.HTTPConnection(host, int(port), timeout=timeout))
        self.headers = {"authorization": f"Bearer {token}"} if token else {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def call(self, method, question=b"", **headers):
        status, headers, body = self.ask("POST", f"/quarry.v1.QuarryService/{method}", frame(question),
                                         content_type=TYPE, x_grpc_web="1", **headers)
        if status != 200 or headers["content-type"] != TYPE:
            raise AssertionError(f"{status} {headers} {body}")
        return parse_answer(body, headers)

    def ask(self, method, path, body=None, **headers):
        """Status, headers and body."""
        self.connection.request(method, path, body,
                                self.headers | {name.replace("_", "-"): value for name, value in headers.items()})
        answer = self.connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


# --- byte by byte ---

# The head of a call whose body comes in chunks, for a method and further headers; and bodies of which something has no end.
CHUNKED = ("POST /quarry.v1.QuarryService/{} HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + TYPE +
           "\r\nTransfer-Encoding: chunked\r\n{}\r\n")
ENDLESS_BODIES = ("0\r\nx: " + "y" * 400_000, "1;" + "y" * 400_000, "1" * 400_000, "0\r\n" + "x: y\r\n" * 60_000,
                  "1;yyyyyyyyy\r\nx\r\n" * 25_000)


class Raw:
    """A connection whose client sends what it likes."""

    def __init__(self, address, timeout=600, source="127.0.0.1"):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout, source_address=(source, 0))
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def until(self, text):
        """Reads up to this text, and returns it too."""
        while text not in self.received:
            more = self.socket.recv(1 << 16)
            if not more:
                raise AssertionError(f"closed after {self.received[-500:]}")
            self.received += more
        end = self.received.index(text) + len(text)
        part, self.received = self.received[:end], self.received[end:]
        return part

    def all(self):
        """Everything until the server closes the connection."""
        try:
            while more := self.socket.recv(1 << 16):
                self.received += more
        except ConnectionError:
            pass
        return self.received


def request(method, question=b"", **headers):
    """The bytes of a call."""
    body = frame(question)
    headers = {"host": "localhost", "content-type": TYPE, "content-length": str(len(body)), **headers}
    lines = [f"POST /quarry.v1.QuarryService/{method} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}"
                                                                    for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
