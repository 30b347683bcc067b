import type { Vec3, ViewState } from "../model";

export type Camera = ViewState["camera"];

/** Half of the height of the picture at a distance of one. */
export const kHalfHeight = Math.tan((30 * Math.PI) / 360);

/** An eye that looks at the middle of the box; z is up. `right` and `up` reach to the edges of the picture. */
export interface Eye {
  readonly at: Vec3;
  readonly right: Vec3;
  readonly up: Vec3;
  readonly ahead: Vec3;
}

function scaled(a: Vec3, s: number): Vec3 {
  return [a[0] * s, a[1] * s, a[2] * s];
}

export function dot(a: Vec3, b: Vec3): number {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/** The eye of a camera on a box, for a picture `aspect` times as wide as high. */
export function eyeOf(camera: Camera, extent: Vec3, aspect: number): Eye {
  const azimuth = (camera.azimuth * Math.PI) / 180;
  const elevation = (camera.elevation * Math.PI) / 180;
  const back: Vec3 = [Math.cos(elevation) * Math.cos(azimuth), Math.cos(elevation) * Math.sin(azimuth), Math.sin(elevation)];
  const right: Vec3 = [-Math.sin(azimuth), Math.cos(azimuth), 0];
  const up: Vec3 = [-Math.sin(elevation) * Math.cos(azimuth), -Math.sin(elevation) * Math.sin(azimuth), Math.cos(elevation)];
  // The narrower side decides, so that the box is whole on tall screens too.
  const wide = Math.min(1, aspect);
  const distance = (camera.distance * Math.hypot(...extent)) / wide;
  return {
    at: scaled(back, distance),
    right: scaled(right, kHalfHeight * aspect),
    up: scaled(up, kHalfHeight),
    ahead: scaled(back, -1),
  };
}

/** The least distance at which the whole box is in the picture, with some room around it for its labels. */
export function fittingDistance(camera: Camera, extent: Vec3, aspect: number): number {
  const wide = Math.min(1, aspect);
  for (let distance = 0.8; distance < 4; distance += 0.02) {
    const eye = eyeOf({ ...camera, distance }, extent, aspect);
    const inside = Array.from({ length: 8 }, (_, i) =>
      project(eye, [((i & 1) - 0.5) * extent[0], (((i >> 1) & 1) - 0.5) * extent[1], ((i >> 2) - 0.5) * extent[2]]),
    ).every((at) => at !== null && Math.abs(at[0]) < 0.84 * wide + 0.16 * (1 - wide) && Math.abs(at[1]) < 0.84);
    if (inside) return Math.round(distance * 100) / 100;
  }
  return 4;
}

/** Where a point is in the picture, from -1 to 1 to the right and upwards; null behind the eye. */
export function project(eye: Eye, point: Vec3): readonly [number, number] | null {
  const to: Vec3 = [point[0] - eye.at[0], point[1] - eye.at[1], point[2] - eye.at[2]];
  const depth = dot(to, eye.ahead);
  if (depth <= 1e-9) return null;
  return [dot(to, eye.right) / dot(eye.right, eye.right) / depth, dot(to, eye.up) / dot(eye.up, eye.up) / depth];
}

/** The camera after the pointer has moved, in pixels. */
export function turned(camera: Camera, dx: number, dy: number): Camera {
  const azimuth = (((camera.azimuth - dx * 0.4) % 360) + 360) % 360;
  return { ...camera, azimuth, elevation: Math.min(89, Math.max(-89, camera.elevation + dy * 0.4)) };
}

export function zoomed(camera: Camera, factor: number): Camera {
  return { ...camera, distance: Math.min(10, Math.max(0.3, camera.distance * factor)) };
}
