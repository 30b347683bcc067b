// Included once per instruction set, inside a namespace of its own. QUARRY_KERNEL gives every function the
// instruction set: compiler flags for the whole file would also apply to inline functions of other headers,
// and the linker might use those everywhere. The order of operations in every formula is part of the format.

namespace {

/// Predictions of `count` samples, whose taps are `stride` apart. Dense samples are adjacent; otherwise (a
/// column of a plane) the first taps are `source_step` and the predictions `out_step` apart.
template <bool kDense, typename T>
QUARRY_KERNEL void PredictRun(const Line<T>& line, const T* __restrict source, std::ptrdiff_t stride,
                              std::size_t source_step, std::size_t count, T* __restrict out,
                              std::size_t out_step) {
  const std::size_t from = kDense ? 1 : source_step;
  const std::size_t to = kDense ? 1 : out_step;
  const T w0 = line.weights[0];
  const T w1 = line.weights[1];
  const T w2 = line.weights[2];
  const T w3 = line.weights[3];
  const T* s0 = source;
  switch (line.kind) {
    case LineKind::kCopy:
      for (std::size_t i = 0; i < count; ++i) out[i * to] = s0[i * from];
      break;
    case LineKind::kTwo: {
      const T* s1 = source + stride;
      for (std::size_t i = 0; i < count; ++i) out[i * to] = (s0[i * from] + s1[i * from]) * T(0.5);
      break;
    }
    case LineKind::kFour: {  // (-1 9 9 -1) / 16
      const T* s1 = source + stride;
      const T* s2 = source + 2 * stride;
      const T* s3 = source + 3 * stride;
      for (std::size_t i = 0; i < count; ++i)
        out[i * to] = (s1[i * from] + s2[i * from]) * T(0.5625) - (s0[i * from] + s3[i * from]) * T(0.0625);
      break;
    }
    case LineKind::kSix: {  // (3 -25 150 150 -25 3) / 256
      const T* s1 = source + stride;
      const T* s2 = source + 2 * stride;
      const T* s3 = source + 3 * stride;
      const T* s4 = source + 4 * stride;
      const T* s5 = source + 5 * stride;
      for (std::size_t i = 0; i < count; ++i) {
        out[i * to] =
            ((s2[i * from] + s3[i * from]) * T(0.5859375) - (s1[i * from] + s4[i * from]) * T(0.09765625)) +
            (s0[i * from] + s5[i * from]) * T(0.01171875);
      }
      break;
    }
    case LineKind::kWeighted2: {
      const T* s1 = source + stride;
      for (std::size_t i = 0; i < count; ++i) out[i * to] = s0[i * from] * w0 + s1[i * from] * w1;
      break;
    }
    case LineKind::kWeighted3: {
      const T* s1 = source + stride;
      const T* s2 = source + 2 * stride;
      for (std::size_t i = 0; i < count; ++i)
        out[i * to] = (s0[i * from] * w0 + s1[i * from] * w1) + s2[i * from] * w2;
      break;
    }
    case LineKind::kWeighted4: {
      const T* s1 = source + stride;
      const T* s2 = source + 2 * stride;
      const T* s3 = source + 3 * stride;
      for (std::size_t i = 0; i < count; ++i)
        out[i * to] = (s0[i * from] * w0 + s1[i * from] * w1) + (s2[i * from] * w2 + s3[i * from] * w3);
      break;
    }
  }
}

template <typename T>
QUARRY_KERNEL void PredictLine(const Line<T>& line, const T* source, std::ptrdiff_t stride, std::size_t count,
                               T* out) {
  PredictRun<true>(line, source, stride, 1, count, out, 1);
}

/// Along x. With equal numbers of even and odd samples, one index shift holds for the whole plane: one sweep
/// computes the longest segment, and its results at the ends of the rows are replaced.
template <typename T>
QUARRY_KERNEL void PredictAlongX(const BandSource<T>& source, std::int64_t z, std::int64_t width,
                                 std::int64_t rows, T* out) {
  const T* plane = source.values + z * source.plane;
  const Segment<T>* swept = nullptr;
  if (source.row == width) {
    for (std::size_t s = 0; s < source.segment_count; ++s) {
      if (swept == nullptr || source.segments[s].count > swept->count) swept = source.segments + s;
    }
    PredictLine(swept->line, plane + swept->line.first, 1, static_cast<std::size_t>(rows * width), out);
  }
  for (std::size_t s = 0; s < source.segment_count; ++s) {
    const Segment<T>& segment = source.segments[s];
    if (&segment == swept) continue;
    if (segment.count == 1) {
      PredictRun<false>(segment.line, plane + segment.begin + segment.line.first, 1,
                        static_cast<std::size_t>(source.row), static_cast<std::size_t>(rows),
                        out + segment.begin, static_cast<std::size_t>(width));
      continue;
    }
    for (std::int64_t y = 0; y < rows; ++y) {
      PredictLine(segment.line, plane + y * source.row + segment.begin + segment.line.first, 1,
                  static_cast<std::size_t>(segment.count), out + y * width + segment.begin);
    }
  }
}

template <typename T>
QUARRY_KERNEL void PredictAlongY(const BandSource<T>& source, std::int64_t z, std::int64_t width, T* out) {
  const T* plane = source.values + z * source.plane;
  for (std::size_t s = 0; s < source.segment_count; ++s) {
    const Segment<T>& segment = source.segments[s];
    PredictLine(segment.line, plane + (segment.begin + segment.line.first) * width, width,
                static_cast<std::size_t>(segment.count * width), out + segment.begin * width);
  }
}

template <typename T>
QUARRY_KERNEL bool PredictAlongZ(const BandSource<T>& source, std::int64_t z, T* out) {
  const Segment<T>* segment = source.segments;
  while (z >= segment->begin + segment->count) ++segment;
  PredictLine(segment->line, source.values + (z + segment->line.first) * source.plane, source.plane,
              static_cast<std::size_t>(source.plane), out);
  return segment->line.extrapolated;
}

/// Weighted means of the predictions along the odd axes of a band, `step` samples apart.
template <bool kDense, typename T>
QUARRY_KERNEL void Average(const T* const* planes, const T* weights, int band, std::size_t begin,
                           std::size_t count, std::size_t step, T* __restrict out) {
  const std::size_t by = kDense ? 1 : step;
  const T wx = weights[0];
  const T wy = weights[1];
  const T wz = weights[2];
  const T* px = planes[0] + begin;
  const T* py = planes[1] + begin;
  const T* pz = planes[2] + begin;
  out += begin;
  if (band == 3) {
    for (std::size_t i = 0; i < count; ++i) out[i * by] = px[i * by] * wx + py[i * by] * wy;
  } else if (band == 5) {
    for (std::size_t i = 0; i < count; ++i) out[i * by] = px[i * by] * wx + pz[i * by] * wz;
  } else if (band == 6) {
    for (std::size_t i = 0; i < count; ++i) out[i * by] = py[i * by] * wy + pz[i * by] * wz;
  } else {
    for (std::size_t i = 0; i < count; ++i)
      out[i * by] = (px[i * by] * wx + py[i * by] * wy) + pz[i * by] * wz;
  }
}

template <typename T>
QUARRY_KERNEL void PredictPlane(const PredictArgs<T>& args, std::int64_t z, T* out) {
  const std::int64_t width = args.shape[0];
  const std::int64_t rows = args.shape[1];
  switch (args.band) {
    case 1:
      PredictAlongX(args.sources[0], z, width, rows, out);
      return;
    case 2:
      PredictAlongY(args.sources[1], z, width, out);
      return;
    case 4:
      PredictAlongZ(args.sources[2], z, out);
      return;
    default:
      break;
  }
  int available = 7;
  if ((args.band & 1) != 0) PredictAlongX(args.sources[0], z, width, rows, args.scratch[0]);
  if ((args.band & 2) != 0) PredictAlongY(args.sources[1], z, width, args.scratch[1]);
  if ((args.band & 4) != 0 && PredictAlongZ(args.sources[2], z, args.scratch[2])) available &= ~4;

  const T* planes[3] = {args.scratch[0], args.scratch[1], args.scratch[2]};
  const bool last_x =
      (args.band & 1) != 0 && args.sources[0].segments[args.sources[0].segment_count - 1].line.extrapolated;
  const bool last_y =
      (args.band & 2) != 0 && args.sources[1].segments[args.sources[1].segment_count - 1].line.extrapolated;
  const std::int64_t inner_rows = last_y ? rows - 1 : rows;
  Average<true>(planes, &args.weights[static_cast<std::size_t>(available)][0], args.band, 0,
                static_cast<std::size_t>(inner_rows * width), 1, out);
  if (last_y) {
    Average<true>(planes, &args.weights[static_cast<std::size_t>(available & ~2)][0], args.band,
                  static_cast<std::size_t>(inner_rows * width), static_cast<std::size_t>(width), 1, out);
  }
  if (!last_x) return;
  const std::size_t last = static_cast<std::size_t>(width - 1);
  Average<false>(planes, &args.weights[static_cast<std::size_t>(available & ~1)][0], args.band, last,
                 static_cast<std::size_t>(inner_rows), static_cast<std::size_t>(width), out);
  if (last_y) {
    Average<false>(planes, &args.weights[static_cast<std::size_t>(available & ~3)][0], args.band,
                   static_cast<std::size_t>(inner_rows * width) + last, 1, 1, out);
  }
}

template <typename T>
struct Limits;
template <>
struct Limits<float> {
  static constexpr float kLargest = 3.40282346638528859812e+38f;
  static constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding and subtracting it rounds to nearest
};
template <>
struct Limits<double> {
  static constexpr double kLargest = 1.79769313486231570815e+308;
  static constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52
};

/// Turns a prediction into a number, and into a whole one if all samples are whole.
template <typename T, bool kIntegral>
QUARRY_KERNEL inline T Sanitised(T predicted) {
  const T magnitude = predicted < 0 ? -predicted : predicted;
  T value = magnitude <= Limits<T>::kLargest ? predicted : T(0);
  if constexpr (kIntegral) {
    const T rounded = (value + Limits<T>::kRounder) - Limits<T>::kRounder;
    value = magnitude < Limits<T>::kRounder / 4 ? rounded : T(0);
  }
  return value;
}

template <typename T, bool kIntegral>
QUARRY_KERNEL bool QuantiseRun(const QuantiseArgs<T>& args, const T* __restrict samples,
                               const T* __restrict predicted, std::size_t count,
                               std::int32_t* __restrict indices, T* __restrict decoded,
                               std::uint16_t* __restrict magnitudes) {
  const T step = args.step;
  const T inverse = args.inverse_step;
  const T max_error = args.max_error;
  const T max_index = args.max_index;
  std::int32_t escapes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const T p = Sanitised<T, kIntegral>(predicted[i]);
    const T scaled = (samples[i] - p) * inverse;
    const T magnitude = scaled < 0 ? -scaled : scaled;
    const T rounded = (scaled + Limits<T>::kRounder) - Limits<T>::kRounder;
    // Makes the index safe to convert. Comparisons are false for a NaN.
    const T index = magnitude <= max_index ? rounded : T(0);
    const T limit = magnitude <= max_index ? max_error : T(-1);
    const T value = p + index * step;
    const T difference = samples[i] - value;
    const T error = difference < 0 ? -difference : difference;
    escapes |= error <= limit ? 0 : 1;
    decoded[i] = error <= limit ? value : samples[i];
    const std::int32_t q = static_cast<std::int32_t>(error <= limit ? index : T(0));
    indices[i] = q;
    const std::int32_t size = q < 0 ? -q : q;
    magnitudes[i] = static_cast<std::uint16_t>(size < kMaxMagnitude ? size : kMaxMagnitude);
  }
  return escapes != 0;
}

