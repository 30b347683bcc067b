"""The pictures that a person sees in a browser, with the time of each picture: the same measure for every page."""

import asyncio
import base64
import io
import time

import numpy as np
from PIL import Image
from playwright.async_api import async_playwright

# Graphics in software, also where there is a graphics card: the same on every machine.
FLAGS = ["--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-quic",
         "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
BLOCK = 8
# A picture is like the last one from this correlation on, and the same where no block of pixels differs by more.
LIKE, SAME = 0.7, 3.0


class Browser:
    """A fresh browser with an empty cache and one page of the size."""

    def __init__(self, executable, size):
        self._executable, self._size = executable, size

    async def __aenter__(self):
        self._playwright = await async_playwright().start()
        self._browser = await self._playwright.chromium.launch(executable_path=self._executable, args=FLAGS)
        width, height = self._size
        context = await self._browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark")
        self.page = await context.new_page()
        # The process of the page is there, as it is in a browser that is open.
        await self.page.goto("about:blank")
        return self

    async def __aexit__(self, *error):
        await self._browser.close()
        await self._playwright.stop()


class Recording:
    """All pictures of a page from now on. Times are seconds since `begin`."""

    def __init__(self, page):
        self.page, self.frames = page, []

    async def __aenter__(self):
        self._session = await self.page.context.new_cdp_session(self.page)
        self._session.on("Page.screencastFrame", self._frame)
        await self._session.send("Page.startScreencast", {"format": "jpeg", "quality": 80, "everyNthFrame": 1})
        self.begin = time.time()
        return self

    async def __aexit__(self, *error):
        await self._session.detach()

    def _frame(self, event):
        self.frames.append((event["metadata"]["timestamp"] - self.begin, event["data"]))
        asyncio.ensure_future(self._session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]}))

    async def quiet(self, seconds=2.0, most=120.0):
        """Waits until nothing has changed on screen for a while."""
        deadline = time.time() + most
        while time.time() < deadline:
            last = self.begin + self.frames[-1][0] if self.frames else self.begin
            if time.time() - last > seconds:
                return
            await asyncio.sleep(0.1)
        raise TimeoutError(f"the page still changes after {most} s")

    def pictures(self, region, begin=0.0):
        """(seconds since `begin`, blocks of the region as [y, x, colour]) of each picture. region: x, y, width, height."""
        x, y, width, height = region
        out = []
        for at, data in self.frames:
            if at < begin:
                continue
            image = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"), dtype=np.float32)
            part = image[y:y + height // BLOCK * BLOCK, x:x + width // BLOCK * BLOCK]
            blocks = part.reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK, 3).mean((1, 3))
            out.append((at - begin, blocks))
        return out


def likeness(blocks, last):
    """Correlation of two pictures; 0 where one of them is even."""
    a, b = blocks - blocks.mean((0, 1)), last - last.mean((0, 1))
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale > 0 else 0.0


def first_picture(pictures):
    """Seconds until what is on screen is like the last picture."""
    last = pictures[-1][1]
    return next(at for at, blocks in pictures if likeness(blocks, last) >= LIKE)


def settled(pictures):
    """Seconds until nothing changes any more that could be seen."""
    last, at = pictures[-1][1], pictures[-1][0]
    for time_, blocks in reversed(pictures):
        if np.abs(blocks - last).max() > SAME:
            return at
        at = time_
    return at
