"""Frames of HTTP/2, written by hand: for clients that no library would let one be. RFC 9113; no header compression."""

import socket
import struct

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


def call_headers(method, **more):
    """Of a call of the service."""
    headers = {":method": "POST", ":scheme": "http", ":path": f"/quarry.v1.QuarryService/{method}",
               ":authority": "localhost", "content-type": "application/grpc", "te": "trailers"}
    return b"".join(literal(name.replace("_", "-"), value) for name, value in {**headers, **more}.items())


def message(payload):
    """With gRPC's prefix: not compressed, length."""
    return b"\0" + struct.pack(">I", len(payload)) + payload


class Connection:
    """A connection that has said hello."""

    def __init__(self, address, window=65535):
        """`window`: bytes of each answer that the server may send at first."""
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=600)
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

    def is_closed(self):
        """Waits until the server has closed the connection, reading what it still says."""
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
        acknowledged, received = 1, b""
        try:
            self.send(frame(PING, 0, 0, bytes(8)))
            while True:
                more = self.socket.recv(1 << 16)
                if not more:
                    return False
                received += more
                while len(received) >= 9 and len(received) >= 9 + int.from_bytes(received[:3], "big"):
                    if received[3] == PING and received[4] & acknowledged:
                        return True
                    received = received[9 + int.from_bytes(received[:3], "big"):]
        except ConnectionError:
            return False
