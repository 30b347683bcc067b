"""A decoder of the coder `interpolate`, written from docs/format.md alone; interpolate_reference.py shows that it is enough.

Python with numpy, whose additions and multiplications of arrays are rounded one by one. zstd comes from the system's
library.
"""

import collections
import ctypes
import ctypes.util
import itertools
import struct

import numpy as np

SEEN = collections.Counter()  # how often each part of the format occurred


class Damaged(Exception):
    """An error in the terms of docs/format.md."""


def require(condition, text):
    if not condition:
        raise Damaged(text)


class Bytes:
    """Takes fields off the front of a payload."""

    def __init__(self, data):
        self.data, self.at = bytes(data), 0

    def left(self):
        return len(self.data) - self.at

    def take(self, count):
        require(count <= self.left(), f"{count} bytes needed, {self.left()} left")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def varint(self):
        value = 0
        for shift in range(0, 35, 7):
            byte = self.number("B")
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise Damaged("a varint is too long")


# --- "Arithmetic coder", with the even bits of "Mode adaptive" ---------------------------------------------------------


class Bits:
    def __init__(self, data):
        self.data, self.at = data, 4
        self.range, self.code = 2**32 - 1, int.from_bytes(data[:4].ljust(4, b"\0"), "big")

    def narrow(self, p):
        bound = (self.range >> 16) * p
        bit = self.code < bound
        if bit:
            self.range = bound
        else:
            self.range -= bound
            self.code -= bound
        while self.range < 2**24:
            self.range <<= 8
            self.code = self.code << 8 | (self.data[self.at] if self.at < len(self.data) else 0)
            self.at += 1
        return int(bit)

    def bit(self, models, key):
        """Models are a dictionary of [p, n]: one that is not there is new."""
        model = models.setdefault(key, [32768, 0])
        bit = self.narrow(model[0])
        change = ((65511 if bit else 24) - model[0]) * (32768 // (model[1] + 2))
        model[0] += change // 32768 if change >= 0 else -(-change // 32768)
        model[1] = min(model[1] + 1, 95)
        return bit

    def even(self, count=1):
        value = 0
        for _ in range(count):
            value = value << 1 | self.narrow(32768)
        return value


# --- "Planes" ---------------------------------------------------------------------------------------------------------

ZSTD = ctypes.CDLL(ctypes.util.find_library("zstd"))
ZSTD.ZSTD_decompress.restype = ctypes.c_size_t
ZSTD.ZSTD_decompress.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)


def zstd_frame(frame, size):
    frame = b"\x28\xb5\x2f\xfd" + frame
    out = ctypes.create_string_buffer(max(size, 1))
    require(ZSTD.ZSTD_decompress(out, size, frame, len(frame)) == size, "a zstd frame is damaged")
    return out.raw[:size]


def read_plane(payload, size):
    tag = payload.varint()
    SEEN[f"plane: {('zero', 'constant', 'raw')[tag] if tag < 3 else 'zstd'}"] += 1
    if tag == 0:
        return bytes(size)
    if tag == 1:
        return payload.take(1) * size
    return payload.take(size) if tag == 2 else zstd_frame(payload.take(tag - 3), size)