template <typename T>
QUARRY_KERNEL bool Quantise(const QuantiseArgs<T>& args, const T* samples, const T* predicted,
                            std::size_t count, std::int32_t* indices, T* decoded, std::uint16_t* magnitudes) {
  return args.integral ? QuantiseRun<T, true>(args, samples, predicted, count, indices, decoded, magnitudes)
                       : QuantiseRun<T, false>(args, samples, predicted, count, indices, decoded, magnitudes);
}

template <typename T, bool kIntegral>
QUARRY_KERNEL void DequantiseRun(const QuantiseArgs<T>& args, const std::int32_t* __restrict indices,
                                 const T* __restrict predicted, std::size_t count, T* __restrict decoded,
                                 std::uint16_t* __restrict magnitudes) {
  const T step = args.step;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t q = indices[i];
    decoded[i] = Sanitised<T, kIntegral>(predicted[i]) + static_cast<T>(q) * step;
    const std::int32_t size = q < 0 ? -q : q;
    magnitudes[i] = static_cast<std::uint16_t>(size < kMaxMagnitude ? size : kMaxMagnitude);
  }
}

template <typename T>
QUARRY_KERNEL void Dequantise(const QuantiseArgs<T>& args, const std::int32_t* indices, const T* predicted,
                              std::size_t count, T* decoded, std::uint16_t* magnitudes) {
  if (args.integral) {
    DequantiseRun<T, true>(args, indices, predicted, count, decoded, magnitudes);
  } else {
    DequantiseRun<T, false>(args, indices, predicted, count, decoded, magnitudes);
  }
}

