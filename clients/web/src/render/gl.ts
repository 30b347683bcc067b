/** The little of WebGL2 that the pictures need. */

export type Gl = WebGL2RenderingContext;

export class GlError extends Error {}

/** A program that compiles while other things are done. Its first use waits for it. @throws GlError then */
export interface Program {
  readonly handle: WebGLProgram;
  /** Place of a uniform; null where the compiler has removed it. */
  readonly at: (name: string) => WebGLUniformLocation | null;
}

function compile(gl: Gl, kind: number, text: string): WebGLShader {
  const shader = gl.createShader(kind);
  if (!shader) throw new GlError("cannot make a shader: the graphics context is lost");
  gl.shaderSource(shader, text);
  gl.compileShader(shader);
  return shader;
}

export function makeProgram(gl: Gl, vertex: string, fragment: string): Program {
  const handle = gl.createProgram();
  const shaders = [compile(gl, gl.VERTEX_SHADER, vertex), compile(gl, gl.FRAGMENT_SHADER, fragment)];
  for (const shader of shaders) gl.attachShader(handle, shader);
  gl.linkProgram(handle);
  let linked = false;
  const link = (): void => {
    if (linked || gl.isContextLost()) return;
    if (!gl.getProgramParameter(handle, gl.LINK_STATUS)) {
      const log = [gl.getProgramInfoLog(handle), ...shaders.map((shader) => gl.getShaderInfoLog(shader))].join(" ");
      throw new GlError(`cannot link a shader program: ${log}`);
    }
    linked = true;
  };
  const places = new Map<string, WebGLUniformLocation | null>();
  const at = (name: string): WebGLUniformLocation | null => {
    link();
    if (!places.has(name)) places.set(name, gl.getUniformLocation(handle, name));
    return places.get(name) ?? null;
  };
  return { handle, at };
}

/** Unit of textures that are made or filled: none that is drawn from. */
const kEditUnit = 15;

/** Binds a texture to make or fill it. Those that are bound for drawing stay. */
export function edit(gl: Gl, target: number, texture: WebGLTexture | null): void {
  gl.activeTexture(gl.TEXTURE0 + kEditUnit);
  gl.bindTexture(target, texture);
}

export interface TextureOptions {
  readonly format: number;
  readonly linear: boolean;
}

function setUp(gl: Gl, target: number, linear: boolean): WebGLTexture {
  const texture = gl.createTexture();
  edit(gl, target, texture);
  const filter = linear ? gl.LINEAR : gl.NEAREST;
  gl.texParameteri(target, gl.TEXTURE_MIN_FILTER, filter);
  gl.texParameteri(target, gl.TEXTURE_MAG_FILTER, filter);
  for (const wrap of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T, gl.TEXTURE_WRAP_R])
    if (wrap !== gl.TEXTURE_WRAP_R || target === gl.TEXTURE_3D) gl.texParameteri(target, wrap, gl.CLAMP_TO_EDGE);
  return texture;
}

export function texture2d(gl: Gl, options: TextureOptions, width: number, height: number): WebGLTexture {
  const texture = setUp(gl, gl.TEXTURE_2D, options.linear);
  gl.texStorage2D(gl.TEXTURE_2D, 1, options.format, width, height);
  return texture;
}

export function texture3d(gl: Gl, options: TextureOptions, width: number, height: number, depth: number): WebGLTexture {
  const texture = setUp(gl, gl.TEXTURE_3D, options.linear);
  gl.texStorage3D(gl.TEXTURE_3D, 1, options.format, width, height, depth);
  return texture;
}

export function bind(gl: Gl, unit: number, target: number, texture: WebGLTexture | null): void {
  gl.activeTexture(gl.TEXTURE0 + unit);
  gl.bindTexture(target, texture);
}

/** A picture outside of the screen. */
export class Target {
  readonly texture: WebGLTexture;
  readonly frame: WebGLFramebuffer;

  constructor(
    private readonly gl: Gl,
    readonly width: number,
    readonly height: number,
  ) {
    this.texture = texture2d(gl, { format: gl.RGBA8, linear: true }, width, height);
    this.frame = gl.createFramebuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, this.texture, 0);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  }

  free(): void {
    this.gl.deleteFramebuffer(this.frame);
    this.gl.deleteTexture(this.texture);
  }
}

/** Software in place of a graphics card: pictures are made with fewer samples. */
export function isSoftware(gl: Gl): boolean {
  const debug = gl.getExtension("WEBGL_debug_renderer_info");
  const name: unknown = debug ? gl.getParameter(debug.UNMASKED_RENDERER_WEBGL) : gl.getParameter(gl.RENDERER);
  return typeof name === "string" && /swiftshader|llvmpipe|software|basic render/i.test(name);
}
