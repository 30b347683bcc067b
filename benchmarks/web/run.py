#!/usr/bin/env python3
"""Measures the viewer in a browser: how soon there is a picture and the final one, on this machine and over a slow network, next
to neuroglancer on a Zarr pyramid; how many bytes a view takes; a slice that is dragged; decoding in one worker; the page's size.

Builds nothing: build the parts release and web first. Makes an environment with requirements.txt, from PyPI. Every figure is
of a fresh browser, graphics in software; contestants take turns; the table has medians, and in brackets the least and the
largest. Pictures are recorded as the browser shows them, so the same measure holds for every page: the first picture is the
first one that is like the last, and from "settled" on none differs from it.

Example, a first look in two minutes:   benchmarks/web/run.py --repeat 3 --parts pictures size
Example, the figures of the README:     benchmarks/web/run.py
"""

import argparse
import asyncio
import contextlib
import functools
import http.server
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "serve"), str(HERE.parent / "codec")]
from common import ROOT, make_venv, processor, say, source_version, table

BIN = ROOT / "build/release/bin"
PAGE = ROOT / "build/viewer"
RELATIVE = 1e-4
PATCH = 64
SIZE = (800, 600)
SLOW = {"rate": 20e6, "round_trip": 0.040}


def enter_environment():
    folder = ROOT / "build/benchmark-web/environment"
    if Path(sys.prefix).resolve() == folder.resolve():
        return
    python, pip = make_venv(folder, sys.executable)
    subprocess.run([*pip, "-r", str(HERE / "requirements.txt")], check=True)
    os.execv(python, [str(python), *sys.argv])


# --- servers


@contextlib.contextmanager
def quarry_server(root, page=PAGE):
    """Its address for HTTP, with nothing decoded."""
    command = [BIN / "quarry-server", root, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-page", page, "--quiet"]
    server = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    try:
        address = None
        for line in server.stdout:
            words = line.split()
            address = words[2] if line.startswith("http on ") else address
            if line.startswith("listening on "):
                break
        yield address
    finally:
        server.terminate()
        server.wait()


class QuietFiles(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def end_headers(self):
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()

    def log_message(self, *words):
        pass


def serve_files(folder, ready):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietFiles, directory=str(folder)))
    ready(server)
    server.serve_forever()


