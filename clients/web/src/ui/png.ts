import { captionOf } from "./captions";
import type { Shown, Viewed } from "./page";
import type { Stage } from "./stage";

/** Saves the pictures with axes, legend and caption as one PNG file. */
export async function savePng(page: Pick<Viewed, "state"> & Pick<Shown, "feeds">, stage: Stage): Promise<void> {
  const blob = await makePng(captionOf(page), stage);
  if (!blob) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${(page.state?.dataset ?? "quarry").replaceAll("/", "-")}-${page.state?.field ?? ""}.png`;
  link.click();
  // The browser needs the address until it has begun to save.
  setTimeout(() => {
    URL.revokeObjectURL(link.href);
  }, 60000);
}

function makePng(caption: string, stage: Stage): Promise<Blob | null> {
  const { width, height, ratio } = stage.renderStage();
  const line = 26;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round((height + line) * ratio)];
  const context = canvas.getContext("2d")!;
  context.fillStyle = stage.colours.background;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(stage.renderer.canvas, 0, Math.round(line * ratio));
  context.setTransform(ratio, 0, 0, ratio, 0, line * ratio);
  stage.drawOver(context);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = stage.colours.text;
  context.font = `600 13px ${stage.colours.font}`;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(caption, 10, line / 2 + 2, width - 20);
  return new Promise((resolve) => {
    canvas.toBlob(resolve, "image/png");
  });
}
