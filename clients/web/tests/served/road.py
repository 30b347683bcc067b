"""A way to a server over which answers can be made slow.

Usage: road.py HOST:PORT
Prints its own port. A line of its input is a number: bytes a second from the server on each connection; "inf": all.

It takes little ahead from the server: else the kernel would take all of an answer, and the server would be done with it
before the page has begun. The browser's own limit has the same fault.
"""

import asyncio
import math
import socket
import sys

TICK = 0.02  # [s]
AHEAD = 64 << 10  # [bytes]
limit = math.inf


async def send_slowly(server, browser):
    while data := await server.read(AHEAD if limit == math.inf else max(1, int(limit * TICK))):
        browser.write(data)
        await browser.drain()
        await asyncio.sleep(len(data) / limit)


async def send(browser, server):
    while data := await browser.read(AHEAD):
        server.write(data)
        await server.drain()


async def carry(browser_reader, browser):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, AHEAD)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ADDRESS)
    server_reader, server = await asyncio.open_connection(sock=connection, limit=AHEAD)
    ways = [asyncio.ensure_future(send(browser_reader, server)), asyncio.ensure_future(send_slowly(server_reader, browser))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)
    for writer in (browser, server):
        writer.close()


def take_limits():
    global limit
    for line in sys.stdin:
        limit = float(line)


async def main():
    listener = await asyncio.start_server(carry, "127.0.0.1", 0)
    print("port", listener.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, take_limits)


host, _, port = sys.argv[1].rpartition(":")
ADDRESS = (host, int(port))
asyncio.run(main())