@contextlib.contextmanager
def static_server(folder):
    """In a process of its own, so that it does not wait for the recording."""
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import run\n"
            "run.serve_files(sys.argv[2], lambda server: print(server.server_address[1], flush=True))")
    server = subprocess.Popen([sys.executable, "-c", code, str(HERE), str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        yield f"127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()


# --- pages: each gives the pictures of one visit


async def visit_viewer(args, address, link):
    """Pictures since the navigation, and what the page says of them."""
    from recording import Browser, Recording
    async with Browser(args.chromium, SIZE) as browser, Recording(browser.page) as recording:
        recording.begin = time.time()
        await browser.page.goto(f"http://{address}/#v=1&{link}")
        await browser.page.wait_for_selector('.load-state[data-state="settled"]', timeout=120_000)
        await recording.quiet()
        return recording.pictures(await stage_of(browser.page)), await browser.page.text_content(".load")


async def stage_of(page):
    return await page.evaluate("""() => {
        const { x, y, width, height } = document.querySelector(".stage").getBoundingClientRect();
        return [x, y, width, height].map(Math.round);
    }""")


async def visit_neuroglancer(args, address):
    """By its Python package, which serves its page and tells it what to show."""
    import neuroglancer
    from recording import Browser, Recording
    neuroglancer.set_server_bind_address("127.0.0.1", 0)
    viewer = neuroglancer.Viewer()
    with viewer.txn() as state:
        state.dimensions = neuroglancer.CoordinateSpace(names=["z", "y", "x"], units="", scales=[1, 1, 1])
        state.layers["f"] = neuroglancer.ImageLayer(
            source=f"zarr3://http://{address}/256.zarr/", shader_controls={"normalized": {"range": [-4, 4]}},
            shader="#uicontrol invlerp normalized\nvoid main() { emitGrayscale(normalized()); }")
        state.layout, state.position, state.cross_section_scale = "4panel", [128] * 3, 1
    async with Browser(args.chromium, SIZE) as browser, Recording(browser.page) as recording:
        recording.begin = time.time()
        await browser.page.goto(viewer.get_viewer_url())
        await recording.quiet(4.0)
        # Below the bar with the position, which shows no samples.
        return recording.pictures((0, 60, SIZE[0], SIZE[1] - 60)), ""


def visits(args, contestants):
    """The results of each contestant's visit, in turns."""
    taken = {name: [] for name in contestants}
    for turn in range(args.repeat):
        for name in contestants if turn % 2 == 0 else reversed(contestants):
            taken[name].append(asyncio.run(contestants[name]()))
    return taken


# --- the parts: rows of what, figures by contestant, unit, reach


def rows_of(taken, label, reach):
    from recording import first_picture, settled
    rows = []
    for (what, measure), goal in zip((("first picture", first_picture), ("settled", settled)), reach, strict=True):
        figures = {name: [1e3 * measure(pictures) for pictures, _ in seen] for name, seen in taken.items()}
        rows.append((f"{what} of 256³, {label}", figures, "ms", goal))
    return rows


async def visit_over(args, network):
    """A server of its own each time: nothing is decoded before."""
    from slow_network import SlowNetwork
    with quarry_server(args.out / "data") as address, SlowNetwork(address, **network) as through:
        return await visit_viewer(args, through.address, "d=t256&f=f")


def pictures(args):
    with static_server(args.out / "static") as address:
        taken = visits(args, {"viewer": lambda: visit_over(args, {}),
                              "neuroglancer": lambda: visit_neuroglancer(args, address)})
    return rows_of(taken, "loopback", ("700 ms", "2,500 ms"))


def slow_pictures(args):
    return rows_of(visits(args, {"viewer": lambda: visit_over(args, SLOW)}), "20 Mbit/s and 40 ms", ("1,000 ms", ""))


def bytes_of_a_view(args):
    from slow_network import SlowNetwork
    stored = sum(path.stat().st_size for path in (args.out / "data/t512.quarry").rglob("*.qsf"))
    shares = []
    for _ in range(args.repeat):
        with quarry_server(args.out / "data") as address, SlowNetwork(address) as network:
            asyncio.run(visit_viewer(args, network.address, "d=t512&f=f"))
            shares.append(100 * network.received / stored)
    return [(f"bytes to a settled view of 512³, page included, of {stored / 1e6:.0f} MB stored", {"viewer": shares}, "%", "10 %")]


async def drag(args, address):
    """Pictures a second of the slice across z while its cursor is dragged in another pane, and ms until it is sharp."""
    from recording import Browser, Recording, settled
    async with Browser(args.chromium, SIZE) as browser:
        page = browser.page
        await page.goto(f"http://{address}/#v=1&d=t512&f=f")
        await page.wait_for_selector('.load-state[data-state="settled"]', timeout=120_000)
        slice_ = await page.locator("#pane-z-a").bounding_box()
        other = await page.locator("#pane-y-a").bounding_box()
        x, y = other["x"] + other["width"] / 2, other["y"] + other["height"] * 0.75
        region = [round(slice_[key]) for key in ("x", "y", "width", "height")]
        # Without its title, whose text changes too.
        region[1], region[3] = region[1] + 24, region[3] - 24
        async with Recording(page) as recording:
            await page.mouse.move(x, y)
            await page.mouse.down()
            begin = time.time()
            while (now := time.time() - begin) < 3:
                await page.mouse.move(x, y - other["height"] * 0.5 * now / 3)
                await asyncio.sleep(1 / 60)
            end = time.time() - recording.begin
            await page.mouse.up()
            await recording.quiet()
            shown = recording.pictures(region)
    dragged = [blocks for at, blocks in shown if end - 3 < at <= end]
    changes = sum(1 for before, after in zip(dragged, dragged[1:], strict=False) if abs(after - before).max() > 3)
    after = [(at - end, blocks) for at, blocks in shown if at > end] or [(0.0, shown[-1][1])]
    return changes / 3, max(0.0, 1e3 * settled(after))


def drag_over(args, network, label, reach):
    from slow_network import SlowNetwork
    rates, sharp = [], []
    with quarry_server(args.out / "data") as address:
        for _ in range(args.repeat):
            with SlowNetwork(address, **network) as through:
                rate, after = asyncio.run(drag(args, through.address))
            rates.append(rate)
            sharp.append(after)
    return [(f"pictures a second of a slice dragged through 512³, {label}", {"viewer": rates}, "/s", reach[0]),
            (f"sharp after it stops, {label}", {"viewer": sharp}, "ms", reach[1])]


def dragging(args):
    return drag_over(args, {}, "loopback", ("20 /s", "300 ms"))


def slow_dragging(args):
    return drag_over(args, SLOW, "20 Mbit/s and 40 ms", ("15 /s", "250 ms"))


async def decode_in(args, address):
    from recording import Browser
    async with Browser(args.chromium, SIZE) as browser:
        await browser.page.goto(f"http://{address}/?d=t256")
        body = await browser.page.wait_for_selector("body[data-speeds]", state="attached", timeout=120_000)
        # The first rounds compile.
        return statistics.median(json.loads(await body.get_attribute("data-speeds"))[2:])


def decoding(args):
    page = args.out / "decode-page"
    subprocess.run([ROOT / "clients/web/node_modules/.bin/vite", "build", HERE / "decode", "--base", "./", "--outDir", page, "--emptyOutDir",
                    "--target", "es2022", "--assetsInlineLimit", "0", "--logLevel", "warn"], check=True)
    with quarry_server(args.out / "data", page) as address:
        speeds = [asyncio.run(decode_in(args, address)) for _ in range(args.repeat)]
    return [("decoding of 256³ in one worker", {"viewer": speeds}, "MB/s", "500 MB/s")]


def page_size(args):
    """The bytes that a browser with SIMD loads, compressed as they are sent."""
    files = [path for path in PAGE.rglob("*.gz") if "scalar" not in path.name]
    return [("page without data, gzipped", {"viewer": [sum(path.stat().st_size for path in files) / 1e3]}, "kB", "300 kB")]


PARTS = {"pictures": pictures, "slow": slow_pictures, "bytes": bytes_of_a_view, "drag": dragging,
         "slow-drag": slow_dragging, "decode": decoding, "size": page_size}


# --- what they show


def make_pyramid(folder, field, tolerance):
    """As a Zarr of today holds it: levels by every 2nd sample, rounded so that Blosc compresses them, within the same error."""
    import numpy as np
    import zarr
    group = zarr.create_group(folder, overwrite=True)
    levels = []
    data = (np.round(field / (2 * tolerance)) * (2 * tolerance)).astype("<f4")
    while min(data.shape) >= 32:
        blosc = zarr.codecs.BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle")
        array = group.create_array(str(len(levels)), shape=data.shape, chunks=(PATCH,) * 3, dtype="f4", compressors=[blosc],
                                   dimension_names=["z", "y", "x"])
        array[:] = data
        levels.append({"path": str(len(levels)), "coordinateTransformations": [{"type": "scale", "scale": [2.0 ** len(levels)] * 3}]})
        data = data[::2, ::2, ::2]
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"name": "f", "axes": axes, "datasets": levels}]}


