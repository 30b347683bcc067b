/** A browser on the page of computed fields, and what tests ask of it. */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname } from "node:path";
import { chromium } from "playwright-core";
import type { Browser, Page } from "playwright-core";
import type { Source } from "../../src/model";
import type { App } from "../../src/ui/app";

const kPage = `${import.meta.dirname}/../../build/test-page`;
const kTypes: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};
/** As the server has it. */
const kPolicy =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; "
  + "connect-src 'self'; worker-src 'self'";
const kFlags = [
  "--no-sandbox",
  "--disable-gpu",
  "--use-angle=swiftshader",
  "--enable-unsafe-swiftshader",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

declare global {
  interface Window {
    app: App;
    fake: Source & { publish(dataset: string): void };
  }
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export class Viewer {
  readonly complaints: string[] = [];
  private constructor(
    private readonly server: Server,
    readonly browser: Browser,
  ) {}

  static async start(): Promise<Viewer> {
    const server = createServer((request, response) => {
      const path = new URL(request.url ?? "/", "http://localhost").pathname;
      readFile(kPage + (path === "/" ? "/index.html" : path)).then(
        (body) => {
          response
            .writeHead(200, { "content-type": kTypes[extname(path)] ?? "text/html", "content-security-policy": kPolicy })
            .end(body);
        },
        () => {
          response.writeHead(404).end();
        },
      );
    });
    await new Promise<void>((done) => {
      server.listen(0, "127.0.0.1", done);
    });
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: kFlags });
    return new Viewer(server, browser);
  }

  async open(
    link: string,
    options: { readonly query?: string; readonly size?: Size; readonly dark?: boolean } = {},
  ): Promise<Page> {
    const context = await this.browser.newContext({
      viewport: options.size ?? { width: 620, height: 560 },
      colorScheme: options.dark === false ? "light" : "dark",
    });
    const page = await context.newPage();
    page.setDefaultTimeout(600_000);  // a longer wait is a hang
    page.on("pageerror", (error) => this.complaints.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error") this.complaints.push(message.text());
    });
    await page.goto(`http://127.0.0.1:${(this.server.address() as AddressInfo).port}/?${options.query ?? ""}${link}`);
    return page;
  }

  async stop(): Promise<void> {
    await this.browser.close();
    await new Promise((done) => this.server.close(done));
  }
}

/** Everything has arrived, and nothing is left to draw. */
export async function settled(page: Page): Promise<void> {
  await page.waitForFunction(
    () => {
      const { app } = window;
      const { a } = app.feeds;
      return (
        a !== null
        && app.latest === a
        && a.status.state === "settled"
        && a.selection.step === app.steps.wanted
        && app.stage.renderer.settled
      );
    },
    undefined,
    { polling: 50 },
  );
}

export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** Red, green, blue, alpha; from the left top. */
  readonly data: Uint8Array;
}

/** Pixels of a pane's samples, without the lines over them. */
export async function pixelsOf(page: Page, key: string): Promise<Pixels> {
  return page
    .evaluate((wanted) => {
      const { stage } = window.app;
      const view = stage.shown.find((each) => each.key === wanted)!;
      const plot = view.kind === "slice" ? view.geometry.plot : view.plot;
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [plot.width, plot.height];
      const context = canvas.getContext("2d")!;
      context.drawImage(stage.renderer.canvas, -plot.x, -plot.y);
      // As text, which goes between the processes many times faster than an array.
      let text = "";
      for (const byte of context.getImageData(0, 0, plot.width, plot.height).data) text += String.fromCharCode(byte);
      return { width: plot.width, height: plot.height, text: btoa(text) };
    }, key)
    .then(({ width, height, text }) => ({ width, height, data: Buffer.from(text, "base64") }));
}

/** The largest difference of any colour of any pixel. */
export function farthest(a: Pixels, b: Pixels): number {
  if (a.width !== b.width || a.height !== b.height) return Infinity;
  return a.data.reduce((most: number, value, i) => Math.max(most, Math.abs(value - b.data[i]!)), 0);
}
