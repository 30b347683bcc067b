"""`quarry serve-zarr`: quarry-server with one dataset, for tools that open a URL of Zarr."""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote

from quarry._dataset import open as open_dataset
from quarry._errors import Error
from quarry._words import is_url, without_secret
from quarry._zarr_contents import Contents

_PROGRAMS = Path(__file__).parent / "bin"
# As the other programs end.
_EXIT_CODES = {"INVALID_ARGUMENT": 2, "ValueError": 2, "NOT_FOUND": 3, "KeyError": 3, "DATA_LOSS": 4}


def main(arguments: Sequence[str]) -> int:
    """Runs the command with the arguments behind its name. Returns the exit code, that of quarry-server."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.target.startswith(("grpc://", "grpcs://")):
        parser.error(f"\"{without_secret(options.target)}\" is on a server, which shows it as Zarr itself "
                     "if it runs with --http: http://HOST:PORT/zarr/NAME")
    if not 0 <= options.port < 1 << 16:
        parser.error(f"--port {options.port} is not within 0 and 65535")
    try:
        with open_dataset(options.target, allow_http=options.allow_http) as dataset:
            Contents.of(dataset, options.field, options.float32, options.layer)
    except (Error, KeyError, ValueError) as error:
        print(f"quarry serve-zarr: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return _EXIT_CODES.get(error.code if isinstance(error, Error) else type(error).__name__, 6)
    with subprocess.Popen(_command(options), stdout=subprocess.PIPE, text=True) as server:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: server.send_signal(number))
        assert server.stdout is not None
        for line in server.stdout:
            if line.startswith("http on "):
                address = line.split()[2]
            if line.startswith("listening on "):
                print(_url(address, options), flush=True)
        return server.wait()


def _command(options: argparse.Namespace) -> list[str]:
    address = f"[{options.address}]" if ":" in options.address else options.address
    command = [str(_PROGRAMS / "quarry-server"), options.target, "--listen", "127.0.0.1:0", "--http",
               f"{address}:{options.port}", "--log-level", "warn"]
    if options.allow_http:
        command.append("--allow-http")
    for origin in options.cors:
        command += ["--http-cors", origin]
    if not _is_loopback(options.address):
        print(f"quarry serve-zarr: everybody who reaches {address} can read \"{without_secret(options.target)}\"",
              file=sys.stderr, flush=True)
        command.append("--insecure")
    return command


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _name(target: str) -> str:
    """The last name of a path or a URL."""
    if not is_url(target):
        return os.path.basename(os.path.abspath(target))
    return unquote(without_secret(target).rstrip("/").rpartition("/")[2])


def _url(address: str, options: argparse.Namespace) -> str:
    """Where the hierarchy is. Many readers know one by the ending .zarr."""
    path = [_name(options.target).removesuffix(".quarry")]
    if options.layer is not None:
        path.append(f"layer={options.layer}")
    if options.float32:
        path.append("float32=true")
    if options.field:
        path.append(f"fields={','.join(options.field)}")
    return f"http://{address}/zarr/{quote('/'.join(path), safe='/=,')}.zarr"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="quarry serve-zarr", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Serves a dataset as Zarr over HTTP, read-only: quarry-server with one dataset. Prints the URL "
                    "when it is ready; SIGTERM and Ctrl-C end it.",
        epilog="Example:\n"
               "  quarry serve-zarr run42.quarry --port 8000\n"
               "  python -c 'import zarr; print(zarr.open(\"http://127.0.0.1:8000/zarr/run42.zarr\")[\"2/pressure\"])'\n"
               "Exit codes: 0 stopped, 2 bad usage, 3 not found, 4 damaged data, 5 the port is in use, 6 other errors.")
    parser.add_argument("target", metavar="TARGET",
                        help="dataset directory, or its URL: https://HOST/NAME.quarry or s3://BUCKET/NAME.quarry")
    parser.add_argument("--allow-http", action="store_true",
                        help="take a URL http:// of another machine: plain text, which anybody on the way can read and "
                             "change")
    parser.add_argument("--address", default="127.0.0.1",
                        help="address to listen on; with another one than the default, everybody who reaches it can "
                             "read the dataset (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--cors", metavar="ORIGIN", action="append", default=[],
                        help="a web site whose pages may read, such as https://neuroglancer-demo.appspot.com, or * for "
                             "all; may be repeated (default: none)")
    parser.add_argument("--layer", type=int, metavar="K",
                        help="layer of accuracy, 0 the roughest (default: the last)")
    parser.add_argument("--float32", action="store_true", help="float64 fields as float32")
    parser.add_argument("--field", metavar="NAME", action="append",
                        help="show this one; may be repeated, the first comes first (default: all)")
    return parser