def prepare(args):
    from fields import random_field
    (args.out / "data").mkdir(parents=True, exist_ok=True)
    (args.out / "static").mkdir(exist_ok=True)
    for edge in (256, 512):
        done = args.out / f"{edge}.done"
        if done.exists():
            continue
        say(f"making a field of {edge}^3")
        field = random_field(1, edge, 3, -11.0 / 6.0).astype("<f4").reshape((edge,) * 3)
        raw = args.out / "field.raw"
        field.tofile(raw)
        command = [BIN / "quarry-write-single", raw, "--dims", "x".join([str(edge)] * 3), "--type", "float32", "--field", "f",
                   "--relative", RELATIVE, "--patch", PATCH, "--output", args.out / f"data/t{edge}.quarry"]
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
        raw.unlink()
        if edge == 256:
            make_pyramid(args.out / "static/256.zarr", field, float(RELATIVE * (field.max() - field.min())))
        done.touch()


def text_of(figures, unit):
    def text(value):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    if len(figures) == 1:
        return f"{text(figures[0])} {unit}"
    return f"{text(statistics.median(figures))} {unit} ({text(min(figures))} to {text(max(figures))})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--out", type=Path, default=ROOT / "build/benchmark-web")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    enter_environment()
    prepare(args)
    rows = []
    for part in args.parts:
        say(part)
        rows += PARTS[part](args)
    lines = [[what, reach, *(text_of(figures[name], unit) if name in figures else "" for name in ("viewer", "neuroglancer"))]
             for what, figures, unit, reach in rows]
    text = table(["", "reach", "viewer", "neuroglancer"], lines)
    (args.out / "results.json").write_text(json.dumps({"source": source_version(), "processor": processor()[0], "rows": rows}))
    (args.out / "tables.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
