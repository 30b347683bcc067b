"""A proof that docs/format.md is enough to decode `interpolate`.

Encodes patches with the library (encode_patch), decodes their payloads with interpolate_decoder.py, and compares
every sample of every level bit by bit with what the library decodes. It also compares samples with the tolerance. The
patches cover every form of a level, and every part of each form; the test fails when one does not occur.

Environment: ENCODE_PATCH, the program; default: build/release/bin/encode_patch
"""

import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from interpolate_decoder import SEEN, Damaged, first_planes, level_shape, patch_decoder, safeguarded_decoder

REPOSITORY = Path(__file__).resolve().parents[2]
ENCODE_PATCH = os.environ.get("ENCODE_PATCH") or REPOSITORY / "build" / "release" / "bin" / "encode_patch"


def waves(shape, seed, noise=0.0):
    """A smooth field of range about 2, [z, y, x]."""
    random = np.random.default_rng(seed)
    z, y, x = np.meshgrid(*[np.arange(n) for n in shape[::-1]], indexing="ij")
    field = np.zeros(shape[::-1])
    for _ in range(6):
        k = random.normal(size=3) * 0.25
        field += np.sin(k[0] * x + k[1] * y + k[2] * z + random.uniform(0, 6)) / 6
    return field + noise * random.normal(size=field.shape)


def ball(shape, radius):
    """True outside of a ball in the middle."""
    z, y, x = np.meshgrid(*[np.arange(n) - n / 2.2 for n in shape[::-1]], indexing="ij")
    return x * x + y * y + z * z > radius * radius


