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

/// Along x. The longest segment comes first, in whole vectors; what it writes beyond its ends is then
/// replaced. With equal numbers of even and odd samples, one index shift holds for the whole plane, in one
/// sweep.
template <typename T>
QUARRY_KERNEL void PredictAlongX(const BandSource<T>& source, std::int64_t z, std::int64_t width,
                                 std::int64_t rows, T* out) {
  const T* plane = source.values + z * source.plane;
  const Segment<T>* longest = source.segments;
  for (std::size_t s = 1; s < source.segment_count; ++s) {
    if (source.segments[s].count > longest->count) longest = source.segments + s;
  }
  if (source.row == width) {
    PredictLine(longest->line, plane + longest->line.first, 1, static_cast<std::size_t>(rows * width), out);
  } else {
    constexpr std::int64_t kVector = kPadding / 2;
    const auto whole = static_cast<std::size_t>((longest->count + kVector - 1) / kVector * kVector);
    for (std::int64_t y = 0; y < rows; ++y) {
      PredictLine(longest->line, plane + y * source.row + longest->begin + longest->line.first, 1, whole,
                  out + y * width + longest->begin);
    }
  }
  for (std::size_t s = 0; s < source.segment_count; ++s) {
    const Segment<T>& segment = source.segments[s];
    if (&segment == longest) continue;
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

/// The magnitude by one bit operation.
QUARRY_KERNEL inline float Magnitude(float value) { return __builtin_fabsf(value); }
QUARRY_KERNEL inline double Magnitude(double value) { return __builtin_fabs(value); }

/// Turns a prediction into a number, and into a whole one if all samples are whole.
template <typename T, bool kIntegral>
QUARRY_KERNEL inline T Sanitised(T predicted) {
  const T magnitude = Magnitude(predicted);
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
    const T magnitude = Magnitude(scaled);
    const T rounded = (scaled + Limits<T>::kRounder) - Limits<T>::kRounder;
    // Makes the index safe to convert. Comparisons are false for a NaN.
    const T index = magnitude <= max_index ? rounded : T(0);
    const T limit = magnitude <= max_index ? max_error : T(-1);
    const T value = p + index * step;
    const T error = Magnitude(samples[i] - value);
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

QUARRY_KERNEL inline std::int32_t IndexOf(std::int32_t index) { return index; }
/// Index of a symbol without low bits.
QUARRY_KERNEL inline std::int32_t IndexOf(std::uint8_t symbol) {
  return static_cast<std::int8_t>((symbol >> 1) ^ -(symbol & 1));
}

/// @param source  indices, or symbols without low bits
template <typename T, bool kIntegral, typename Source>
QUARRY_KERNEL void Dequantise(T step, const Source* __restrict source, const T* __restrict predicted,
                              std::size_t count, T* __restrict decoded) {
  for (std::size_t i = 0; i < count; ++i)
    decoded[i] = Sanitised<T, kIntegral>(predicted[i]) + static_cast<T>(IndexOf(source[i])) * step;
}

template <typename Source>
QUARRY_KERNEL void MagnitudesOf(const Source* __restrict source, std::size_t count,
                                std::uint16_t* __restrict magnitudes) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t q = IndexOf(source[i]);
    const std::int32_t size = q < 0 ? -q : q;
    magnitudes[i] = static_cast<std::uint16_t>(size < kMaxMagnitude ? size : kMaxMagnitude);
  }
}

template <typename T, typename Source>
QUARRY_KERNEL void ReconstructRun(const ReconstructArgs<T>& args, const Source* source, std::size_t begin,
                                  std::size_t count) {
  if (args.integral) {
    Dequantise<T, true>(args.step, source, args.predicted + begin, count, args.decoded + begin);
  } else {
    Dequantise<T, false>(args.step, source, args.predicted + begin, count, args.decoded + begin);
  }
  if (args.magnitudes != nullptr) MagnitudesOf(source, count, args.magnitudes + begin);
}

/// Indices of symbols with their low bits. If these end too early, some are unset. Every instruction set has
/// its own.
QUARRY_KERNEL void UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables, std::size_t count,
                             LowBits* low_bits, std::int32_t* indices);

template <typename T>
QUARRY_KERNEL void Reconstruct(const ReconstructArgs<T>& args) {
  if (args.low_bits == nullptr) {
    ReconstructRun(args, args.symbols, 0, args.count);
    return;
  }
  // Few enough to stay in the first cache.
  constexpr std::size_t kRun = 256;
  std::int32_t indices[kRun];
  for (std::size_t begin = 0; begin < args.count; begin += kRun) {
    const std::size_t count = args.count - begin < kRun ? args.count - begin : kRun;
    UnfoldLow(args.symbols + begin, args.tables + begin, count, args.low_bits, indices);
    if (args.low_bits->position > args.low_bits->limit) return;
    ReconstructRun(args, indices, begin, count);
  }
}

}  // namespace

#include "quarry/codec/interpolate/kernels_symbols.inl"
