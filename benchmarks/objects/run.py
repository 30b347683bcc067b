#!/usr/bin/env python3
"""Measures cold reads from an S3 server over a path of packets, next to TensorStore, zarr-python with obstore, and
h5py with s3fs.

A read opens the dataset and has its samples in memory; connections are new, libraries are loaded. The server is
versitygw (scripts/object-store.sh builds it), plain and with TLS. A path needs what ../network/run.py says. The field
is 512^3 float32 within 1e-4 of its range; the peers have int16 of the same error in chunks of 64^3. Everything goes to
one folder (--out): venv/, the stored field, results.json and table.md. Contestants take turns, --repeat times.

Example, the figures of the README:     sudo benchmarks/objects/run.py
Example, in a minute:                   sudo benchmarks/objects/run.py --edge 256 --repeat 2
"""

import argparse
import datetime
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "serve"), str(HERE.parent / "network")]
from common import ROOT, processor, say, source_version, table
from processes import Conversation, Failed, bring_to_page_cache, touch_memory
from stored import enter_environment, make_dataset, make_field, within
from wire import WAYS, ImpossibleError, Wire, check_possible, must, relay

NAMES = ("quarry", "tensorstore", "zarr", "h5py")
NEEDED = ["numpy", "scipy", "zarr", "h5py", "hdf5plugin", "obstore"]  # without these, nothing is stored
KEY, SECRET, BUCKET = "AKBENCH", "secret-of-the-benchmark", "bench"
PORT = 7070  # in a namespace of its own

Row = dict[str, Any]


class Gateway:
    """versitygw over a folder, at the far end of a path or here."""

    def __init__(self, program: Path, folder: Path, host: str, port: int, wire: Wire | None = None,
                 tls: tuple[Path, Path, Path] | None = None) -> None:
        options = ["--cert", tls[1], "--key", tls[2]] if tls else []
        command = [program, *options, "-q", "--keep-alive", "--port", f"{host}:{port}", "posix", folder]
        self.url = f"{'https' if tls else 'http'}://{host}:{port}"
        self.environment = {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                            "AWS_REGION": "us-east-1"}
        if tls:
            trusted = str(tls[0])
            self.environment |= {"AWS_CA_BUNDLE": trusted, "SSL_CERT_FILE": trusted, "TENSORSTORE_CA_BUNDLE": trusted}
        line = wire.far(*command) if wire else list(map(str, command))
        self.process = subprocess.Popen(line, env=os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
                                        stdout=subprocess.DEVNULL)
        self._await(host, port, wire)

    def _await(self, host: str, port: int, wire: Wire | None) -> None:
        """It does not say when it is ready."""
        ask = [sys.executable, "-c", f"import socket; socket.create_connection(({host!r}, {port}))"]
        while subprocess.run(wire.far(*ask) if wire else ask, capture_output=True).returncode != 0:
            if self.process.poll() is not None:
                raise Failed(f"versitygw ended with {self.process.returncode}")

    def __enter__(self) -> "Gateway":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.process.terminate()
        self.process.wait()


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def store_objects(args: argparse.Namespace, field: Path, tolerance: float) -> Path:
    """Folder of versitygw with the dataset and the peers' arrays as objects."""
    root = make_dataset(args, field, "served", "x".join([str(args.edge)] * 3),
                        [*within(args, tolerance), "--order", args.order])
    peers, objects = args.out / "peers", args.out / "objects"
    if not (peers / "about.json").exists():
        say("storing for the peers")
        must("rm", "-rf", peers)
        must(sys.executable, HERE.parent / "network/peers.py", "prepare", field, peers, "--edge", str(args.edge),
             "--tolerance", repr(tolerance))
    say("uploading")
    must("rm", "-rf", objects)
    (objects / BUCKET).mkdir(parents=True)
    with Gateway(args.gateway, objects, "127.0.0.1", free_port()) as gateway:
        environment = os.environ | gateway.environment
        subprocess.run([args.bin / "quarry", "cp", root / "turb.quarry", f"s3://{BUCKET}/served/turb.quarry"],
                       check=True, env=environment)
        subprocess.run([sys.executable, HERE / "readers.py", "upload", peers, "peers"], check=True, env=environment)
    return objects


def make_certificate(folder: Path) -> tuple[Path, Path, Path]:
    """An authority, and its certificate for the address of the far end with the key."""
    authority, signing = folder / "authority.pem", folder / "authority-key.pem"
    certificate, key, request = folder / "certificate.pem", folder / "key.pem", folder / "request.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = folder / "names"
    names.write_text("subjectAltName=IP:10.77.0.2\n")
    must("openssl", "req", "-x509", *curve, "-days", "365", "-subj", "/CN=authority", "-keyout", signing, "-out",
         authority)
    must("openssl", "req", *curve, "-subj", "/CN=bench", "-keyout", key, "-out", request)
    must("openssl", "x509", "-req", "-in", request, "-CA", authority, "-CAkey", signing, "-CAcreateserial", "-days",
         "365", "-extfile", names, "-out", certificate)
    return authority, certificate, key


