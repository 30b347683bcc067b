"""A network between a browser and a server: as fast and as far away as one likes, and it counts what passes."""

import asyncio
import contextlib
import threading

PIECE = 16 << 10


class SlowNetwork:
    """Forwards TCP from a port of its own. All connections share the rate of each direction; every byte takes half of the
    round trip, and a new connection one round trip more, for the handshake.

    rate: bits per second of each direction; None: as fast as it goes. round_trip: seconds. received: bytes from the server.
    """

    def __init__(self, target, rate=None, round_trip=0.0):
        host, port = target.rsplit(":", 1)
        self._target, self._rate, self._half = (host, int(port)), rate, round_trip / 2
        self.received = 0
        self._free_at = {"up": 0.0, "down": 0.0}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self):
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *error):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _run(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.address = "127.0.0.1:{}".format(server.sockets[0].getsockname()[1])
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _connection(self, reader, writer):
        await asyncio.sleep(2 * self._half)
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        try:
            await asyncio.gather(self._pump("up", reader, far_writer), self._pump("down", far_reader, writer))
        except (ConnectionError, asyncio.CancelledError):
            pass  # either end may leave at any time
        finally:
            writer.close()
            far_writer.close()

    async def _pump(self, direction, reader, writer):
        """Two halves, so that many pieces are on their way at once."""
        # As many as the line holds, and a few: what waits before a slow line is the sender's.
        on_the_way = asyncio.Queue(4 + int((self._rate or 0) / 8 * self._half / PIECE))
        await asyncio.gather(self._send(direction, reader, on_the_way), self._deliver(direction, writer, on_the_way))

    async def _send(self, direction, reader, on_the_way):
        while piece := await reader.read(PIECE):
            now = self._loop.time()
            self._free_at[direction] = max(now, self._free_at[direction]) + (8 * len(piece) / self._rate if self._rate else 0)
            await on_the_way.put((self._free_at[direction] + self._half, piece))
        await on_the_way.put((0, b""))

    async def _deliver(self, direction, writer, on_the_way):
        while True:
            at, piece = await on_the_way.get()
            await asyncio.sleep(max(0, at - self._loop.time()))
            if not piece:
                with contextlib.suppress(OSError):  # a browser that closes leaves requests behind
                    writer.write_eof()
                return
            if direction == "down":
                self.received += len(piece)
            writer.write(piece)
            await writer.drain()
