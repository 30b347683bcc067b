"""Frames of HTTP/2, written by hand: for clients that no library would let one be. RFC 9113; no header compression."""

import contextlib
import socket
import struct
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(value, bits, first=0):
    """RFC 7541, 5.1."""
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([first | value])
    out = bytearray([first | limit])
    value -= limit
    while value >= 128:
        out.append(128 | value % 128)
        value //= 128
    return bytes(out) + bytes([value])


def literal(name, value):
    """A header that is not indexed, and not Huffman-coded."""
    name, value = (text if isinstance(text, bytes) else text.encode() for text in (name, value))
    return b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value


def call_headers(method, service="quarry.v1.QuarryService", **more):
    """Headers of a call of the service."""
    headers = {":method": "POST", ":scheme": "http", ":path": f"/{service}/{method}",
               ":authority": "localhost", "content-type": "application/grpc", "te": "trailers"}
    return b"".join(literal(name.replace("_", "-"), value) for name, value in {**headers, **more}.items())


def message(payload):
    """With gRPC's prefix: not compressed, length."""
    return b"\0" + struct.pack(">I", len(payload)) + payload


# Faults of a client after the headers of a call: the server ends the call though the client has not cancelled it (the
# class of CVE-2025-8671), or waits for its question. By stream.
FAULTS = {
    "a window that overflows": lambda stream: frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 0x7fffffff)),
    "flags that there are none of": lambda stream: frame(DATA, 0xf0, stream, bytes(5)),
    "a message of no kind": lambda stream: frame(DATA, 0, stream, b"\x09" + bytes(4)),
    "data after the end": lambda stream: frame(DATA, END_STREAM, stream) + frame(DATA, 0, stream, bytes(5)),
    "nothing": lambda stream: b"",
}


def calls_that_the_server_ends(fault, first, count):
    """The frames of so many calls, from the stream `first` on."""
    headers = call_headers("Read")
    return b"".join(frame(HEADERS, END_HEADERS, stream, headers) + FAULTS[fault](stream)
                    for stream in range(first, first + 2 * count, 2))


class Connection:
    """A connection that has said hello."""

    def __init__(self, address, window=65535, source="127.0.0.1"):
        """`window`: bytes of each answer that the server may send at first; `source`: address of the client."""
        host, port = address.rsplit(":", 1)
        self._reader = None
        self.socket = socket.create_connection((host, int(port)), timeout=600, source_address=(source, 0))
        initial_window_size = 4
        everything = 1 << 30
        self.send(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", initial_window_size, window)) +
                  frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", everything)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def answers_nobody(self):
        """Takes what the server sends from now on, and forgets it: the connection goes on however much that is."""
        self._reader = threading.Thread(target=self._take_everything, daemon=True)
        self._reader.start()

    def _take_everything(self):
        with contextlib.suppress(OSError):
            while self.socket.recv(1 << 16):
                pass

    def send_data(self, stream, data):
        """As the window of the stream allows; on a connection whose other streams send nothing. ConnectionError: the server has
        ended the stream or the connection."""
        window = 65535
        while data:
            part = data[:min(window, 1 << 14)]
            if part:
                self.send(frame(DATA, 0, stream, part))
                data, window = data[len(part):], window - len(part)
                continue
            kind, flags, of, payload = self.next_frame()
            if kind == WINDOW_UPDATE and of == stream:
                window += int.from_bytes(payload, "big")
            if kind == RST_STREAM or flags & END_STREAM and kind == HEADERS:
                raise ConnectionError("the server has ended the stream")

    def answers(self, count):
        """Waits until so many streams have ended."""
        while count > 0:
            kind, flags, *_ = self.next_frame()
            count -= kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & END_STREAM != 0)

    def next_frame(self):
        """Its type, flags, stream and payload."""
        head = self._exactly(9)
        return head[3], head[4], int.from_bytes(head[5:], "big"), self._exactly(int.from_bytes(head[:3], "big"))

    def _exactly(self, count):
        received = b""
        while len(received) < count:
            more = self.socket.recv(count - len(received))
            if not more:
                raise ConnectionError("the server has closed the connection")
            received += more
        return received

    def is_closed(self):
        """Waits until the server has closed the connection, reading what it still says."""
        if self._reader:
            self._reader.join(600)
            return not self._reader.is_alive()
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            return False
        return True

    def has_read_everything(self):
        """Waits until the server has read what was sent: then it answers a ping. False if it closes the connection instead."""
        acknowledged = 1
        try:
            self.send(frame(PING, 0, 0, bytes(8)))
            while True:
                kind, flags, *_ = self.next_frame()
                if kind == PING and flags & acknowledged:
                    return True
        except ConnectionError:
            return False
