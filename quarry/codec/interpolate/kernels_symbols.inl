// The kernels of contexts and symbols; kernels.inl includes them, once per instruction set.

namespace {

/// Samples whose activity is computed at a time. The last ones of a run may lie beyond it.
constexpr std::size_t kActivityBlock = 16;

/// Neighbours before and after the samples of a run, along each of `kAxes` axes.
struct Neighbours {
  const std::uint16_t* left[3];
  const std::uint16_t* right[3];
};

template <int kAxes>
QUARRY_KERNEL void SumNeighbours(const Neighbours& of, std::size_t count, std::uint16_t* __restrict out) {
  constexpr std::uint16_t kScale = 6 / kAxes;
  const std::size_t blocks = (count + kActivityBlock - 1) / kActivityBlock;
  for (std::size_t i = 0; i < blocks * kActivityBlock; ++i) {
    std::uint16_t sum = 0;
    for (int a = 0; a < kAxes; ++a) sum = static_cast<std::uint16_t>(sum + of.left[a][i] + of.right[a][i]);
    out[i] = static_cast<std::uint16_t>(sum * kScale);
  }
}

/// Rows begin .. end of plane z of a band with kAxes odd axes.
template <int kAxes>
QUARRY_KERNEL void ActivityRows(const ContextArgs& args, std::int64_t z, std::int64_t begin, std::int64_t end,
                                std::uint16_t* out) {
  const std::int64_t width = args.shape[0];
  Neighbours of{};
  int axis = 0;
  if ((args.band & 2) != 0) {
    const Index3& source = args.source_shapes[1];
    of.left[axis] = args.magnitudes[1] + (z * source[1] + begin) * width;
    of.right[axis] = end < source[1] ? of.left[axis] + width : of.left[axis];
    ++axis;
  }
  if ((args.band & 4) != 0) {
    const Index3& source = args.source_shapes[2];
    of.left[axis] = args.magnitudes[2] + (z * source[1] + begin) * width;
    of.right[axis] = z + 1 < source[2] ? of.left[axis] + source[1] * width : of.left[axis];
    ++axis;
  }
  if ((args.band & 1) != 0) {
    const Index3& source = args.source_shapes[0];
    of.left[axis] = args.magnitudes[0] + (z * source[1] + begin) * source[0];
    of.right[axis] = of.left[axis] + 1;
  }
  SumNeighbours<kAxes>(of, static_cast<std::size_t>((end - begin) * width), out + begin * width);
}

template <int kAxes>
QUARRY_KERNEL void ActivityOfBand(const ContextArgs& args, std::int64_t z, std::uint16_t* out) {
  const std::int64_t width = args.shape[0];
  const std::int64_t rows = args.shape[1];
  const bool odd_x = (args.band & 1) != 0;
  if (odd_x && args.source_shapes[0][0] != width) {
    // One by one, from the first: each overruns into the next.
    for (std::int64_t y = 0; y < rows; ++y) ActivityRows<kAxes>(args, z, y, y + 1, out);
    return;
  }
  // The last row may have no neighbour after it.
  const bool last_alone = (args.band & 2) != 0 && args.source_shapes[1][1] == rows;
  const std::int64_t inner = last_alone ? rows - 1 : rows;
  if (inner > 0) ActivityRows<kAxes>(args, z, 0, inner, out);
  if (last_alone) ActivityRows<kAxes>(args, z, inner, rows, out);
  if (!odd_x) return;
  // The right neighbour of a row's last sample would be the next row's first: it counts as the left one.
  const std::uint16_t* plane = args.magnitudes[0] + z * rows * width;
  for (std::int64_t last = width - 1; last < rows * width; last += width) {
    const int surplus = (plane[last + 1] - plane[last]) * (6 / kAxes);
    out[last] = static_cast<std::uint16_t>(out[last] - surplus);
  }
}

QUARRY_KERNEL void ActivityPlane(const ContextArgs& args, std::int64_t z, std::uint16_t* out) {
  switch ((args.band & 1) + (args.band >> 1 & 1) + (args.band >> 2 & 1)) {
    case 1:
      return ActivityOfBand<1>(args, z, out);
    case 2:
      return ActivityOfBand<2>(args, z, out);
    default:
      return ActivityOfBand<3>(args, z, out);
  }
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

template <typename U>
QUARRY_KERNEL void Interleave(const InterleaveArgs<U>& args) {
  for (std::size_t row = 0; row < args.rows; ++row) {
    const U* __restrict even = args.even[row % 2] + row / 2 * args.evens;
    const U* __restrict odd = args.odd[row % 2] + row / 2 * args.odds;
    U* __restrict out = args.out + row * args.step;
    for (std::size_t i = 0; i < args.odds; ++i) {
      out[2 * i] = even[i];
      out[2 * i + 1] = odd[i];
    }
    if (args.evens > args.odds) out[2 * args.odds] = even[args.odds];
  }
}

/// Sums over the thresholds, so that each sweep over the samples can use vectors.
QUARRY_KERNEL void ClassifyScalar(const std::uint16_t* __restrict activity, std::size_t count,
                                  std::span<const std::uint16_t> thresholds, std::uint8_t* __restrict out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = 0;
  for (const std::uint16_t threshold : thresholds) {
    for (std::size_t i = 0; i < count; ++i)
      out[i] = static_cast<std::uint8_t>(out[i] + (activity[i] >= threshold));
  }
}

QUARRY_KERNEL std::size_t CompactScalar(const std::uint8_t* bytes, const std::uint8_t* valid,
                                        std::size_t count, std::uint8_t* out) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    out[kept] = bytes[i];
    kept += valid[i] != 0 ? 1 : 0;
  }
  return kept;
}