QUARRY_KERNEL void AddPair(const std::uint16_t* __restrict left, const std::uint16_t* __restrict right,
                           std::size_t count, bool first, std::uint16_t* __restrict sum) {
  if (first) {
    for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<std::uint16_t>(left[i] + right[i]);
  } else {
    for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<std::uint16_t>(sum[i] + left[i] + right[i]);
  }
}

QUARRY_KERNEL void ActivityPlane(const ContextArgs& args, std::int64_t z, std::uint16_t* out) {
  const std::int64_t width = args.shape[0];
  const std::int64_t rows = args.shape[1];
  bool first = true;
  // y and z before x: the sweep of x first adds wrong values at the row ends, then corrects them.
  if ((args.band & 2) != 0) {
    const Index3& source = args.source_shapes[1];
    const std::uint16_t* plane = args.magnitudes[1] + z * source[0] * source[1];
    const std::int64_t inner = source[1] > rows ? rows : rows - 1;
    AddPair(plane, plane + width, static_cast<std::size_t>(inner * width), first, out);
    if (inner < rows) {
      const std::uint16_t* last = plane + inner * width;
      AddPair(last, last, static_cast<std::size_t>(width), first, out + inner * width);
    }
    first = false;
  }
  if ((args.band & 4) != 0) {
    const Index3& source = args.source_shapes[2];
    const std::int64_t size = source[0] * source[1];
    const std::uint16_t* left = args.magnitudes[2] + z * size;
    AddPair(left, z + 1 < source[2] ? left + size : left, static_cast<std::size_t>(size), first, out);
    first = false;
  }
  if ((args.band & 1) != 0) {
    const Index3& source = args.source_shapes[0];
    const std::uint16_t* plane = args.magnitudes[0] + z * source[0] * source[1];
    if (source[0] == width) {
      // The right neighbour of a row's last sample would be the next row's first: it counts as the left one.
      AddPair(plane, plane + 1, static_cast<std::size_t>(rows * width), first, out);
      for (std::int64_t y = 0; y < rows; ++y) {
        const std::int64_t last = y * width + width - 1;
        out[last] = static_cast<std::uint16_t>(out[last] - plane[last + 1] + plane[last]);
      }
    } else {
      for (std::int64_t y = 0; y < rows; ++y) {
        const std::uint16_t* row = plane + y * source[0];
        AddPair(row, row + 1, static_cast<std::size_t>(width), first, out + y * width);
      }
    }
  }
  const int odd = (args.band & 1) + (args.band >> 1 & 1) + (args.band >> 2 & 1);
  const std::uint16_t scale = odd == 1 ? 6 : odd == 2 ? 3 : 2;
  const std::size_t count = static_cast<std::size_t>(rows * width);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint16_t>(out[i] * scale);
}