def questions(args: argparse.Namespace, field: Path, tolerance: float) -> dict[str, dict[str, Any]]:
    """The first picture: a level of 64^3; and a box of half of each edge."""
    level = (args.edge // 64).bit_length() - 1
    low = args.edge // 4
    about = {"field": str(field), "edge": args.edge, "tolerance": tolerance}
    return {f"first picture, level {level}, {args.edge >> level}^3":
                about | {"level": level, "box": [[0, args.edge >> level]] * 3},
            f"{args.edge // 2}^3 box": about | {"level": 0, "box": [[low, low + args.edge // 2]] * 3}}


def measure(args: argparse.Namespace, objects: Path, asked: dict[str, dict[str, Any]], scale: float,
            results: dict[str, Any]) -> None:
    """Contestants in turns, plain and with TLS."""
    program = relay(args.wan, ROOT.parent / "shared/tools/wan.cc", args.home)
    certificate = make_certificate(args.out)
    with Wire(WAYS[args.way], program) as wire:
        results["path"] = vars(wire.measure())
        for kind, tls in (("plain", None), ("TLS", certificate)):
            with Gateway(args.gateway, objects, wire.host, PORT, wire, tls) as gateway:
                environment = os.environ | gateway.environment | {"PYTHONPATH": str(args.package)}
                readers = {}
                for name in args.names:
                    command = wire.near("env", *(f"{key}={value}" for key, value in environment.items()
                                                 if key.startswith(("AWS_", "SSL_", "TENSORSTORE_", "PYTHONPATH"))),
                                        sys.executable, HERE / "readers.py", "answer", name, "--scale", repr(scale))
                    readers[name] = Conversation(command)
                for repeat in range(args.repeat):
                    say(f"{kind}, turn {repeat + 1} of {args.repeat}")
                    for title, question in asked.items():
                        order = args.names[repeat % len(args.names):] + args.names[:repeat % len(args.names)]
                        for name in order:
                            touch_memory(512 << 20)
                            results["rows"].append(one(readers[name], name, kind, title, question))
                for reader in readers.values():
                    reader.close()


def one(reader: Conversation, name: str, kind: str, title: str, question: dict[str, Any]) -> Row:
    """One read; an error of a peer is a figure as well."""
    row: Row = {"contestant": name, "kind": kind, "question": title}
    try:
        return row | {"seconds": reader.ask(question)["seconds"], "error": None}
    except Failed as error:
        if name == "quarry":
            raise
        return row | {"seconds": None, "error": str(error)}


def report(results: dict[str, Any]) -> str:
    """Medians in milliseconds, with the least and the most."""
    rows = []
    for kind in ("plain", "TLS"):
        for title in dict.fromkeys(row["question"] for row in results["rows"]):
            cells = []
            for name in results["names"]:
                found = sorted(1e3 * row["seconds"] for row in results["rows"] if row["seconds"] is not None
                               and (row["kind"], row["question"], row["contestant"]) == (kind, title, name))
                cells.append(f"{statistics.median(found):,.0f} ({found[0]:,.0f} to {found[-1]:,.0f})" if found else "-")
            rows.append([f"{title}, {kind}", *cells])
    return str(table(["ms", *results["names"]], rows))


def parse_arguments() -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmark-objects", help="for everything")
    parser.add_argument("--bin", type=Path, default=ROOT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--package", type=Path, default=ROOT / "build/release/python", help="Quarry's Python package")
    parser.add_argument("--gateway", type=Path, default=ROOT / "build/object-store/versitygw-v1.8.0/versitygw")
    parser.add_argument("--wan", type=Path, help="the relay; default: compiled from ../shared/tools/wan.cc")
    parser.add_argument("--python", default="python3", help="makes the environment; that of Quarry's package")
    parser.add_argument("--edge", type=int, default=512, help="samples along each axis, a power of two from 128 on")
    parser.add_argument("--relative", type=float, default=1e-4, help="tolerance, of the range of the field")
    parser.add_argument("--codec", default="interpolate")
    parser.add_argument("--order", default="coarse", help="order of the payload in Quarry's subfiles")
    parser.add_argument("--way", default="campus", choices=[name for name, way in WAYS.items() if way.mbit > 0])
    parser.add_argument("--repeat", type=int, default=7, help="turns; medians count")
    parser.add_argument("--names", nargs="+", default=list(NAMES), choices=NAMES)
    args = parser.parse_args()
    if args.edge < 128 or args.edge & (args.edge - 1):
        parser.error(f"--edge {args.edge} is no power of two from 128 on")
    if not args.gateway.exists():
        parser.error(f"{args.gateway} not found: scripts/object-store.sh builds it")
    args.home = args.out.resolve()
    args.out = args.home / f"edge{args.edge}-{args.relative:g}-{args.codec}"
    return args


def main() -> None:
    """See the top."""
    args = parse_arguments()
    try:
        check_possible()
    except ImpossibleError as error:
        sys.exit(f"run.py: cannot make a path: {error}")
    args.out.mkdir(parents=True, exist_ok=True)
    enter_environment(args.home, args.python, HERE / "requirements.txt", NEEDED)
    field, tolerance = make_field(args)
    objects = store_objects(args, field, tolerance)
    bring_to_page_cache(objects)
    results: dict[str, Any] = {
        "date": datetime.datetime.now().isoformat(timespec="minutes"), "processor": processor()[0],
        "processors": os.cpu_count(), "source": source_version(), "names": args.names, "rows": [],
        "lost": json.loads((args.home / "venv/installed.json").read_text())["missing"]}
    begin = time.monotonic()
    try:
        measure(args, objects, questions(args, field, tolerance), 2 * tolerance, results)
    except (Failed, ImpossibleError) as error:
        sys.exit(f"run.py: {error}")
    text = report(results)
    (args.out / "results.json").write_text(json.dumps(results) + "\n")
    (args.out / "table.md").write_text(text)
    print(text)
    for message in {row["error"] for row in results["rows"] if row["error"]}:
        say(message)
    say(f"{time.monotonic() - begin:.0f} s; figures in {args.out}")


if __name__ == "__main__":
    main()
