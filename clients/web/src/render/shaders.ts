/** One triangle over everything. */
export const kFullVertex = `#version 300 es
void main() {
  vec2 p = vec2(gl_VertexID == 1 ? 3. : -1., gl_VertexID == 2 ? 3. : -1.);
  gl_Position = vec4(p, 0., 1.);
}`;

/** Missing samples are hatched in grey, damaged patches have bright lines in the other direction. */
const kMarks = `
uniform vec3 uMissing;
uniform vec3 uBackground;
uniform float uPixel;
vec3 missing(vec2 at) {
  float line = step(fract((at.x - at.y) / (8. * uPixel)), 0.16);
  return mix(uMissing, mix(uMissing, vec3(0.5), 0.45), line);
}
vec3 damaged(vec3 colour, vec2 at) {
  float place = fract((at.x + at.y) / (12. * uPixel));
  return mix(colour, place < 0.125 ? vec3(1.) : vec3(0.05), step(place, 0.25) * 0.9);
}`;

/** The colour of a share of the range: tables begin and end in the middle of their first and last entry. */
const kColourOf = `
vec3 colourOf(float share) { return textureLod(uMaps, vec2((clamp(share, 0., 1.) * 255. + 0.5) / 256., uMap), 0.).rgb; }`;

/**
 * A composed slice. Level-0 indices of the columns and rows of pixels come from the page, which computes them with
 * doubles; so axes may be uneven. Samples are mixed here, not by the texture unit: missing ones must not take part.
 */
export const kSliceFragment = `#version 300 es
precision highp float;
precision highp int;
uniform sampler2D uSamples;
uniform sampler2D uColumns;
uniform sampler2D uRows;
uniform sampler2D uStates;
uniform sampler2D uMaps;
uniform ivec2 uOrigin;
uniform ivec2 uSize;
uniform vec2 uFirst;
uniform float uStep;
uniform vec2 uPatch;
uniform ivec2 uFirstPatch;
uniform ivec2 uPatchCount;
uniform vec2 uColour;
uniform float uMap;
out vec4 result;
${kMarks}
${kColourOf}
float sampleAt(ivec2 at) { return texelFetch(uSamples, clamp(at, ivec2(0), uSize - 1), 0).r; }
float mixed(float a, float b, float s) {
  if (a > -1e29 && b > -1e29) return mix(a, b, s);
  if (a < -1.5e30) return b;
  if (b < -1.5e30) return a;
  return s < 0.5 ? a : b;
}
void main() {
  ivec2 pixel = ivec2(gl_FragCoord.xy) - uOrigin;
  vec2 index = vec2(texelFetch(uColumns, ivec2(pixel.x, 0), 0).r, texelFetch(uRows, ivec2(pixel.y, 0), 0).r);
  ivec2 patchAt = clamp(ivec2(floor(max(index, 0.) / uPatch)) - uFirstPatch, ivec2(0), uPatchCount - 1);
  vec4 state = texelFetch(uStates, patchAt, 0);
  if (state.r == 0.) {
    result = vec4(uBackground, 1.);
    return;
  }
  vec2 at = clamp(index / uStep - uFirst, vec2(0.), vec2(uSize - 1));
  ivec2 base = ivec2(at);
  vec2 share = at - vec2(base);
  float low = mixed(sampleAt(base), sampleAt(base + ivec2(1, 0)), share.x);
  float high = mixed(sampleAt(base + ivec2(0, 1)), sampleAt(base + ivec2(1, 1)), share.x);
  float value = mixed(low, high, share.y);
  vec3 colour = value < -1e29 ? missing(gl_FragCoord.xy) : colourOf((value - uColour.x) * uColour.y);
  if (state.g > 0.5) colour = damaged(colour, gl_FragCoord.xy);
  result = vec4(colour, 1.);
}`;

/** Puts a finished picture on the screen. */
export const kCopyFragment = `#version 300 es
precision highp float;
uniform sampler2D uPicture;
uniform vec2 uOrigin;
uniform vec2 uScale;
out vec4 result;
void main() { result = vec4(texture(uPicture, (gl_FragCoord.xy - uOrigin) * uScale).rgb, 1.); }`;

/** At most this many levels of one volume are on the graphics card: the chosen one, and the next coarser ones. */
export const kVolumeLevels = 7;

/** Variant of the program for volumes: compilers take long for all of it at once, above all in software. */
export interface VolumeVariant {
  /** Textures that the volume has. */
  readonly levels: number;
  readonly mode: "ray" | "maximum" | "surface";
  /** With light on it. Surfaces have no shape without. */
  readonly shade: boolean;
}

/**
 * A ray through the levels. uPatches has for each patch the level that it shows (0: the finest of the textures), the level
 * that it shows next to coarser neighbours, and the largest and the least value around. Positions are level-0 indices.
 */