QUARRY_KERNEL void ExpandScalar(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count,
                                std::uint8_t fill, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = valid[i] != 0 ? *bytes++ : fill;
  }
}

QUARRY_KERNEL void UnfoldLowScalar(const std::uint8_t* __restrict symbols,
                                   const std::uint8_t* __restrict tables, std::size_t count,
                                   LowBits* low_bits, std::int32_t* __restrict indices) {
  const std::byte* bits = low_bits->bytes;
  std::size_t position = low_bits->position;
  for (std::size_t i = 0; i < count && position <= low_bits->limit; ++i) {
    const std::uint32_t shift = low_bits->widths[tables[i]];
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
  low_bits->position = position;
}

/// See choose_tables.h: Fold.
QUARRY_KERNEL bool FoldLowScalar(const std::int32_t* __restrict indices,
                                 const std::uint8_t* __restrict tables, const FoldTables& fold,
                                 std::size_t count, entropy::CodedSymbol* __restrict symbols,
                                 std::uint32_t* __restrict low) {
  bool fits = true;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t shift = fold.shifts[tables[i]];
    const std::uint32_t range = 1u << shift;
    const auto shifted = static_cast<std::int32_t>(static_cast<std::uint32_t>(indices[i]) + (range >> 1));
    const std::int32_t high = shifted >> shift;
    const std::uint32_t symbol =
        static_cast<std::uint32_t>(high) << 1 ^ static_cast<std::uint32_t>(high >> 31);
    symbols[i] = static_cast<entropy::CodedSymbol>(tables[i] << 8 | (symbol & 0xff));
    low[i] = static_cast<std::uint32_t>(shifted) & (range - 1);
    fits &= symbol <= fold.limits[tables[i]];
  }
  return fits;
}

/// One symbol of one lane; the renormalisation of all lanes of a round comes after it, in lane order.
QUARRY_KERNEL inline std::uint8_t DecodeSymbol(entropy::RansReader* reader, std::size_t lane,
                                               std::uint8_t table) {
  const std::uint32_t state = reader->states[lane];
  const std::uint32_t mask = (1u << reader->bits) - 1;
  const std::uint32_t slot =
      reader->slots[(static_cast<std::size_t>(table) << reader->bits) + (state & mask)];
  reader->states[lane] = ((slot & 0xfff) + 1) * (state >> reader->bits) + (slot >> 12 & 0xfff);
  return static_cast<std::uint8_t>(slot >> 24);
}

QUARRY_KERNEL inline void Renormalise(entropy::RansReader* reader, std::size_t lanes) {
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (reader->states[lane] < 1u << 15)
      reader->states[lane] = reader->states[lane] << 16 | reader->words[reader->position++];
  }
}

/// Codes symbols count - 1 .. begin, lane by lane: the tail of a run, or everything without vectors.
QUARRY_KERNEL void EncodeRansScalar(entropy::RansWriter* writer, const entropy::CodedSymbol* symbols,
                                    std::size_t begin, std::size_t count) {
  std::uint16_t* next = writer->next;
  for (std::size_t i = count; i-- > begin;) {
    std::uint32_t* const state = &writer->states[i & (writer->lanes - 1)];
    const entropy::SymbolCode code = writer->codes[symbols[i]];
    const auto complement = static_cast<std::uint32_t>(code >> entropy::kComplementAt & 0x7ff);
    const auto bias = static_cast<std::uint32_t>(code >> entropy::kBiasAt & 0x7fff);
    // From frequency * 2^(31 - bits) on, a state first gives up a word. Always written, kept only when
    // needed: a branch would be unpredictable.
    const std::uint32_t gives_up = *state > 0x7fffffffu - (complement << (31 - writer->bits)) ? 1 : 0;
    next[-1] = static_cast<std::uint16_t>(*state);
    next -= gives_up;
    const std::uint32_t left = *state >> (gives_up << 4);
    const auto quotient =
        static_cast<std::uint32_t>(std::uint64_t{left} * (code & 0xffffffffu) >> (code >> entropy::kShiftAt));
    *state = left + bias + quotient * complement;
  }
  writer->next = next;
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