def read_planes(payload, word, count):
    """`count` words of `word` bytes, as an array of u64."""
    if count == 0:
        return np.zeros(0, np.uint64)
    layout = payload.number("B")
    require(layout <= 2, f"layout {layout}")
    if layout == 2:
        return np.frombuffer(read_plane(payload, word * count), f"<u{word}").astype(np.uint64)
    words = np.zeros(count, np.uint64)
    for k in range(word if layout == 0 else 8 * word):
        plane = np.frombuffer(read_plane(payload, count if layout == 0 else (count + 7) // 8), np.uint8)
        if layout == 1:
            plane = np.unpackbits(plane, count=count, bitorder="little")
        words |= plane.astype(np.uint64) << np.uint64(k if layout == 1 else 8 * k)
    return words


class BitString:
    def __init__(self, data):
        self.bits, self.at = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").tolist(), 0

    def take(self, count):
        taken = self.bits[self.at:self.at + count]
        self.at += count
        return sum(bit << i for i, bit in enumerate(taken))

    def at_end(self):
        return self.at <= len(self.bits) < self.at + 8


def ordered(samples):
    """Whole numbers that grow with the samples: "Words" of the coder lossless."""
    words = samples.view(f"<i{samples.dtype.itemsize}")
    return np.where(words < 0, words ^ np.iinfo(words.dtype).max, words).astype(np.int64)


def from_ordered(words, dtype):
    words = words.astype(f"<i{dtype.itemsize}")
    return np.where(words < 0, words ^ np.iinfo(words.dtype).max, words).view(dtype)


# --- "Prediction" -----------------------------------------------------------------------------------------------------

# Name, condition, prediction.
SIX = ("line: six", lambda j, E: j >= 2 and j + 3 < E, lambda e, j, T: (
    (e[j] + e[j + 1]) * T(0.5859375) - (e[j - 1] + e[j + 2]) * T(0.09765625)) + (e[j - 2] + e[j + 3]) * T(0.01171875))
FOUR = ("line: four", lambda j, E: j >= 1 and j + 2 < E, lambda e, j, T: (
    (e[j] + e[j + 1]) * T(0.5625) - (e[j - 1] + e[j + 2]) * T(0.0625)))
FIRST_OF_FOUR = ("line: first of four", lambda j, E: j == 0 and E >= 4, lambda e, j, T: (
    (e[0] * T(0.3125) + e[1] * T(0.9375)) + (e[2] * T(-0.3125) + e[3] * T(0.0625))))
LAST_OF_FOUR = ("line: last of four", lambda j, E: j >= 2, lambda e, j, T: (
    (e[j - 2] * T(0.0625) + e[j - 1] * T(-0.3125)) + (e[j] * T(0.9375) + e[j + 1] * T(0.3125))))
FIRST_OF_THREE = ("line: first of three", lambda j, E: j == 0 and E >= 3, lambda e, j, T: (
    (e[0] * T(0.375) + e[1] * T(0.75)) + e[2] * T(-0.125)))
LAST_OF_THREE = ("line: last of three", lambda j, E: j >= 1, lambda e, j, T: (
    (e[j - 1] * T(-0.125) + e[j] * T(0.75)) + e[j + 1] * T(0.375)))
TWO = ("line: two", lambda j, E: True, lambda e, j, T: (e[j] + e[j + 1]) * T(0.5))
INSIDE = ((TWO,),  # by the order of interpolation: linear, cubic, quintic
          (FOUR, FIRST_OF_THREE, LAST_OF_THREE, TWO),
          (SIX, FOUR, FIRST_OF_FOUR, LAST_OF_FOUR, FIRST_OF_THREE, LAST_OF_THREE, TWO))

BEHIND_FOUR = ("line: behind four", lambda j, E: j >= 3, lambda e, j, T: (
    (e[j - 3] * T(-0.3125) + e[j - 2] * T(1.3125)) + (e[j - 1] * T(-2.1875) + e[j] * T(2.1875))))
BEHIND_THREE = ("line: behind three", lambda j, E: j >= 2, lambda e, j, T: (
    (e[j - 2] * T(0.375) + e[j - 1] * T(-1.25)) + e[j] * T(1.875)))
BEHIND_TWO = ("line: behind two", lambda j, E: j >= 1, lambda e, j, T: e[j - 1] * T(-0.5) + e[j] * T(1.5))
COPY = ("line: copy", lambda j, E: True, lambda e, j, T: e[0])
BEHIND = ((BEHIND_TWO, COPY),  # by the order of extrapolation: linear, quadratic, cubic
          (BEHIND_THREE, BEHIND_TWO, COPY),
          (BEHIND_FOUR, BEHIND_THREE, BEHIND_TWO, COPY))

EQUAL = {band: {axis: 8 for axis in range(3) if band >> axis & 1} for band in range(8)}
BANDS = (1, 2, 4, 3, 5, 6, 7)


def predict_place(e, j, order, behind, T):
    """Sample j along axis 0 from e, the band with this axis even."""
    E = len(e)
    for name, fits, line in (INSIDE[order] if j + 1 < E else BEHIND[behind]):
        if fits(j, E):
            SEEN[name] += 1
            return line(e, j, T)


def odd_axes(band):
    return [axis for axis in range(3) if band >> axis & 1]


def predict(bands, band, shape, predictor, T):
    """Predictions of a band; arrays are indexed [z, y, x], axis a of the format is axis 2 - a of numpy."""
    extent = [n // 2 if band >> axis & 1 else (n + 1) // 2 for axis, n in enumerate(shape)]
    along = {}
    for axis in odd_axes(band):
        e = np.moveaxis(bands[band & ~(1 << axis)], 2 - axis, 0)
        places = [predict_place(e, j, predictor["order"][axis], predictor["behind"][axis], T) for j in range(extent[axis])]
        along[axis] = np.moveaxis(np.array(places, T), 0, 2 - axis)
    if len(along) == 1:
        return next(iter(along.values()))
    total = None
    shares = {axis: np.zeros(extent[::-1], T) for axis in along}
    # The samples by the axes along which they are extrapolated: the last ones of even axes.
    ends = [axis for axis in along if shape[axis] % 2 == 0]
    for count in range(len(ends) + 1):
        for behind in itertools.combinations(ends, count):
            where = tuple(slice(-1, None) if axis in behind else slice(None, -1) if axis in ends else slice(None) for axis in (2, 1, 0))
            chosen = [axis for axis in along if axis not in behind] or list(along)
            weights = [predictor["weights"][band][axis] for axis in chosen]
            for axis, weight in zip(chosen, weights):
                shares[axis][where] = T(weight) / T(sum(weights)) if sum(weights) > 0 else T(1) / T(len(chosen))
    for axis in sorted(along):
        part = along[axis] * shares[axis]
        total = part if total is None else total + part
    return total


def for_use(p, lattice, T):
    p = np.where(np.isfinite(p), p, T(0))
    if not lattice:
        return p
    rounder = T(1.5 * 2**23 if T == np.float32 else 1.5 * 2**52)
    return np.where(np.abs(p) < rounder / T(4), (p + rounder) - rounder, T(0))


# --- "Activity" -------------------------------------------------------------------------------------------------------


def activity_of(magnitudes, band):
    """The activity of every sample of a band."""
    total = 0
    for axis in odd_axes(band):
        source = np.moveaxis(magnitudes[band & ~(1 << axis)], 2 - axis, 0)
        count = len(magnitudes_along(magnitudes, band, axis))
        right = source[1:count + 1]
        if len(source) == count:
            right = np.concatenate((right, source[-1:]))
        total = total + np.moveaxis(source[:count] + right, 0, 2 - axis)
    a = total * {1: 6, 2: 3, 3: 2}[len(odd_axes(band))]
    assert a.max() <= 64800
    return a.ravel()


def bins_of(a):
    exponent = np.frexp(np.maximum(a, 1).astype(np.float64))[1] - 1
    return np.where(a < 2, a, 2 * exponent + (a >= 1.5 * 2.0**exponent)).astype(int)


def magnitudes_along(magnitudes, band, axis):
    """A range as long as a band is along one of its axes."""
    return range(magnitudes["extent"][band][axis])


# --- "Runs of zeros" --------------------------------------------------------------------------------------------------

BLOCK, GROUP = 256, 32


class Flags:
    def __init__(self, bits, most_active, name):
        self.bits, self.most_active, self.name = bits, most_active, name
        self.models, self.last_two = {}, collections.defaultdict(lambda: 3)

    def decode(self, kind):
        flag = self.bits.bit(self.models, (kind, self.last_two[kind]))
        self.last_two[kind] = 2 * (self.last_two[kind] & 1) + flag
        SEEN[f"{self.name}: flag {kind}"] += 1
        return flag == 1

    def runs(self, contexts):
        """(begin, end, are they zeros) of all runs of a band; what a run of others has in the stream may be read before
        the next one."""
        for begin in range(0, len(contexts), BLOCK):
            block_end = min(begin + BLOCK, len(contexts))
            quiet = not any(contexts[begin:block_end])
            if quiet and self.decode("block"):
                yield begin, block_end, True
                continue
            for group in range(begin, block_end, GROUP):
                end = min(group + GROUP, block_end)
                active = sum(context != 0 for context in contexts[group:end])
                kind = "quiet" if quiet else -(-active // 2)
                yield group, end, active <= self.most_active and self.decode(kind)


# --- "Mode adaptive" and "Mode tables" --------------------------------------------------------------------------------


class AdaptiveIndices:
    def __init__(self, payload):
        self.bits = Bits(payload.take(payload.left()))
        self.flags, self.models = Flags(self.bits, 0, "adaptive"), {}

    def band(self, contexts):
        bins = [context % 32 for context in contexts]
        t, indices = 0, []
        for begin, end, zero in self.flags.runs(bins):
            if zero:
                indices += [0] * (end - begin)
                t = 0
                continue
            for b in bins[begin:end]:
                indices.append(self.index(b, t))
                t = min(abs(indices[-1]), 2)
        return indices

    def index(self, b, t):
        if self.bits.bit(self.models, ("zero", b, t)):
            return 0
        negative = self.bits.even()
        c = 1
        while c < 29 and self.bits.bit(self.models, ("longer", b, c)):
            c += 1
        size = 1
        for i in range(c - 1):
            size = 2 * size + (self.bits.bit(self.models, ("second", c, b)) if i == 0 else self.bits.even())
        return -size if negative else size


def read_table(bits, models, B):
    shift, rest, end = bits.even(5), bits.even(8), bits.even(8)
    require(shift <= 22, f"a shift of {shift} bits")
    frequency, c = [0] * 256, 0
    for s in range(end):
        if s == rest:
            continue
        node = 1
        for _ in range(4):
            node = 2 * node + bits.bit(models, (c, node))
        c = min(node - 16, 12)
        m = min(c - 1, 3)
        frequency[s] = c if c <= 1 else (2**m + bits.even(m)) * 2**(c - 1 - m)
    require(sum(frequency) <= 2**B, "frequencies above their sum")
    frequency[rest] = 2**B - sum(frequency)
    return shift, frequency


def unfold(s):
    return -(s + 1) // 2 if s % 2 else s // 2


DECAYS = tuple(int(word) for word in """
    6 121 1541 13104 79281 360200 1286253 3751106 9226469 19666268 37163206 63464312 99533137 145315154 199759078
    261044606 326914198 395007542 463130302 529428476 592470630 651257337 705182512 753969162 797596699 836230973
    870163178 899760092 925425813 947573834 966607779 982908970 996829173 1008687096 1018767490 1027321989 1034571010
    1040706261 1045893524 1050275481 1053974460 1057095000 1059726201 1061943836 1063812229 1065385899 1066710993
    1067826536 1068765495 1069555701 1070220635 1070780095""".split())


def decay(i):
    return 0 if i < -17 else DECAYS[i + 17]


def chain(f, c):
    weights = [2**30]
    for _ in range(127):
        weights.append(weights[-1] * f >> 30)
        f = f * c >> 30
    return weights


def named_table(name):
    """Shift and frequencies."""
    n, shape = name & 63, name >> 6
    shift = 0 if n < 28 else (n - 24) // 4
    j = n - 4 * shift - 12
    if shape == 0:
        w = [7 * narrow + wide for narrow, wide in zip(chain(decay(j), 2**30), chain(decay(j + 6), 2**30))]
    elif shape == 1:
        w = chain(decay(j), 2**30)
    elif shape == 2:
        g = decay(2 * j + 4)
        w = chain(decay(j + 4) * g >> 30, g * g >> 30)
    else:
        w = chain(decay(2 * j), decay(2 * j) * decay(2 * j) >> 30)
    total = w[0] + 2 * sum(w[1:])
    frequency = [0] * 256
    for q in range(1, 128):
        frequency[2 * q - 1] = frequency[2 * q] = (2**12 * w[q] + total) // (2 * total) or int(2**14 * w[q] >= total)
    frequency[0] = 2**11 - sum(frequency)
    SEEN[f"named table: shape {shape}"] += 1
    SEEN["named table: low bits"] += shift > 0
    return shift, frequency


class TableIndices:
    def __init__(self, payload, head, further):
        self.classes = False
        if head & 3 == 1:
            self.B = 11 if head & 128 else 10
            lanes = 32 if head & 32 else 8
            bins = payload.number("I")
            self.begins = [0] + [b for b in range(1, 33) if bins >> (b - 1) & 1]
            require(len(self.begins) <= 12, f"{len(self.begins)} tables")
            stored = True
            SEEN[f"old tables: {lanes} lanes, {self.B} bits"] += 1
        else:
            self.B = 11
            layout = payload.number("B")
            self.classes = layout >= 128
            require(layout & 15 < (15 if self.classes else 12) and (further or not self.classes), f"a layout of {layout}")
            SEEN["further: classes"] += self.classes
            lanes = (1, 8, 32, 64)[layout >> 4 & 3]
            self.begins = [0, *payload.take(layout & 15)]
            contexts = 128 if self.classes else 32
            require(all(a < b < contexts for a, b in zip(self.begins, self.begins[1:])), "contexts out of order")
            stored = layout & 64 != 0
            SEEN[f"tables: {lanes} lanes"] += 1
            SEEN[f"tables: {'stored' if stored else 'named'}"] += 1
        if stored:
            stream, models = Bits(payload.take(payload.varint())), {}
            tables = [read_table(stream, models, self.B) for _ in self.begins]
        else:
            tables = [named_table(name) for name in payload.take(len(self.begins))]
        self.shifts = [shift for shift, _ in tables]
        # Per table and slot: symbol, its frequency, slot - first(symbol).
        self.slots = [[(s, f, i) for s, f in enumerate(frequency) for i in range(f)] for _, frequency in tables]
        self.flags = Flags(Bits(payload.take(payload.varint())), 6, "tables") if head & 16 else None
        low = payload.take(payload.varint()) if any(self.shifts) else b""
        self.low, self.low_left = int.from_bytes(low, "little"), 8 * len(low)
        self.states = [payload.number("I") for _ in range(lanes)]
        require(payload.left() % 2 == 0, "half a word")
        self.words = iter(struct.unpack(f"<{payload.left() // 2}H", payload.take(payload.left())))
        SEEN["tables: more than one"] += len(tables) > 1
        SEEN["tables: low bits"] += any(self.shifts)

    def band(self, contexts):
        bins = contexts if self.classes else [context % 32 for context in contexts]
        tables = (np.searchsorted(self.begins, bins, side="right") - 1).tolist()
        if self.flags is None:
            return self.coded(tables)
        runs = list(self.flags.runs(tables))
        coded = iter(self.coded([table for begin, end, zero in runs if not zero for table in tables[begin:end]]))
        return [0 if zero else next(coded) for begin, end, zero in runs for _ in range(begin, end)]

    def coded(self, tables):
        symbols, states, mask = [], self.states, 2**self.B - 1
        for begin in range(0, len(tables), len(states)):
            turn = tables[begin:begin + len(states)]
            for lane, table in enumerate(turn):
                x = states[lane]
                s, frequency, offset = self.slots[table][x & mask]
                symbols.append(s)
                states[lane] = frequency * (x >> self.B) + offset
            for lane in range(len(turn)):
                if states[lane] < 2**15:
                    word = next(self.words, None)
                    require(word is not None, "the words end")
                    states[lane] = states[lane] << 16 | word
        return [self.index(s, self.shifts[table]) for s, table in zip(symbols, tables)]

    def index(self, s, k):
        if k == 0:
            return unfold(s)
        require(k <= self.low_left, "the low bits end")
        v = self.low & 2**k - 1
        self.low >>= k
        self.low_left -= k
        return 2**k * unfold(s) + v - 2**(k - 1)


class ZeroIndices:
    def __init__(self, payload):
        require(payload.left() == 0, "bytes behind a level without indices")

    def band(self, bins):
        return [0] * len(bins)


# --- "One level" ------------------------------------------------------------------------------------------------------


def read_predictor(payload, with_weights):
    orders = payload.number("H")
    order = [orders >> 2 * axis & 3 for axis in range(3)]
    behind = [orders >> 6 + 2 * axis & 3 for axis in range(3)]
    require(max(order + behind) <= 2, "an unknown order")
    weights = {band: dict(axes) for band, axes in EQUAL.items()}
    if with_weights:
        packed = int.from_bytes(payload.take(5), "little")
        for n, (band, axis) in enumerate((band, axis) for band in (3, 5, 6, 7) for axis in odd_axes(band)):
            weights[band][axis] = packed >> 4 * n & 15
    return {"order": order, "behind": behind, "weights": weights}


def read_escapes(payload, samples, T):
    """The escapes by sample number: (index, value or None)."""
    escapes, number = {}, -1
    for i in range(payload.varint()):
        number += payload.varint() + 1
        require(number < samples, f"an escape at sample {number} of {samples}")
        code = payload.varint()
        require(code <= 2**30, "an escape out of range")
        if code == 0:
            value = np.frombuffer(payload.take(T().itemsize), np.dtype(T).newbyteorder("<"))[0]
            require(np.isfinite(value), "an escape is not finite")
            escapes[number] = (0, value)
        else:
            escapes[number] = (unfold(code - 1), None)
        SEEN[f"escape: {'index' if code else 'value'}"] += 1
    return escapes


def exact_values(p, words, T):
    """Values from predictions and the words of valid samples."""
    U = np.uint32 if T == np.float32 else np.uint64
    top = U(1) << U(8 * U().itemsize - 1)

    def flipped(bits):
        return np.where(bits & top, bits ^ (top - U(1)), bits)

    w = words.astype(U)
    rank = flipped(p.view(U))
    rank = np.where(w & U(1), rank - (w >> U(1)) - U(1), rank + (w >> U(1)))
    values = flipped(rank).view(T)
    require(np.isfinite(values).all(), "an exact sample is not finite")
    return values


class Intervals:
    """Intervals of the samples of a level, from the layer before."""

    def __init__(self, before, half_width, step, lattice, T):
        """@param before values of that layer, [z, y, x], in working values of this one"""
        self.before, self.step, self.T = before, T(step), T
        self.half_width = T(half_width)
        self.relative = T(0) if lattice or half_width == 0 else T(2 * np.finfo(T).eps)
        self.lattice = lattice

    @property
    def h(self):
        return self.half_width

    def move(self, p, band, valid):
        """@returns s, the prediction inside the interval, c, and how far that is from the nearer end"""
        T = self.T
        b = for_use(LevelDecoder.band_of(self.before, band).ravel(), self.lattice, T).astype(T)
        width = self.half_width + np.abs(b) * self.relative
        low, high = b - width, b + width
        raised = np.where(p > low, p, low)
        inside = np.where(raised < high, raised, high)
        below, above = inside - low, high - inside
        s = np.where(valid & (above < below), T(-1), T(1))
        return s, inside, np.where(valid, inside, p), np.minimum(below, above)

    def enter_exact(self, p, band, valid, activity):
        """@returns s times the prediction inside the interval, s, the context"""
        s, inside, c, near = self.move(p, band, valid)
        mean = activity // 12
        exponent = np.maximum(c.view(np.int32) >> 23 & 0xff, 1).astype(np.int64) - 127 - 23
        bins = np.clip((np.minimum(mean, 1536) - 1536 + log_of(self.h) - 64 * exponent) // 64, 0, 31)
        n = log_of(near) - log_of(self.h) + 1536
        kind = np.where(p != inside, 3, np.where(n < mean, 2, np.where(n < mean + 101, 1, 0)))
        return (s * c).astype(self.T), s, 32 * kind + bins

    def enter(self, p, band, valid, activity):
        """@returns s times the prediction inside the interval, s, by how much the prediction is outside, the class"""
        T = self.T
        s, _, c, near = self.move(p, band, valid)
        t = np.abs(p - c) * (T(1) / self.step)
        missed = np.rint(np.maximum(np.where(t < T(5400), t, T(5400)), T(0))).astype(np.int64)
        a = (activity + 2).astype(T) * (self.step / T(12))
        kind = np.where(np.abs(p - c) != 0, 3, np.where(near < a, 2, np.where(near < a * T(3), 1, 0)))
        for number in range(4):
            SEEN[f"further: class {number}"] += int((kind == number).sum())
        return (s * c).astype(T), s, missed, kind


def log_of(values):
    """64ths of an octave, of float32 that are not negative."""
    return (np.asarray(values, np.float32).view(np.int32).astype(np.int64) >> 17) - 127 * 64


class LevelDecoder:
    """Levels of one patch, in values and magnitudes indexed [z, y, x]."""

    def __init__(self, base, step, ratio, lattice, T):
        self.values = np.full((1, 1, 1), base, T)
        self.magnitudes = np.zeros((1, 1, 1), np.int64)
        self.predictor = {"order": [0] * 3, "behind": [0] * 3, "weights": EQUAL}
        self.step, self.ratio, self.lattice, self.T = step, ratio, lattice, T
        self.exact = set()  # levels in mode exact

    def step_of(self, level):
        factor = 1.0
        for _ in range(level):
            factor *= (1.0, 0.9, 0.8, 0.7)[self.ratio]
        factor = max(factor, 0.25)
        if not self.lattice:
            return self.step * factor
        return 2 * float(np.floor((self.step - 1) / 2 * factor)) + 1

    def refine(self, payload, level, shape, mask, intervals=None):
        """@param mask of the level [z, y, x], or None; @param intervals of a further layer"""
        T, payload = self.T, Bytes(payload)
        head = payload.number("B") if payload.left() else 0
        mode = ("zero", "old tables", "adaptive", "exact")[head & 3]
        if head & 128 and mode != "old tables":
            require(mode in ("adaptive", "exact"), f"a level begins with {head}")
            mode = "tables" if mode == "adaptive" else "exact tables"
        SEEN[f"mode: {mode}"] += 1
        SEEN[f"masked: {mode}"] += mask is not None and not mask.all()
        if mode.startswith("exact"):
            self.exact.add(level)
        if intervals:
            SEEN[f"further: {mode}"] += 1
        if head & 4:
            self.predictor = read_predictor(payload, bool(head & 8))
            SEEN["predictor with weights" if head & 8 else "predictor"] += 1
        extent = {band: [n // 2 if band >> axis & 1 else (n + 1) // 2 for axis, n in enumerate(shape)] for band in range(8)}
        sizes = {band: int(np.prod(extent[band])) for band in range(8)}
        bands, magnitudes = {0: self.values}, {0: self.magnitudes, "extent": extent}
        valid = {band: self.band_of(mask, band) for band in BANDS} if mask is not None else {}

        escapes, indices, words, next_word = {}, None, None, 0
        if mode == "exact":
            count = int(sum(valid[band].sum() if mask is not None else sizes[band] for band in BANDS))
            words = read_planes(payload, T().itemsize, count)
            require(payload.left() == 0, "bytes behind an exact level")
        else:
            step = self.step_of(level)
            require(mode in ("zero", "exact tables") or step > 0, "indices without a step")
            require(mode != "exact tables" or (intervals is not None and intervals.h > 0 and T == np.float32), "no interval")
            if head & 64:
                escapes = read_escapes(payload, sum(sizes[band] for band in BANDS), T)
            if mode == "zero":
                indices = ZeroIndices(payload)
            elif mode == "adaptive":
                indices = AdaptiveIndices(payload)
            else:
                indices = TableIndices(payload, head, intervals is not None)
                require(mode != "exact tables" or indices.classes, "an exact level without classes")

        number = 0  # number of the first sample of the band
        for band in BANDS:
            if sizes[band] == 0:
                continue
            p = for_use(predict(bands, band, shape, self.predictor, T), self.lattice, T).astype(T).ravel()
            is_valid = valid[band].ravel() if mask is not None else np.ones(len(p), bool)
            q = np.zeros(len(p), np.int64)
            activity = activity_of(magnitudes, band)
            s, missed, kind = T(1), 0, 0
            unclamped = p
            if mode == "exact tables":
                p, s, contexts = intervals.enter_exact(p, band, is_valid, activity)
            elif intervals:
                p, s, missed, kind = intervals.enter(p, band, is_valid, activity)
            if mode == "exact tables":
                q[is_valid] = indices.band(contexts[is_valid].tolist())
                of_band = [(n - number, *escapes[n]) for n in escapes if number <= n < number + len(p)]
                for n, index, _ in of_band:
                    q[n] = index
                value = p.copy()
                words_of = np.where(q >= 0, 2 * q, -2 * q - 1)
                value[is_valid] = exact_values(p[is_valid], words_of[is_valid].astype(np.uint32), T)
                for n, _, exact in of_band:
                    if exact is not None:
                        value[n] = exact
            elif mode == "exact":
                value = p.copy()
                count = int(is_valid.sum())
                value[is_valid] = exact_values(p[is_valid], words[next_word:next_word + count], T)
                next_word += count
            else:
                contexts = 32 * kind + bins_of(activity)
                q[is_valid] = indices.band(contexts[is_valid].tolist())
                of_band = [(n - number, *escapes[n]) for n in escapes if number <= n < number + len(p)]
                for n, index, _ in of_band:
                    q[n] = index
                value = p + q.astype(T) * T(step)
                for n, _, exact in of_band:
                    if exact is not None:
                        value[n] = exact
            bands[band] = (s * value).astype(T).reshape(extent[band][::-1])
            errors = np.zeros(len(p), np.int64) if mode == "exact" else np.minimum(np.abs(q), 5400) + missed
            if mode == "exact tables":
                errors = np.maximum(log_of(np.abs(bands[band].ravel() - unclamped)) - log_of(intervals.h) + 1536, 0)
            magnitudes[band] = np.minimum(errors, 5400).reshape(extent[band][::-1])
            number += len(p)
        self.values = self.merged(bands, shape)
        self.magnitudes = self.merged(magnitudes, shape)

    @staticmethod
    def band_of(array, band):
        return array[(band >> 2 & 1)::2, (band >> 1 & 1)::2, (band & 1)::2]

    def merged(self, bands, shape):
        whole = np.empty(shape[::-1], bands[0].dtype)
        for band in range(8):
            if band in bands:
                self.band_of(whole, band)[...] = bands[band]
        return whole


# --- "Head of the patch" and "Levels" ---------------------------------------------------------------------------------


def level_shape(shape, level):
    return [-(-n // 2**level) for n in shape]


class PlainDecoder:
    """Decoder of a patch that does not repeat, or of the plane that is coded of one that does."""

    def __init__(self, dtype, shape, levels, before=None):
        """@param before the decoder of the layer before, which has decoded all levels"""
        self.before = before
        self.S = self.returned_type = np.dtype(dtype)
        self.T = np.float64 if dtype in ("float64", "int32", "uint32") else np.float32
        self.shape, self.levels = shape, levels
        self.singles = next(k for k in itertools.count() if level_shape(shape, k) == [1, 1, 1])  # K - 1
        self.constant = None
        self.listed_layer = False

    def decode(self, payloads, masks):
        """@param payloads of each level; @param masks [z, y, x] of each level, or None
        @returns samples of each level, [z, y, x]"""
        self.samples = samples = {}
        if self.before and not payloads[self.levels - 1]:
            require(not any(payloads), "bytes in a layer that adds nothing")
            SEEN["further: adds nothing"] += 1
            for name in ("samples", "constant", "inner", "lattice", "quantum", "exponent", "listed_layer", "S", "T"):
                setattr(self, name, getattr(self.before, name, None))
            return [self.samples[level] for level in range(self.levels)]
        if self.before and payloads[-1][0] == 4:
            require(not self.before.listed_layer, "a layer behind listed values")
            self.listed_layer = True
            self.listed([payloads[level][level == self.levels - 1:] for level in range(self.levels)], masks)
            return [samples[level] for level in range(self.levels)]
        for level in reversed(range(self.levels)):
            payload, mask = payloads[level], masks[level] if masks else None
            if level == self.levels - 1:
                self.coarsest(Bytes(payload), mask)
            elif self.constant is not None:
                require(not payload, "bytes in a finer level of a constant patch")
            else:
                self.level(payload, level, mask)
            samples[level] = self.returned(level).astype(self.returned_type)
        return [samples[level] for level in range(self.levels)]

    def coarsest(self, payload, mask):
        form = payload.number("B")
        require(not (self.before and self.before.listed_layer), "a layer behind listed values")
        require(not self.before or (form != 0 and self.before.constant is None), "a further layer is constant")
        if form == 0:
            self.constant = payload.take(self.S.itemsize)
            require(payload.left() == 0, "bytes behind a constant")
            SEEN["constant"] += 1
            return
        if form & 128:
            require(self.S == np.float64, f"form {form} of a patch that is not of float64")
            self.S, self.T = np.dtype("float32"), np.float32
            SEEN["float32 in float64"] += 1
        require(not self.before or self.S == self.before.S, "layers of different types")
        require(form & 0b01000001 == 1 and form & 12 != 8, f"form {form}")
        SEEN["step of 8 bytes"] += form >> 1 & 1
        SEEN[f"ratio {form >> 4 & 3}"] += 1
        step = payload.number("d" if form & 2 else "f")
        lattice = bool(form & 4)
        unit, offset = (payload.number("d"), payload.number("d")) if form & 8 else (0, 0)
        self.quantum = (abs(unit), offset, unit < 0) if form & 8 else None
        self.exponent = payload.number("h") if lattice and not self.quantum else 0
        base = payload.number("f" if self.T == np.float32 else "d")
        require(0 <= step <= np.finfo(self.T).max, "the step is out of range")
        require(lattice or self.S.kind == "f", "integers without a lattice")
        require(abs(self.exponent) <= 1100 and np.isfinite(base), "exponent or base out of range")
        if self.quantum:
            require(self.S.kind == "f" and 0 < self.quantum[0] < np.inf and np.isfinite(offset), "no such unit or offset")
            SEEN["offset"] += offset != 0
            SEEN["rounded product"] += unit < 0
        SEEN["quantum" if self.quantum else "lattice of floats"] += lattice and self.S.kind == "f"
        self.lattice = lattice
        self.inner = LevelDecoder(base, step, form >> 4 & 3, lattice, self.T)
        for level in range(self.singles - 1, self.levels - 1, -1):
            coarse = None if mask is None else mask[tuple([slice(None, None, 2**(level - self.levels + 1))] * 3)]
            self.inner.refine(payload.take(payload.varint()), level, level_shape(self.shape, level), coarse, self.intervals(level))
            SEEN["inner level"] += 1
        self.level(payload.take(payload.left()), self.levels - 1, mask)

    def level(self, payload, level, mask):
        if level < self.singles:
            self.inner.refine(payload, level, level_shape(self.shape, level), mask, self.intervals(level))
        else:
            require(not payload, "bytes in a level of one sample")

    # --- "Listed values" ---

    def listed(self, payloads, masks):
        S, magnitudes = self.returned_type, set()
        require(S.kind == "f", "listed values of integers")
        SEEN["further: listed"] += 1
        for level in reversed(range(self.levels)):
            payload = Bytes(payloads[level])
            level_samples = np.zeros(level_shape(self.shape, level)[::-1], S)
            new = np.ones(level_samples.shape, bool)
            if level < self.levels - 1:
                level_samples[::2, ::2, ::2] = self.samples[level + 1]
                new[::2, ::2, ::2] = False
            new &= True if masks is None else masks[level]
            self.samples[level] = level_samples
            if not new.any():
                require(payload.left() == 0, "bytes in a level without new samples")
                SEEN["listed: nothing new"] += 1
                continue
            reach = payload.number("f")
            require(0 <= reach < np.inf, "the reach is out of range")
            count = payload.varint()
            require(count <= new.sum(), "more values than samples")
            lengths = read_planes(payload, 1, count)
            bits = BitString(payload.take(payload.left()))
            magnitude = -1
            for length in map(int, lengths):
                require(length <= 8 * S.itemsize, "the distance is too long")
                magnitude += 1 + (2**(length - 1) + bits.take(length - 1) if length else 0)
                magnitudes.add(magnitude)
            require(count == 0 or magnitude <= int(ordered(np.array([np.finfo(S).max], S))[0]), "a magnitude of no finite number")
            values = np.array(sorted([~m for m in magnitudes] + list(magnitudes)), np.int64)
            near = self.before.samples[level]
            near = np.where(np.isfinite(near), near, 0).astype(np.float64)
            first = np.searchsorted(values, ordered((near - reach).astype(S)), "left")
            behind = np.searchsorted(values, ordered((near + reach).astype(S)), "right")
            chosen = []
            for begin, end in zip(first[new].tolist(), behind[new].tolist()):
                require(begin < end, "no value is near enough")
                whole = (end - begin).bit_length() - 1
                shorter = 2**(whole + 1) - (end - begin)
                place = bits.take(whole)
                if place >= shorter:
                    place = 2 * place + bits.take(1) - shorter
                    SEEN["listed: long place"] += 1
                chosen.append(values[begin + place])
            require(bits.at_end(), "bytes behind listed values")
            level_samples[new] = from_ordered(np.array(chosen, np.int64), S)

    # --- "Further layers" ---

    def unit(self):
        return self.quantum[0] if self.quantum else 2.0**self.exponent

    def intervals(self, level):
        if self.before is None:
            return None
        coarsest = min(level, self.levels - 1)
        stride = 2**(level - coarsest)
        samples = self.before.samples[coarsest][::stride, ::stride, ::stride]
        step = self.inner.step_of(level)
        return Intervals(self.working(samples), self.half_width(level), step, self.lattice, self.T)

    def working(self, samples):
        if self.quantum:
            unit, offset, _ = self.quantum
            return np.rint((samples.astype(np.float64) - offset) * (1 / unit)).astype(self.T)
        values = samples.astype(self.T)
        return values * self.T(2.0**-self.exponent) if self.lattice else values

    def half_width(self, level):
        before = self.before
        if level in before.inner.exact:
            return 0.0
        step = before.inner.step_of(level)
        units = (step - 1) / 2 if before.lattice else step / 2
        if before.lattice and self.lattice and (before.quantum, before.exponent) == (self.quantum, self.exponent):
            width = units
        else:
            SEEN["further: another lattice"] += bool(self.lattice or before.lattice)
            width = units * (before.unit() if before.lattice else 1.0) / (self.unit() if self.lattice else 1.0)
            width = float(np.ceil(width)) if self.lattice else width
        most = (3 * 2.0**20 if self.T == np.float32 else 3 * 2.0**48) if self.lattice else float(np.finfo(self.T).max)
        return min(width, most) if width > 0 else 0.0

    def returned(self, level):
        if self.constant is not None:
            count = int(np.prod(level_shape(self.shape, level)))
            return np.frombuffer(self.constant * count, self.S).reshape(level_shape(self.shape, level)[::-1])
        values = self.inner.values
        if self.quantum:
            unit, offset, rounds_product = self.quantum
            most = float(np.finfo(self.S).max)
            product = values.astype(np.float64) * unit
            if rounds_product:
                rounded = [np.clip(part, -most, most).astype(self.S) for part in (product, offset)]
                return np.clip(rounded[0] + rounded[1], self.S.type(-most), self.S.type(most))
            return np.clip(offset + product, -most, most).astype(self.S)
        if self.S.kind == "f":
            return values * self.T(2.0**self.exponent) if self.lattice else values
        limits = np.iinfo(self.S)
        return np.clip(values, self.T(limits.min), self.T(limits.max)).astype(self.S)


# --- "Repeats" --------------------------------------------------------------------------------------------------------


def first_planes(level, axes):
    """The samples of a level [z, y, x] with coordinate 0 along some axes."""
    return level[tuple(slice(0, 1) if axis in axes else slice(None) for axis in (2, 1, 0))]


class RepeatingDecoder:
    """Decoder of a layer of a patch that may repeat."""

    def __init__(self, make_plain, shape, levels, before=None):
        """@param make_plain makes a decoder of a shape and the one of the layer before"""
        self.make_plain, self.shape, self.levels = make_plain, shape, levels
        self.plain = None
        if before is not None:
            self.start(before.axes, before.mask_repeats, before.plain)

    def start(self, axes, mask_repeats, before=None):
        self.axes, self.mask_repeats = axes, mask_repeats
        self.plain = self.make_plain([1 if axis in axes else n for axis, n in enumerate(self.shape)], before)

    def take_repeats(self, payload, masks):
        """@returns the payload without the byte"""
        first = payload[0] if payload else 0
        if first == 0 or first & 0b10000111:
            self.start((), False)
            return payload
        axes = tuple(axis for axis in range(3) if first >> (3 + axis) & 1)
        require(axes and all(self.shape[axis] > 1 for axis in axes), f"repeats {first}")
        require(not first & 64 or masks is not None, "the mask of a patch without missing samples repeats")
        self.start(axes, bool(first & 64))
        SEEN.update(f"repeats: {'xyz'[axis]}" for axis in axes)
        SEEN["repeats: the mask" if first & 64 else "repeats: not the mask" if masks is not None else "repeats: no mask"] += 1
        return payload[1:]

    def decode(self, payloads, masks, *planes):
        """@param planes [z, y, x] of each level, for the plain decoder
        @returns samples of each level, [z, y, x]"""
        payloads = list(payloads)
        if self.plain is None:
            payloads[-1] = self.take_repeats(payloads[-1], masks)
        if masks is not None:
            masks = [first_planes(mask, self.axes) for mask in masks] if self.mask_repeats or not self.axes else None
        planes = [[first_planes(plane, self.axes) for plane in levels] for levels in planes]
        decoded = self.plain.decode(payloads, masks, *planes)
        return [np.broadcast_to(samples, level_shape(self.shape, level)[::-1]) for level, samples in enumerate(decoded)]


def patch_decoder(dtype, shape, levels, before=None):
    """@param before the decoder of the layer before, which has decoded all levels"""
    return RepeatingDecoder(lambda plain_shape, plain: PlainDecoder(dtype, plain_shape, levels, plain), shape, levels, before)


# --- "Safeguards" -----------------------------------------------------------------------------------------------------


def power_of_two(codes, bits, offset):
    """The magnitudes of codes, float64."""
    codes = codes.astype(np.int64)
    exponent = np.clip((codes >> bits) + offset, -1100, 1100)
    x = ((codes & (2**bits - 1)) / 2.0**bits - 0.5) * 0.6931471805599453
    p = np.ones_like(x)
    for d in range(13, 0, -1):
        p = 1 + p * x * (1 / d)
    half = exponent >> 1
    return 1.4142135623730951 * p * np.ldexp(1.0, half) * np.ldexp(1.0, exponent - half)


def safeguarded_decoder(coder, dtype, shape, levels):
    return RepeatingDecoder(lambda plain_shape, _: SafeguardedDecoder(coder, dtype, plain_shape, levels), shape, levels)


class SafeguardedDecoder:
    """Decoder of the coders 5 to 7 of a patch that does not repeat. Planes are payloads of masks, which other tests decode: here their samples are
    given."""

    def __init__(self, coder, dtype, shape, levels):
        self.coder, self.S, self.shape, self.levels = coder, np.dtype(dtype), shape, levels

    def decode(self, payloads, masks, nonzero, positive):
        """@param masks, nonzero, positive  [z, y, x] of each level; masks may be None
        @returns samples of each level, [z, y, x]"""
        payloads = [Bytes(payload) for payload in payloads]
        head, masked = payloads[-1], masks is not None
        mode, least, scale = head.number("B"), 0, None
        SEEN[f"safeguards: mode {mode}"] += 1
        if mode == 0:
            require(not any(payload.left() for payload in payloads), "bytes in a patch of zeros")
            return [np.zeros(level_shape(self.shape, level)[::-1], self.S) for level in range(self.levels)]
        relative = self.coder == "interpolate-relative"
        require(mode in ((2, 3) if relative else (1,)), f"mode {mode}")
        if mode == 1 and self.coder == "interpolate-signs":
            least = np.frombuffer(head.take(self.S.itemsize), self.S)[0]
        if mode == 2:
            scale = head.number("B"), head.number("h")
            require(scale[0] <= 30, "the scale is too fine")
        if mode != 3:
            planes = [self.take_planes(payload) for payload in payloads]
            SEEN["safeguards: zeros"] += planes[-1][0] > 0
            SEEN["safeguards: signs"] += planes[-1][-1] > 0 and len(planes[-1]) > 1
            masks = [nonzero[level] if masks is None else nonzero[level] & masks[level] for level in range(self.levels)]
            masks = None if all(mask.all() for mask in masks) else masks
        inner = patch_decoder("int32" if mode == 2 else str(self.S), self.shape, self.levels)
        coded = inner.decode([payload.take(payload.left()) for payload in payloads], masks)
        SEEN["repeats: zeros inside"] += inner.mask_repeats and not masked
        if mode == 3:
            return coded
        return [self.restore(values, least, scale, nonzero[level], positive[level]) for level, values in enumerate(coded)]

    def take_planes(self, payload):
        sizes = []
        for _ in range(1 if self.coder == "interpolate-zeros" else 2):
            sizes.append(payload.varint())
            payload.take(sizes[-1])
        return sizes

    def restore(self, values, least, scale, nonzero, positive):
        if scale:
            values = power_of_two(values, *scale).astype(self.S)
            values = np.where(positive, values, -values)
        elif least:
            most = self.S.type(-least) if self.S.kind != "u" else least
            values = np.where(positive, np.maximum(values, least), np.minimum(values, most))
        return np.where(nonzero, values, self.S.type(0)).astype(self.S)