/// The exponent of an activity and the highest bit of its mantissa, which are adjacent in a float32.
QUARRY_KERNEL void FineBins(const std::uint16_t* __restrict activity, std::size_t count,
                            std::uint8_t* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t a = activity[i];
    const std::int32_t bin = (__builtin_bit_cast(std::int32_t, static_cast<float>(a)) >> 22) - 2 * 127;
    out[i] = static_cast<std::uint8_t>(a < 2 ? a : bin);
  }
}

QUARRY_KERNEL void Classify(const std::uint16_t* __restrict activity, std::size_t count,
                            const std::uint16_t* __restrict thresholds, std::uint8_t* __restrict out) {
  std::uint16_t t[kMaxTables - 1];
  for (std::size_t k = 0; k < kMaxTables - 1; ++k) t[k] = thresholds[k];
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t a = activity[i];
    std::uint16_t table = 0;
    for (std::size_t k = 0; k < kMaxTables - 1; ++k) table = static_cast<std::uint16_t>(table + (a >= t[k]));
    out[i] = static_cast<std::uint8_t>(table);
  }
}

template <typename T>
QUARRY_KERNEL void Interleave(const T* __restrict even, const T* __restrict odd, std::size_t count,
                              T* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = even[i];
    out[2 * i + 1] = odd[i];
  }
}