def cases():
    """(name, samples [z, y, x], levels, tolerance, mask or None)"""
    shapes = ((9, 7, 5), (33, 17, 1), (1, 40, 1), (31, 1, 12), (1, 1, 77), (16, 16, 16), (2, 3, 2), (1, 1, 1))
    for n, shape in enumerate(shapes):
        field = waves(shape, n, 0.02)
        most = len(level_sizes(shape))
        for tolerance, dtype, levels in ((1e-1, "float32", 1), (1e-3, "float64", most + 1), (1e-6, "float32", 2), (1e-9, "float64", 3), (0, "float32", 2)):
            yield f"{shape} {dtype} {tolerance}", field.astype(dtype), levels, 2 * tolerance, None
    large = waves((33, 32, 31), 20)
    for tolerance in (1e-1, 1e-2, 1e-3, 1e-5, 1e-7):
        yield f"smooth {tolerance}", large.astype("float32"), 3, tolerance, None
    for tolerance in (1e-4, 1e-6, 1e-9, 1e-12):
        yield f"noisy {tolerance}", waves((20, 21, 22), 21, 0.1), 4, tolerance, None

    front = np.where(ball((40, 24, 20), 9), 0, 1) + np.where(ball((40, 24, 20), 4), 0, waves((40, 24, 20), 3, 0.05))
    yield "front", front.astype("float32"), 2, 1e-3, None
    rough = waves((24, 20, 16), 22, 0.001)
    rough[:, :, ::7] += 1000
    yield "spikes", rough, 3, 1e-3, None
    rare = waves((24, 20, 16), 23)
    rare[4, 5, 6], rare[10, 11, 12], rare[15, 15, 15] = 1e6, -7e5, 3e3
    yield "outliers", rare.astype("float32"), 3, 0.5, None
    yield "huge outliers", (1e20 * (np.abs(rare) > 100) * np.sign(rare) + waves((24, 20, 16), 23)).astype("float64"), 2, 1e-2, None
    stripes = waves((25, 24, 23), 24)
    stripes += np.random.default_rng(1).normal(size=(1, 24, 1)) + 0.3 * np.random.default_rng(2).normal(size=(23, 1, 1))
    for tolerance in (1e-2, 1e-4):
        yield f"unlike axes {tolerance}", stripes, 2, tolerance, None
    yield "large numbers", (1e300 * waves((9, 9, 9), 25)), 2, 1e296, None
    yield "largest numbers", np.sign(waves((8, 8, 8), 26)).astype("float32") * np.finfo("float32").max, 2, 1e30, None
    yield "small numbers", (1e-310 * waves((9, 9, 9), 27)), 2, 1e-314, None
    yield "small step", (1e-20 * waves((9, 9, 9), 27)).astype("float32"), 2, 1e-23, None

    yield "constant", np.full((4, 5, 6), 3.25, "float32"), 3, 1e-3, None
    yield "zeros of both signs", np.where(ball((6, 5, 4), 2), 0.0, -0.0).astype("float32"), 2, 0, None
    yield "lattice", (np.round(20 * waves((17, 16, 15), 28)) / 8).astype("float32"), 3, 1e-3, None
    yield "lattice of float64", np.round(1e6 * waves((17, 16, 15), 29)) * 4, 3, 0, None
    for dtype in ("float32", "float64"):
        for tolerance in (1e-3, 2.2e-2, 0.4):
            yield f"decimals {dtype} {tolerance}", (np.round(4000 * waves((17, 16, 15), 28)) / 100).astype(dtype), 3, tolerance, None
        packed = np.round(20000 * waves((17, 16, 15), 29)) * float(np.float32(0.00153)) + 273.15
        yield f"packed {dtype}", packed.astype(dtype), 2, 1e-3, None
        yield f"masked decimals {dtype}", np.round(waves((17, 16, 15), 28), 3).astype(dtype), 2, 1e-4, ball((17, 16, 15), 6)
    for dtype, scale in (("uint8", 60), ("int8", 60), ("int16", 9000), ("uint16", 20000), ("int32", 9e8), ("uint32", 1.5e9)):
        middle = scale * 1.2 if dtype.startswith("u") else 0
        values = np.round(scale * waves((19, 18, 13), 30, 0.01) + middle)
        for tolerance in (0, 1, 0.04 * scale):
            yield f"{dtype} {tolerance}", values.astype(dtype), 3, tolerance, None
    # Predictions outside of the whole numbers that are exact, and between -0.5 and 0 in an exact level.
    yield "lattice of noise", np.random.default_rng(9).integers(-2**20 + 1, 2**20, (12, 12, 12)).astype("float32"), 2, 0, None
    noise = np.random.default_rng(10).integers(-2**31, 2**31, (12, 12, 12))
    noise[:, :, 6:] >>= 31
    yield "int32 of noise", noise.astype("int32"), 2, 0, None
    extreme = np.where(waves((12, 12, 12), 31) > 0, 2**31 - 1, -2**31).astype("int32")
    yield "int32 from end to end", extreme, 2, 3, None

    for dtype in ("float32", "float64", "uint8", "int16"):
        field = 100 * waves((30, 22, 18), 40, 0.02) + 120
        for tolerance in (0, 1e-9, 1, 10):
            mask = ball((30, 22, 18), 7 if tolerance else 12)
            yield f"masked {dtype} {tolerance}", field.astype(dtype), 2, tolerance, mask
    yield "sparse", waves((20, 20, 20), 41).astype("float32"), 3, 1e-4, np.random.default_rng(5).random((20, 20, 20)) < 0.02
    signs = np.where(ball((40, 8, 8), 14), waves((40, 8, 8), 43, 0.1), -0.0)
    signs[:2], signs[:, :3] = -0.0, -0.0
    for tolerance in (0, 1e-12, 1e-3):
        yield f"negative zeros {tolerance}", signs, 2, tolerance, None
        yield f"masked negative zeros {tolerance}", signs, 2, tolerance, np.random.default_rng(6).random((8, 8, 40)) < 0.8
    sparse = np.random.default_rng(7).random((5, 5, 5))
    coarse = np.ones((5, 5, 5), bool)
    coarse[::4, ::4, ::4], sparse[0, 0, 0] = False, -0.0
    coarse[0, 0, 0] = True
    yield "zero among missing ones, then exact", sparse, 1, 1e-12, coarse
    yield "more levels than the ratio falls", np.cumsum(np.random.default_rng(8).normal(size=(1, 1, 700))).reshape(1, 1, 700), 4, 4.0, None
    first = np.ones((7, 8, 9), bool)
    first[0, 0, 0] = False
    yield "first is missing", waves((9, 8, 7), 42).astype("float32"), 4, 1e-2, first
    first = np.zeros((7, 8, 9), bool)
    first[6, 7, 8] = first[6, 7, 7] = True
    yield "two are valid", waves((9, 8, 7), 42).astype("float32"), 4, 1e-2, first


