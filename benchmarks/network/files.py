#!/usr/bin/env python3
"""Serves a folder over HTTP/1.1, with ranges and connections that stay open, as a web server does.

Example: files.py build/benchmark-network/edge384-0.0001-interpolate/peers 127.0.0.1
"""

import argparse
import asyncio
from pathlib import Path

from aiohttp import web


async def serve(folder: Path, host: str) -> None:
    """Prints its address when it is ready, and does not end."""
    application = web.Application()
    application.router.add_static("/", folder)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, 0).start()
    print(f"listening on {host}:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Runs the server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("host")
    args = parser.parse_args()
    asyncio.run(serve(args.folder, args.host))


if __name__ == "__main__":
    main()