QUARRY_KERNEL void Unfold(const std::uint8_t* __restrict symbols, std::size_t count,
                          std::int32_t* __restrict indices) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t symbol = symbols[i];
    indices[i] = (symbol >> 1) ^ -(symbol & 1);
  }
}

/// Returns the position after the last bit, or a value above `limit` if the bits end too early.
QUARRY_KERNEL std::size_t UnfoldLowScalar(const std::uint8_t* __restrict symbols,
                                          const std::uint8_t* __restrict tables, const std::uint8_t* shifts,
                                          const std::byte* bits, std::size_t position, std::size_t limit,
                                          std::size_t count, std::int32_t* __restrict indices) {
  for (std::size_t i = 0; i < count && position <= limit; ++i) {
    const std::uint32_t shift = shifts[tables[i]];
    const std::uint32_t symbol = symbols[i];
    const std::uint32_t high = (symbol >> 1) ^ (0 - (symbol & 1));
    std::uint32_t window = 0;
    for (std::size_t b = 0; b < 4; ++b)
      window |= static_cast<std::uint32_t>(bits[position / 8 + b]) << (8 * b);
    const std::uint32_t low = window >> (position % 8) & ((1u << shift) - 1);
    const std::uint32_t half = (1u << shift) >> 1;
    // Unsigned, because `high` may stand for a negative number.
    indices[i] = static_cast<std::int32_t>((high << shift) + low - half);
    position += shift;
  }
  return position;
}

/// One symbol of one lane; the renormalisation of all lanes of a round comes after it, in lane order.
QUARRY_KERNEL inline std::uint8_t DecodeSymbol(entropy::RansReader* reader, std::size_t lane,
                                               std::uint8_t table) {
  const std::uint32_t state = reader->states[lane];
  const std::uint32_t mask = (1u << reader->bits) - 1;
  const std::uint32_t slot =
      reader->slots[(static_cast<std::size_t>(table) << reader->bits) + (state & mask)];
  reader->states[lane] = ((slot >> 12 & 0xfff) + 1) * (state >> reader->bits) + (slot & 0xfff);
  return static_cast<std::uint8_t>(slot >> 24);
}

QUARRY_KERNEL inline void Renormalise(entropy::RansReader* reader, std::size_t lanes) {
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (reader->states[lane] < 1u << 15)
      reader->states[lane] = reader->states[lane] << 16 | reader->words[reader->position++];
  }
}

/// Symbols begin .. count, lane by lane: the tail of a band, or everything without vectors.
QUARRY_KERNEL bool DecodeRansScalar(entropy::RansReader* reader, const std::uint8_t* tables,
                                    std::size_t begin, std::size_t count, std::uint8_t* symbols) {
  for (std::size_t i = begin; i < count; i += reader->lanes) {
    const std::size_t lanes = count - i < reader->lanes ? count - i : reader->lanes;
    for (std::size_t lane = 0; lane < lanes; ++lane)
      symbols[i + lane] = DecodeSymbol(reader, lane, tables[i + lane]);
    Renormalise(reader, lanes);
    if (reader->position > reader->count) return false;
  }
  return true;
}

}  // namespace