def repeating(shape, axes, seed, noise=0.0):
    """A field that does not depend on some axes, but for noise. [z, y, x]"""
    field = first_planes(waves(shape, seed, 0.01), axes)
    return field + noise * np.random.default_rng(seed).uniform(-1, 1, shape[::-1])


def repeating_cases():
    """The same, of patches that repeat, with the tolerances of several layers."""
    for n, axes in enumerate(((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))):
        shape = (17 + n, 16, 15 - n)
        field = repeating(shape, axes, 90 + n)
        yield f"repeats along {axes}", field.astype("float32"), 3, (1e-3,), None
        yield f"repeats along {axes} in layers", field, 2, (1e-2, 1e-5, 0), None
        yield f"repeats along {axes} of bytes", np.round(100 * field + 120).astype("uint8"), 4, (3,), None
        middle = tuple(slice(n // 2, n // 2 + 1) if axis in axes else slice(None) for axis, n in zip((2, 1, 0), shape[::-1]))
        for tolerances in ((1e-3,), (1e-2, 1e-4, 0)):
            yield f"repeats along {axes} with a mask", field.astype("float32"), 2, tolerances, ball(shape, 3)[middle] & np.ones(shape[::-1], bool)
        yield f"repeats along {axes}, its mask does not", field, 3, (1e-2, 1e-4), ball(shape, 6)
        yield f"repeats along {axes} with noise", repeating(shape, axes, 90 + n, 3e-4), 2, (1e-3,), None
        yield f"repeats along {axes} with noise in layers, masked", repeating(shape, axes, 90 + n, 1e-4).astype("float32"), 2, (1e-2, 1e-3), ball(shape, 6)
    few = np.random.default_rng(30).choice(1e5 + waves((5, 2, 1), 3).ravel(), (16, 15, 1)).astype("float32") * np.ones((1, 1, 14), "float32")
    yield "repeats, lossless, then an empty layer", few, 2, (0.5, 1e-3, 0), None
    yield "repeats within the tolerance everywhere", 1 + 1e-4 * waves((9, 8, 7), 3), 3, (1e-3,), None


def level_sizes(shape):
    sizes = [list(shape)]
    while sizes[-1] != [1, 1, 1]:
        sizes.append(level_shape(shape, len(sizes)))
    return sizes


def layered_cases():
    """The same, with the tolerances of several layers."""
    for n, shape in enumerate(((9, 7, 5), (33, 17, 1), (1, 1, 77), (1, 1, 1), (24, 23, 22))):
        field = waves(shape, 50 + n, 0.01)
        yield f"layers {shape} float32", field.astype("float32"), 2, (0.1, 1e-3), None
        yield f"layers {shape} float64", field, 3, (0.1, 1e-2, 1e-6, 0), None
        yield f"layers {shape}, then exact", field.astype("float32"), 1, (1e-2, 1e-4, 0), None
        yield f"layers {shape} of bytes", np.round(100 * field + 120).astype("uint8"), 2, (9, 2, 0), None
    large = waves((33, 32, 31), 20)
    yield "layers, smooth", large.astype("float32"), 3, (1e-2, 1e-4, 1e-6), None
    # So large that tables of exact samples are worth their bytes.
    larger = waves((45, 44, 43), 21, 0.01).astype("float32")
    yield "layers, then exact in tables", larger, 1, (1e-2, 1e-4, 0), None
    yield "layers, masked, then exact in tables", larger, 1, (1e-3, 0), ball((45, 44, 43), 9)
    yield "layers, masked", waves((30, 22, 18), 40, 0.02).astype("float32"), 2, (0.05, 1e-3, 0), ball((30, 22, 18), 7)
    yield "layers, masked bytes", np.round(100 * waves((30, 22, 18), 40) + 120).astype("uint8"), 2, (20, 1), ball((30, 22, 18), 7)
    decimals = np.round(4000 * waves((17, 16, 15), 28)) / 100
    for dtype in ("float32", "float64"):
        yield f"layers, decimals {dtype}", decimals.astype(dtype), 3, (0.5, 0.02, 1e-3), None
        yield f"layers, an exact one of decimals {dtype}", decimals.astype(dtype), 3, (0.5, 1e-3, 0), None
    yield "layers, lattice", (np.round(20 * waves((17, 16, 15), 28)) / 8).astype("float32"), 3, (1.3, 0.13, 1e-3, 0), None
    yield "layers, constant", np.full((4, 5, 6), 3.25, "float32"), 3, (1e-1, 1e-3), None
    signs = np.where(ball((16, 15, 14), 3), np.where(ball((16, 15, 14), 5), 1.5, 0.0), -0.0)
    yield "layers, zeros of both signs", signs, 2, (0.25, 0), None
    narrow = waves((45, 44, 43), 21, 0.01).astype("float32").astype("float64")
    yield "layers of float32 in float64, then exact", narrow, 2, (1e-2, 1e-4, 0), None
    yield "layers of float32 in float64, masked", narrow, 1, (1e-3, 0), ball((45, 44, 43), 9)
    few = np.random.default_rng(30).choice(1e5 + waves((5, 2, 1), 3).ravel(), (16, 15, 14)).astype("float32")
    yield "layers, an empty one after lossless", few, 2, (0.5, 1e-3, 0), None
    yield "layers, masked, lossless last", few, 2, (0.5, 0), ball((14, 15, 16), 5)
    yield "layers, an exact one of few numbers", np.random.default_rng(29).choice(waves((5, 2, 1), 3).ravel(), (16, 15, 14)), 2, (0.3, 0), None
    repeated = np.sinh(np.round(300 * waves((24, 22, 20), 60)) / 100)
    repeated[5:9, 5:9] = np.where(repeated[5:9, 5:9] < 0, -0.0, 0.0)
    yield "layers, numbers that repeat", repeated, 3, (0.1, 1e-3, 0), None
    yield "layers, numbers that repeat, float32", repeated.astype("float32"), 6, (0.3, 0, 0), None
    yield "layers, masked, numbers that repeat", repeated, 7, (0.03, 0), ball((24, 22, 20), 5)
    unpacked = np.round(4000 * waves((24, 22, 20), 61)).astype("float32") * np.float32(1e-3) - np.float32(10)
    yield "layers, an exact one of unpacked numbers", unpacked, 2, (1e-2, 0), None
    rare = waves((24, 20, 16), 23)
    rare[4, 5, 6], rare[10, 11, 12], rare[15, 15, 15] = 1e6, -7e5, 3e3
    yield "layers, outliers", rare.astype("float32"), 3, (0.5, 0.2), None
    yield "layers, largest numbers", np.sign(waves((8, 8, 8), 26)).astype("float32") * np.finfo("float32").max, 2, (1e36, 1e30), None


def safeguarded_cases():
    """(name, coder, samples [z, y, x], levels, tolerance, mask or None)"""
    for n, shape in enumerate(((9, 7, 5), (33, 17, 1), (1, 1, 77), (16, 16, 16))):
        field = waves(shape, 70 + n, 0.02)
        holes = np.where(ball(shape, 3), field, 0)
        for dtype in ("float32", "float64"):
            for coder, tolerance in (("interpolate-zeros", 1e-2), ("interpolate-signs", 0.3), ("interpolate-relative", 1e-3)):
                yield f"{coder} {shape} {dtype}", coder, holes.astype(dtype), 2, tolerance, None
                yield f"{coder} {shape} {dtype} without zeros", coder, np.exp(field).astype(dtype), 2, tolerance, None
        yield f"signs {shape} of int16", "interpolate-signs", np.round(300 * holes).astype("int16"), 3, 80, None
        yield f"zeros {shape} of bytes", "interpolate-zeros", np.round(np.abs(100 * holes)).astype("uint8"), 2, 9, None
        # Zeros and signs repeat as well.
        holes = np.where(first_planes(ball(shape, 3), (0,)), repeating(shape, (0,), 75 + n), 0)
        for coder, tolerance in (("interpolate-zeros", 1e-2), ("interpolate-signs", 0.3), ("interpolate-relative", 1e-3)):
            yield f"{coder} {shape}, repeated", coder, holes, 2, tolerance, None
    # Only zeros are the same along an axis; the others are close.
    close = np.where(ball((14, 12, 10), 3)[5:6], repeating((14, 12, 10), (2,), 79, 3e-3), 0)
    yield "zeros repeat", "interpolate-zeros", close, 2, 1e-2, None
    many = np.where(ball((20, 18, 16), 4), 10.0 ** (30 * waves((20, 18, 16), 80)) * np.sign(waves((20, 18, 16), 81)), 0)
    yield "many magnitudes", "interpolate-relative", many, 3, 0.05, ball((20, 18, 16), 7)
    yield "small numbers", "interpolate-relative", (1e-310 * waves((9, 9, 9), 27)), 2, 1e-3, None
    yield "a narrow bound", "interpolate-relative", waves((9, 9, 9), 27).astype("float32"), 2, 1e-9, None
    yield "nothing but zeros", "interpolate-signs", np.zeros((4, 5, 6), "float32"), 2, 0.1, None


REQUIRED = (
    *(f"repeats: {part}" for part in ("x", "y", "z", "the mask", "not the mask", "no mask", "zeros inside")),
    *(f"safeguards: {part}" for part in ("mode 0", "mode 1", "mode 2", "mode 3", "zeros", "signs")),
    "float32 in float64", "rounded product", "listed: long place", "constant", "ratio 0", "ratio 1", "ratio 2", "step of 8 bytes", "lattice of floats", "quantum", "offset", "inner level", "predictor", "predictor with weights",
    "mode: zero", "mode: tables", "mode: adaptive", "mode: exact", "masked: zero", "masked: tables", "masked: adaptive", "masked: exact",
    *(f"adaptive: flag {kind}" for kind in ("block", "quiet", 0)), *(f"tables: flag {kind}" for kind in ("block", "quiet", 0, 1, 2, 3)),
    "tables: more than one", "tables: low bits",
    *(f"tables: {lanes} lanes" for lanes in (1, 8, 32, 64)), "tables: stored", "tables: named", *(f"named table: shape {shape}" for shape in range(4)),
    "named table: low bits", *(f"old tables: {lanes} lanes, {bits} bits" for lanes in (8, 32) for bits in (10, 11)),
    "line: six", "line: four", "line: first of four", "line: last of four", "line: first of three", "line: last of three", "line: two",
    "line: behind four", "line: behind three", "line: behind two", "line: copy", "escape: index", "escape: value", "plane: zero", "plane: constant", "plane: raw", "plane: zstd",
    *(f"further: {mode}" for mode in ("zero", "tables", "adaptive", "exact", "exact tables", "adds nothing", "lossless", "listed", "classes", "another lattice")), *(f"further: class {kind}" for kind in range(4)))


def encode(folder, coder, samples, levels, tolerances, mask):
    """Leaves payloads and decoded samples in a folder. @returns what is wrong, or an empty text"""
    shape = samples.shape[::-1]
    (folder / "samples").write_bytes(samples.astype(samples.dtype.newbyteorder("<")).tobytes())
    if mask is not None:
        (folder / "mask").write_bytes(mask.astype(np.uint8).tobytes())
    done = subprocess.run([ENCODE_PATCH, coder, str(samples.dtype), "x".join(map(str, shape)), str(levels), ",".join(repr(float(tolerance)) for tolerance in tolerances),
                           folder / "samples", "-" if mask is None else folder / "mask", folder], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip() or f"encode_patch ends with {done.returncode}"
    return ""


def check(folder, samples, levels, tolerances, mask):
    """The errors in one patch, or an empty text."""
    shape = list(samples.shape[::-1])
    wrong = encode(folder, "interpolate", samples, levels, tolerances, mask)
    if wrong:
        return wrong
    masks = None if mask is None else [mask[::2**level, ::2**level, ::2**level] for level in range(levels)]
    decoder = None
    for layer, tolerance in enumerate(tolerances):
        decoder = patch_decoder(str(samples.dtype), shape, levels, decoder)
        wrong = check_layer(folder, decoder, layer, samples, tolerance, masks)
        if wrong:
            return f"layer {layer}: {wrong}"
    return ""


def check_layer(folder, decoder, layer, samples, tolerance, masks):
    levels = decoder.levels
    payloads = [(folder / f"payload.{layer}.{level}").read_bytes() for level in range(levels)]
    if layer > 0 and payloads[-1][:1] == b"\2":
        decoder.plain.samples = {level: first_planes(samples[::2**level, ::2**level, ::2**level], decoder.axes) for level in range(levels)}
        return check_lossless(folder, layer, payloads, samples, masks, bool(decoder.axes))
    try:
        decoded = decoder.decode(payloads, masks)
    except Damaged as error:
        return f"refused: {error}"
    for level, got in enumerate(decoded):
        expected = (folder / f"decoded.{layer}.{level}").read_bytes()
        if got.astype(samples.dtype.newbyteorder("<")).tobytes() != expected:
            wanted = np.frombuffer(expected, samples.dtype.newbyteorder("<")).reshape(got.shape)
            wrong = np.argwhere((got != wanted) | (np.signbit(got) != np.signbit(wanted)))
            at = tuple(wrong[0])
            return f"level {level}: {len(wrong)} of {got.size} samples differ, [z, y, x] = {at}: {got[at]!r} instead of {wanted[at]!r}"
        original = samples[::2**level, ::2**level, ::2**level].astype(np.float64)
        error = np.abs(got.astype(np.float64) - original)[slice(None) if masks is None else masks[level]]
        if error.size and not error.max() <= tolerance:
            return f"level {level}: an error of {error.max()} above the tolerance"
        if layer > 0 and tolerance == 0:
            bits = samples[::2**level, ::2**level, ::2**level].tobytes() == got.tobytes()
            if masks is None and not bits:
                return f"level {level}: not bit by bit"
    return ""


def check_lossless(folder, layer, payloads, samples, masks, repeats):
    """The errors in an exact layer that has the payload of the coder `lossless`, or an empty text.

    @param repeats  the first layer says how the patch repeats, and so does the coder alone"""
    SEEN["further: lossless"] += 1
    apart = folder / "lossless"
    apart.mkdir(exist_ok=True)
    wrong = encode(apart, "lossless", samples, len(payloads), (0,), None if masks is None else masks[0])
    if wrong:
        return wrong
    expected = [(apart / f"payload.0.{level}").read_bytes() for level in range(len(payloads))]
    expected[-1] = b"\2" + expected[-1][repeats:]
    if payloads != expected:
        return "another payload than that of lossless"
    for level in range(len(payloads)):
        original = np.ascontiguousarray(samples[::2**level, ::2**level, ::2**level])
        got = np.frombuffer((folder / f"decoded.{layer}.{level}").read_bytes(), samples.dtype).reshape(original.shape)
        valid = np.ones(original.shape, bool) if masks is None else masks[level]
        if got[valid].tobytes() != original[valid].tobytes():
            return f"level {level}: not bit by bit"
    return ""


def check_safeguards(folder, coder, samples, levels, tolerance, mask):
    """The errors in one patch of a coder with safeguards, or an empty text."""
    wrong = encode(folder, coder, samples, levels, (tolerance,), mask)
    if wrong:
        return wrong
    originals = [samples[::2**level, ::2**level, ::2**level] for level in range(levels)]
    masks = None if mask is None else [mask[::2**level, ::2**level, ::2**level] for level in range(levels)]
    decoder = safeguarded_decoder(coder, str(samples.dtype), list(samples.shape[::-1]), levels)
    payloads = [(folder / f"payload.0.{level}").read_bytes() for level in range(levels)]
    try:
        decoded = decoder.decode(payloads, masks, [level != 0 for level in originals], [level > 0 for level in originals])
    except Damaged as error:
        return f"refused: {error}"
    for level, got in enumerate(decoded):
        valid = np.ones(got.shape, bool) if masks is None else masks[level]
        expected = np.frombuffer((folder / f"decoded.0.{level}").read_bytes(), samples.dtype.newbyteorder("<")).reshape(got.shape)
        if got[valid].tobytes() != expected[valid].astype(samples.dtype).tobytes():
            return f"level {level}: {(got != expected)[valid].sum()} of {valid.sum()} samples differ"
        original = originals[level].astype(np.float64)
        allowed = tolerance * np.abs(original) if coder == "interpolate-relative" else tolerance
        if not (np.abs(got - original) <= allowed)[valid].all():
            return f"level {level}: an error above the tolerance"
        if not (got[(original == 0) & valid] == 0).all():
            return f"level {level}: a zero is lost"
        if coder != "interpolate-zeros" and not (np.sign(got.astype(np.float64)) == np.sign(original))[valid].all():
            return f"level {level}: a sign is lost"
    return ""


def check_vectors():
    """The errors in the test vectors of the document."""
    document = (REPOSITORY / "docs" / "format.md").read_text()
    rows = document.split("### Test vectors of interpolate")[1].split("###")[0]
    for dtype, shape, payloads, expected in (
            ("uint8", [5, 3, 1], ["020b6b9e1680", "15000040400000000020410402f37f800261bbb6"],
             [[10, 11, 12, 13, 14, 20, 21, 22, 22, 90, 30, 31, 32, 33, 34], [10, 12, 14, 30, 32, 34]]),
            ("uint8", [5, 3, 2], ["020b6b9e1680", "2015000040400000000020410402f37f800261bbb6"],
             [[10, 11, 12, 13, 14, 20, 21, 22, 22, 90, 30, 31, 32, 33, 34] * 2, [10, 12, 14, 30, 32, 34]]),
            ("float32", [4, 1, 1], ["01000000000000803f090300010100012001ff030002029c02009902c08902fdfc"], [[1, 1.5, -2.25, 0.1]])):
        decoded = patch_decoder(dtype, shape, len(payloads)).decode([bytes.fromhex(payload) for payload in payloads], None)
        for payload, got, wanted in zip(payloads, decoded, expected):
            if f"`{payload}` | {', '.join(map(str, wanted))} |" not in rows:
                yield f"{payload} is not in the document with these samples"
            if not np.array_equal(got.ravel(), np.array(wanted, dtype)):
                yield f"{payload} is decoded as {got.ravel()}"


def check_recorded():
    """The errors in the patches of the last writer of version 2; the expected samples are those of its decoder."""
    folder = Path(__file__).resolve().parent / "payloads" / "v2"
    for case in json.loads((folder / "patches.json").read_text()):
        levels = range(len(case["samples_sha256"]))
        payloads = [(folder / f"{case['name']}.{level}").read_bytes() for level in levels]
        decoded = patch_decoder(case["type"], case["shape"], len(payloads)).decode(payloads, None)
        for level in levels:
            samples = decoded[level].astype(decoded[level].dtype.newbyteorder("<")).tobytes()
            if hashlib.sha256(samples).hexdigest() != case["samples_sha256"][level]:
                yield f"{case['name']}, level {level}: other samples"


def main():
    failures, count = 0, 0
    np.seterr(all="ignore")
    for wrong in check_recorded():
        print(f"recorded patch: {wrong}")
        failures += 1
    for wrong in check_vectors():
        print(f"test vector: {wrong}")
        failures += 1
    with tempfile.TemporaryDirectory() as name:
        single = ((name_of_case, samples, levels, (tolerance,), mask) for name_of_case, samples, levels, tolerance, mask in cases())
        for name_of_case, samples, levels, tolerances, mask in itertools.chain(single, layered_cases(), repeating_cases()):
            count += 1
            wrong = check(Path(name), samples, levels, tolerances, mask)
            if wrong:
                print(f"{name_of_case}: {wrong}")
                failures += 1
        for name_of_case, coder, samples, levels, tolerance, mask in safeguarded_cases():
            count += 1
            wrong = check_safeguards(Path(name), coder, samples, levels, tolerance, mask)
            if wrong:
                print(f"{name_of_case}: {wrong}")
                failures += 1
    for feature in REQUIRED:
        if not SEEN[feature]:
            print(f"no patch has: {feature}")
            failures += 1
    print(f"{count} patches, {failures} failures")
    for feature in sorted(SEEN):
        print(f"  {SEEN[feature]:6} {feature}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