export function volumeFragment(variant: VolumeVariant): string {
  const levels = Array.from({ length: variant.levels }, (_, level) => level);
  return `#version 300 es
#define MAXIMUM ${Number(variant.mode === "maximum")}
#define SURFACE ${Number(variant.mode === "surface")}
#define SHADE ${Number(variant.shade)}
precision highp float;
precision highp int;
precision highp sampler3D;
${levels.map((level) => `uniform sampler3D uLevel${level};`).join("\n")}
uniform vec4 uLevelFirst[${kVolumeLevels}];
uniform vec3 uLevelSize[${kVolumeLevels}];
uniform sampler3D uPatches;
uniform sampler2D uPositions;
uniform sampler2D uMaps;
uniform float uMap;
uniform vec2 uColour;
uniform vec3 uEye, uRight, uUp, uAhead;
uniform vec2 uOrigin, uScale;
uniform vec3 uExtent;
uniform vec3 uIndexLow, uIndexHigh, uGrid;
uniform bool uUneven;
uniform vec3 uPatch, uFirstPatch, uPatchCount;
uniform float uThreshold, uOpacity, uStepScale, uFinestStep;
uniform vec3 uBackground;
uniform int uSteps;
uniform bool uSigned, uMasked;
out vec4 result;
vec3 positions(ivec3 i, int row) {
  return vec3(texelFetch(uPositions, ivec2(i.x, row), 0).x, texelFetch(uPositions, ivec2(i.y, row), 0).y,
              texelFetch(uPositions, ivec2(i.z, row), 0).z);
}
vec3 indexOf(vec3 p) {
  vec3 f = clamp(p / uExtent + 0.5, 0., 1.);
  if (!uUneven) return mix(uIndexLow, uIndexHigh, f);
  vec3 at = f * 1023.;
  ivec3 i = min(ivec3(at), ivec3(1022));
  return mix(positions(i, 0), positions(i + 1, 0), at - vec3(i));
}
// Where patches begin, as shares of the box.
vec3 border(vec3 place) {
  ivec3 i = min(ivec3(place), ivec3(1023));
  return positions(i, 1) - 0.5;
}
vec2 texel(int level, vec3 index) {
  vec3 at = (index * uLevelFirst[level].w - uLevelFirst[level].xyz + 0.5) * uLevelSize[level];
${levels.map((level) => `  if (level == ${level}) return textureLod(uLevel${level}, at, 0.).rg;`).join("\n")}
  return vec2(0.);
}
vec4 patchOf(vec3 index, out vec3 place) {
  place = clamp(floor(index / uPatch) - uFirstPatch, vec3(0.), uPatchCount - 1.);
  return texelFetch(uPatches, ivec3(place), 0);
}
int levelOf(vec4 patchState, vec3 index, vec3 place) {
  int level = int(patchState.r * 255. + 0.5);
  int beside = int(patchState.g * 255. + 0.5);
  if (level == beside) return level;
  float size = 1. / uLevelFirst[level].w;
  vec3 next = (floor(index / size) + 1.) * size;
  return any(greaterThanEqual(next, (place + uFirstPatch + 1.) * uPatch)) ? beside : level;
}
// Colour range 0 to 1, and whether a sample is there.
vec2 valueAt(vec3 index, vec4 patchState, vec3 place) {
  vec2 t = texel(levelOf(patchState, index, place), index);
  if (!uMasked) t.g = 1.;
  if (t.g < 0.5) return vec2(0.);
  return vec2((t.r / t.g - uColour.x) * uColour.y, 1.);
}
float weight(float value) {
  float v = clamp(value, 0., 1.);
  return uSigned ? abs(2. * v - 1.) : v;
}
${kColourOf}
float fieldAt(vec3 p) {
  vec3 place;
  vec3 index = clamp(indexOf(p), vec3(0.), uGrid - 1.);
  vec4 patchState = patchOf(index, place);
  if (patchState.r > 0.99) return 0.;
  vec2 v = valueAt(index, patchState, place);
  return v.y == 0. ? 0. : weight(v.x);
}
#if SHADE
// Brightness of a sample: light falls on the faces that look to the eye. Slopes are taken to the next samples, within the patch.
float lit(vec3 index, vec4 patchState, vec3 place, float here, vec3 perIndex, vec3 ahead) {
  vec3 g = vec3(0.);
  // A loop, not three lines: what is in it is compiled once.
  for (int axis = 0; axis < 3; ++axis) {
    vec3 one = vec3(axis == 0, axis == 1, axis == 2);
    vec2 v = valueAt(index + one * uFinestStep, patchState, place);
    g += one * (v.y == 0. ? -here : weight(v.x) - here);
  }
  g *= perIndex;
  float size = length(g);
  if (size < 1e-6) return 0.8;
  vec3 light = normalize(-ahead + 0.6 * uUp / length(uUp) - 0.35 * uRight / length(uRight));
  return 0.35 + 0.65 * abs(dot(g / size, light));
}
float litAt(vec3 p, vec3 ahead, vec3 perIndex) {
  vec3 place;
  vec3 index = clamp(indexOf(p), vec3(0.), uGrid - 1.);
  vec4 patchState = patchOf(index, place);
  return lit(index, patchState, place, weight(valueAt(index, patchState, place).x), perIndex, ahead);
}
#endif
float dither(vec2 p) { return fract(52.9829189 * fract(dot(p, vec2(0.06711056, 0.00583715)))); }
void main() {
  vec2 screen = (gl_FragCoord.xy - uOrigin) * uScale - 1.;
  vec3 ahead = normalize(uAhead + screen.x * uRight + screen.y * uUp);
  vec3 slope = 1. / (ahead + vec3(equal(ahead, vec3(0.))) * 1e-9);
  vec3 a = (-0.5 * uExtent - uEye) * slope;
  vec3 b = (0.5 * uExtent - uEye) * slope;
  float near = max(max(max(min(a.x, b.x), min(a.y, b.y)), min(a.z, b.z)), 0.);
  float far = min(min(max(a.x, b.x), max(a.y, b.y)), max(a.z, b.z));
  result = vec4(uBackground, 1.);
  if (near >= far) return;
  vec3 perIndex = (uIndexHigh - uIndexLow) / uExtent;
  float rate = length(ahead * perIndex) / uFinestStep;
  float stepSize = max(uStepScale / max(rate, 1e-6), (far - near) / float(uSteps));
  float reference = length(uExtent) / 90.;
  float best = -1.;
  float bestValue = 0.;
  float before = -1.;
  float valueBefore = 0.;
  float sum = 0.;
  vec3 colour = vec3(0.);
  float t = near + stepSize * (SHADE == 1 ? 0.6 : 1.) * dither(gl_FragCoord.xy);
  for (int i = 0; i < uSteps; ++i) {
    if (t >= far) break;
    vec3 p = uEye + ahead * t;
    vec3 place;
    vec3 index = clamp(indexOf(p), vec3(0.), uGrid - 1.);
    vec4 patchState = patchOf(index, place);
    vec2 range = (patchState.ba - uColour.x) * uColour.y;
    float top = uSigned ? max(abs(2. * range.x - 1.), abs(2. * range.y - 1.)) : range.x;
    float least = MAXIMUM == 1 ? best : uThreshold;
    if (patchState.r > 0.99 || top < least) {
      before = -1.;
      vec3 end = max((border(place) * uExtent - uEye) * slope, (border(place + 1.) * uExtent - uEye) * slope);
      t += max(ceil((min(min(end.x, end.y), end.z) - t) / stepSize), 1.) * stepSize;
      continue;
    }
    vec2 v = valueAt(index, patchState, place);
    float w = v.y == 0. ? -1. : weight(v.x);
#if MAXIMUM
    if (w > best) {
      best = w;
      bestValue = v.x;
    }
#elif SURFACE
    if (w >= uThreshold) {
      float from = t - stepSize;
      float to = t;
      if (before >= 0.) for (int k = 0; k < 5; ++k) {
        float middle = 0.5 * (from + to);
        if (fieldAt(uEye + ahead * middle) >= uThreshold) to = middle;
        else from = middle;
      }
      colour = colourOf(v.x) * (before < 0. ? 0.85 : litAt(uEye + ahead * to, ahead, perIndex));
      sum = 1.;
      break;
    }
#else
    if (max(w, before) > uThreshold && w >= 0.) {
      // Both ends of the step count, and of it only the part above the threshold: so thin shells have no grain.
      float old = before < 0. ? w : before;
      float most = max(w, old);
      float inside = clamp((most - uThreshold) / max(abs(w - old), 1e-6), 0., 1.);
      float x = (0.5 * (most + max(min(w, old), uThreshold)) - uThreshold) / max(1. - uThreshold, 1e-3);
      float alpha = uOpacity * uOpacity * smoothstep(0., 0.6, x);
      alpha = 1. - pow(1. - min(alpha, 0.999), inside * stepSize / reference);
      if (alpha > 1e-4) {
        vec3 c = colourOf(before < 0. ? v.x : 0.5 * (v.x + valueBefore));
#if SHADE
        if (alpha > 0.01) c *= mix(0.85, lit(index, patchState, place, w, perIndex, ahead) * 1.12, 0.75);
#endif
        colour += (1. - sum) * alpha * min(c, 1.);
        sum += (1. - sum) * alpha;
        if (sum > 0.985) break;
      }
    }
#endif
    before = w;
    valueBefore = v.x;
    t += stepSize;
  }
#if MAXIMUM
  float share = 0.25 * smoothstep(0., 0.12, best) + 0.75 * smoothstep(uThreshold * 0.5, uThreshold + 0.05, best);
  if (best >= 0.) result = vec4(mix(uBackground, colourOf(bestValue), share), 1.);
#else
  result = vec4(colour + uBackground * (1. - sum), 1.);
#endif
}`;
}
