#include "quarry/codec/validity_coder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "quarry/base/checked_math.h"
#include "quarry/codec/binary_coder.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

// First byte of the coarsest level of a patch that is not all valid.
enum class PatchMode : std::uint8_t {
  kMissing = 0,       // no valid sample at any level; no other byte follows
  kFirstMissing = 1,  // some are valid; sample (0, 0, 0) is missing
  kFirstValid = 2,    // some are missing; sample (0, 0, 0) is valid
};

using Word = std::uint64_t;
constexpr std::int64_t kWordBits = 64;

/// The lowest `count` bits, 1 <= count <= 64.
constexpr Word LowBits(std::int64_t count) { return ~Word{0} >> (kWordBits - count); }

/// A mask with one bit a sample. Every row along x begins with a word of its own; bits behind its end are 0.
class BitGrid {
 public:
  BitGrid() = default;
  explicit BitGrid(const Index3& shape)
      : shape_(shape),
        row_words_(CeilDivide(shape[0], kWordBits)),
        words_(static_cast<std::size_t>(row_words_ * shape[1] * shape[2])) {}

  const Index3& shape() const { return shape_; }
  std::int64_t row_words() const { return row_words_; }
  Word* Row(std::int64_t y, std::int64_t z) { return words_.data() + (y + shape_[1] * z) * row_words_; }
  const Word* Row(std::int64_t y, std::int64_t z) const {
    return words_.data() + (y + shape_[1] * z) * row_words_;
  }

 private:
  Index3 shape_{};
  std::int64_t row_words_ = 0;
  std::vector<Word> words_;
};

/// Axes of one sample say nothing: without them, planes and lines lie along x, where words are.
Index3 WithoutUnitAxes(const Index3& shape) {
  Index3 squeezed = {1, 1, 1};
  std::size_t axes = 0;
  for (const std::int64_t extent : shape) {
    if (extent > 1) squeezed[axes++] = extent;
  }
  return squeezed;
}

/// The first level of one sample.
int Depth(const Index3& shape) {
  int level = 0;
  while (Volume(LevelShape(shape, level)) > 1) ++level;
  return level;
}

BitGrid Pack(ByteSpan mask, const Index3& shape) {
  BitGrid grid(shape);
  const std::byte* next = mask.data();
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      Word* row = grid.Row(y, z);
      for (std::int64_t x = 0; x < shape[0]; ++x) {
        row[x / kWordBits] |= std::to_integer<Word>(*next++) << (x % kWordBits);
      }
    }
  }
  return grid;
}

/// The eight samples of every byte of a BitGrid.
constexpr auto kBytesOfBits = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (std::size_t bits = 0; bits < 256; ++bits) {
    for (std::size_t i = 0; i < 8; ++i) table[bits][i] = static_cast<std::uint8_t>(bits >> i & 1);
  }
  return table;
}();

Bytes Unpack(const BitGrid& grid) {
  const Index3& shape = grid.shape();
  Bytes mask;
  mask.resize(static_cast<std::size_t>(Volume(shape)));
  std::byte* out = mask.data();
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const Word* row = grid.Row(y, z);
      for (std::int64_t x = 0; x < shape[0]; x += 8) {
        const std::int64_t count = std::min<std::int64_t>(8, shape[0] - x);
        const std::size_t bits = row[x / kWordBits] >> (x % kWordBits) & 0xff;
        std::memcpy(out, kBytesOfBits[bits].data(), static_cast<std::size_t>(count));
        out += count;
      }
    }
  }
  return mask;
}

/// Bit i of the lower half goes to bit 2 i.
Word SpreadBits(Word bits) {
  bits &= 0xffffffff;
  bits = (bits | bits << 16) & 0x0000ffff0000ffff;
  bits = (bits | bits << 8) & 0x00ff00ff00ff00ff;
  bits = (bits | bits << 4) & 0x0f0f0f0f0f0f0f0f;
  bits = (bits | bits << 2) & 0x3333333333333333;
  return (bits | bits << 1) & 0x5555555555555555;
}

/// Bit 2 i goes to bit i of the lower half.
Word GatherBits(Word bits) {
  bits &= 0x5555555555555555;
  bits = (bits | bits >> 1) & 0x3333333333333333;
  bits = (bits | bits >> 2) & 0x0f0f0f0f0f0f0f0f;
  bits = (bits | bits >> 4) & 0x00ff00ff00ff00ff;
  bits = (bits | bits >> 8) & 0x0000ffff0000ffff;
  return (bits | bits >> 16) & 0xffffffff;
}

/// Every second sample of `grid`, from `first` on (0 or 1 on each axis); on axes with stride 1 all of them.
BitGrid Subsample(const BitGrid& grid, const Index3& first, const Index3& stride) {
  Index3 shape{};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    shape[axis] = CeilDivide(grid.shape()[axis] - first[axis], stride[axis]);
  }
  BitGrid kept(shape);
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const Word* from = grid.Row(first[1] + y * stride[1], first[2] + z * stride[2]);
      Word* to = kept.Row(y, z);
      if (stride[0] == 1) {
        std::copy_n(from, kept.row_words(), to);
        continue;
      }
      for (std::int64_t w = 0; w < grid.row_words(); ++w) {
        const Word half = GatherBits(from[w] >> first[0]);
        // The last half may have nothing for a row that is a word shorter.
        if (half != 0) to[w / 2] |= half << (w % 2 * 32);
      }
    }
  }
  return kept;
}

/// A level is refined along x, then y, then z. The samples that one of these passes adds, from the samples of
/// the finer level: odd along the pass, any along the axes before, even along those after.
BitGrid SamplesOfPass(const BitGrid& fine, std::size_t axis) {
  Index3 first{};
  Index3 stride{};
  first[axis] = 1;
  for (std::size_t i = 0; i < 3; ++i) stride[i] = i < axis ? 1 : 2;
  return Subsample(fine, first, stride);
}

/// Puts the samples of a pass between the known ones.
BitGrid Interleave(const BitGrid& known, const BitGrid& added, std::size_t axis) {
  Index3 shape = known.shape();
  shape[axis] += added.shape()[axis];
  BitGrid grid(shape);
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      Word* to = grid.Row(y, z);
      if (axis == 0) {
        const Word* even = known.Row(y, z);
        const Word* odd = added.Row(y, z);
        for (std::int64_t w = 0; w < grid.row_words(); ++w) {
          const std::int64_t shift = w % 2 * 32;
          to[w] = SpreadBits(even[w / 2] >> shift);
          if (w / 2 < added.row_words()) to[w] |= SpreadBits(odd[w / 2] >> shift) << 1;
        }
      } else {
        const bool odd = (axis == 1 ? y : z) % 2 != 0;
        const Word* from = (odd ? added : known).Row(axis == 1 ? y / 2 : y, axis == 2 ? z / 2 : z);
        std::copy_n(from, grid.row_words(), to);
      }
    }
  }
  return grid;
}

/// `grid` moved by one sample towards the beginning of its rows; their last sample stays where it is, too.
BitGrid NextAlongX(const BitGrid& grid) {
  BitGrid next(grid.shape());
  const std::int64_t last = grid.shape()[0] - 1;
  for (std::int64_t z = 0; z < grid.shape()[2]; ++z) {
    for (std::int64_t y = 0; y < grid.shape()[1]; ++y) {
      const Word* from = grid.Row(y, z);
      Word* to = next.Row(y, z);
      for (std::int64_t w = 0; w < grid.row_words(); ++w) {
        to[w] = from[w] >> 1 | (w + 1 < grid.row_words() ? from[w + 1] << 63 : 0);
      }
      to[last / kWordBits] |= from[last / kWordBits] & Word{1} << (last % kWordBits);
    }
  }
  return next;
}

/// What is known around up to 64 new samples of a row, one bit each. The pass has two known samples beside
/// each new one, `before` and `after`; the two axes across the pass are u and v, u the faster one.
struct Surroundings {
  Word mask;       ///< the bits that are samples
  Word before;     ///< the known sample before the new one, along the pass
  Word after;      ///< the known sample behind it; at the end of the axis, `before`
  Word unanimous;  ///< all known and new samples around are equal
  Word sum[3];     ///< bits of the number of valid ones among the four next known samples along u and v
  Word new_v;      ///< the new sample one back along v
  Word new_u;      ///< the new sample one back along u; unused where `serial`
  bool serial;     ///< u is x: the new sample one back along u is the one before in this row
  bool carry;      ///< where `serial`, the sample one back of the first
};

/// Adaptive models of a patch. They live as long as the patch: coarse levels teach the finer ones.
class Models {
 public:
  AdaptiveBit* Flag(std::size_t axis, bool some_valid, bool some_missing) {
    return &flags_[axis][(some_valid ? 1u : 0u) + (some_missing ? 2u : 0u) - 1u];
  }
  AdaptiveBit* Sample(std::size_t axis, std::size_t context) { return &samples_[axis][context]; }

 private:
  std::array<std::array<AdaptiveBit, 3>, 3> flags_;
  std::array<std::array<AdaptiveBit, 80>, 3> samples_;
};

/// Both sides of the arithmetic coder run through WordCoder below; `bit` is what a writer is to store, a
/// reader returns what was stored.
class BitWriter {
 public:
  explicit BitWriter(Bytes* out) : encoder_(out) {}
  bool Code(bool bit, AdaptiveBit* model) {
    encoder_.Encode(bit, model);
    return bit;
  }
  void Finish() { encoder_.Finish(); }

 private:
  BinaryEncoder encoder_;
};

class BitReader {
 public:
  explicit BitReader(ByteSpan bytes) : decoder_(bytes) {}
  bool Code(bool /*bit*/, AdaptiveBit* model) { return decoder_.Decode(model); }

 private:
  BinaryDecoder decoder_;
};

/// Codes new samples by how well `before` predicts them. A coded bit is 1 where it does: so a level without
/// surprises is a stream of ones, which the arithmetic coder writes as no bytes at all.
template <typename Bits>
class WordCoder {
 public:
  WordCoder(Bits bits, Models* models) : bits_(bits), models_(models) {}
  Bits& bits() { return bits_; }

  /// @param truth  the new samples; a reader does not look at it
  Word Code(std::size_t axis, const Surroundings& around, Word truth) {
    const Word agreed = around.unanimous & around.mask;
    Word result = around.before & agreed;
    Word open = around.mask & ~agreed;
    if (agreed != 0) {
      const bool hit = ((truth ^ around.before) & agreed) == 0;
      if (!bits_.Code(hit, models_->Flag(axis, result != 0, (agreed & ~result) != 0))) {
        result = 0;
        open = around.mask;
      }
    }
    for (; open != 0; open &= open - 1) {
      const int x = std::countr_zero(open);
      const bool before = Bit(around.before, x);
      const Word new_u = around.serial ? result << 1 | Word{around.carry} : around.new_u;
      const std::size_t context =
          Bit(around.before, x) | Bit(around.after, x) << 1 | Bit(around.new_v, x) << 2 | Bit(new_u, x) << 3 |
          Bit(around.sum[0], x) << 4 | Bit(around.sum[1], x) << 5 | Bit(around.sum[2], x) << 6;
      const bool hit = bits_.Code((Bit(truth, x) != 0) == before, models_->Sample(axis, context));
      result |= Word{hit == before} << x;
    }
    return result;
  }

 private:
  static std::size_t Bit(Word word, int x) { return static_cast<std::size_t>(word >> x & 1); }

  Bits bits_;
  Models* models_;
};

/// Stores new samples as they are, eight a byte, the first in the lowest bit.
class BitmapWriter {
 public:
  explicit BitmapWriter(Bytes* out) : out_(out) {}
  Word Code(std::size_t /*axis*/, const Surroundings& around, Word truth) {
    const int count = std::popcount(around.mask);
    for (int i = 0; i < count; ++i, ++bits_) {
      if (bits_ % 8 == 0) out_->push_back(std::byte{0});
      out_->back() |= static_cast<std::byte>((truth >> i & 1) << (bits_ % 8));
    }
    return truth;
  }

 private:
  Bytes* out_;
  std::uint64_t bits_ = 0;
};

/// The caller has checked that there is a bit for every sample.
class BitmapReader {
 public:
  explicit BitmapReader(ByteSpan bytes) : bytes_(bytes) {}
  Word Code(std::size_t /*axis*/, const Surroundings& around, Word /*truth*/) {
    const int count = std::popcount(around.mask);
    Word result = 0;
    for (int i = 0; i < count; ++i, ++bits_) {
      result |= (std::to_integer<Word>(bytes_[bits_ / 8]) >> (bits_ % 8) & 1) << i;
    }
    return result;
  }

 private:
  ByteSpan bytes_;
  std::size_t bits_ = 0;
};

/// One pass: the new samples between the `known` ones along `axis`, `count` along it.
class Pass {
 public:
  Pass(std::size_t axis, const BitGrid& known, std::int64_t count)
      : axis_(axis), known_(known), shape_(known.shape()) {
    shape_[axis] = count;
    if (axis == 0) next_ = NextAlongX(known);
  }

  /// @param truth  the new samples, shape as the result; null for a reader
  template <typename Coder>
  BitGrid Run(const BitGrid* truth, Coder* coder) const {
    BitGrid added(shape_);
    for (std::int64_t z = 0; z < shape_[2]; ++z) {
      for (std::int64_t y = 0; y < shape_[1]; ++y) {
        const Rows rows = RowsAround(added, y, z);
        Word* row = added.Row(y, z);
        for (std::int64_t w = 0; w < added.row_words(); ++w) {
          const Word known_truth = truth != nullptr ? truth->Row(y, z)[w] : 0;
          row[w] = coder->Code(axis_, Look(rows, row, w), known_truth);
        }
      }
    }
    return added;
  }

 private:
  /// A row of known samples before and behind a row of new ones.
  struct Pair {
    const Word* before;
    const Word* after;
  };
  struct Rows {
    Pair here;
    Pair back_u, forth_u;  ///< along x only: across other passes u is x itself
    Pair back_v, forth_v;
    const Word* new_u;  ///< along x only
    const Word* new_v;
  };

  /// Known rows around the new row (y, z), which may lie outside: then those of the nearest one inside.
  Pair KnownRows(std::int64_t y, std::int64_t z) const {
    y = std::clamp<std::int64_t>(y, 0, known_.shape()[1] - 1);
    z = std::clamp<std::int64_t>(z, 0, known_.shape()[2] - 1);
    if (axis_ == 0) return {known_.Row(y, z), next_.Row(y, z)};
    if (axis_ == 1) return {known_.Row(y, z), known_.Row(std::min(y + 1, known_.shape()[1] - 1), z)};
    return {known_.Row(y, z), known_.Row(y, std::min(z + 1, known_.shape()[2] - 1))};
  }

  Rows RowsAround(const BitGrid& added, std::int64_t y, std::int64_t z) const {
    Rows rows{};
    rows.here = KnownRows(y, z);
    rows.new_u = rows.new_v = rows.here.before;
    if (axis_ == 0) {
      rows.back_u = KnownRows(y - 1, z);
      rows.forth_u = KnownRows(y + 1, z);
      if (y > 0) rows.new_u = added.Row(y - 1, z);
    }
    if (axis_ == 2) {
      rows.back_v = KnownRows(y - 1, z);
      rows.forth_v = KnownRows(y + 1, z);
      if (y > 0) rows.new_v = added.Row(y - 1, z);
    } else {
      rows.back_v = KnownRows(y, z - 1);
      rows.forth_v = KnownRows(y, z + 1);
      if (z > 0) rows.new_v = added.Row(y, z - 1);
    }
    return rows;
  }

  /// Word w of a known row moved by one sample along x; at its ends the sample itself.
  Word BackAlongX(const Word* row, std::int64_t w) const {
    return row[w] << 1 | (w > 0 ? row[w - 1] >> 63 : row[0] & 1);
  }
  Word ForthAlongX(const Word* row, std::int64_t w) const {
    if (w + 1 < known_.row_words()) return row[w] >> 1 | row[w + 1] << 63;
    return row[w] >> 1 | (row[w] & Word{1} << ((shape_[0] - 1) % kWordBits));
  }

  /// @param row  the new row, known up to word w
  Surroundings Look(const Rows& rows, const Word* row, std::int64_t w) const {
    Surroundings around{};
    around.mask = LowBits(std::min(kWordBits, shape_[0] - w * kWordBits));
    const Word a = around.before = rows.here.before[w];
    const Word b = around.after = rows.here.after[w];
    Word back_a, back_b, forth_a, forth_b;
    if (axis_ == 0) {
      back_a = rows.back_u.before[w];
      back_b = rows.back_u.after[w];
      forth_a = rows.forth_u.before[w];
      forth_b = rows.forth_u.after[w];
      around.new_u = rows.new_u[w];
    } else {
      back_a = BackAlongX(rows.here.before, w);
      back_b = BackAlongX(rows.here.after, w);
      forth_a = ForthAlongX(rows.here.before, w);
      forth_b = ForthAlongX(rows.here.after, w);
      around.serial = true;
      around.carry = w > 0 ? row[w - 1] >> 63 != 0 : (a & 1) != 0;
      around.new_u = a;
    }
    around.new_v = rows.new_v[w];
    const Word down_a = rows.forth_v.before[w];
    const Word down_b = rows.forth_v.after[w];
    const Word up_a = rows.back_v.before[w];
    const Word up_b = rows.back_v.after[w];
    const Word all = a & b & back_a & back_b & forth_a & forth_b & up_a & up_b & down_a & down_b &
                     around.new_v & around.new_u;
    const Word any = a | b | back_a | back_b | forth_a | forth_b | up_a | up_b | down_a | down_b |
                     around.new_v | around.new_u;
    around.unanimous = all | ~any;
    // forth_a + forth_b + down_a + down_b in binary, 64 sums at once.
    const Word half_u = forth_a ^ forth_b, carry_u = forth_a & forth_b;
    const Word half_v = down_a ^ down_b, carry_v = down_a & down_b;
    around.sum[0] = half_u ^ half_v;
    around.sum[1] = carry_u ^ carry_v ^ (half_u & half_v);
    around.sum[2] = carry_u & carry_v;
    return around;
  }

  std::size_t axis_;
  const BitGrid& known_;
  BitGrid next_;
  Index3 shape_;
};

/// Refines `grid` to the shape of the next finer level.
/// @param fine  that level; null for a reader
template <typename Coder>
BitGrid Refine(BitGrid grid, const Index3& fine_shape, const BitGrid* fine, Coder* coder) {
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t count = fine_shape[axis] - grid.shape()[axis];
    if (count == 0) continue;
    const BitGrid truth = fine != nullptr ? SamplesOfPass(*fine, axis) : BitGrid();
    const BitGrid added = Pass(axis, grid, count).Run(fine != nullptr ? &truth : nullptr, coder);
    grid = Interleave(grid, added, axis);
  }
  return grid;
}

/// The levels that one payload holds, `finest` from the samples of `coarsest`. The coarsest payload holds
/// all down to one sample.
struct LevelRange {
  int coarsest;
  int finest;
};

LevelRange LevelsOfPayload(const PatchLayout& layout, int level) {
  if (level < layout.levels - 1) return {level + 1, level};
  return {std::max(level, Depth(layout.shape)), level};
}

/// Samples that a range of levels adds.
std::int64_t NewSamples(const Index3& shape, const LevelRange& range) {
  return Volume(LevelShape(shape, range.finest)) - Volume(LevelShape(shape, range.coarsest));
}

/// Appends the samples of a range of levels.
/// @param grids  every level of the patch
void EncodeRange(const std::vector<BitGrid>& grids, const LevelRange& range, Models* models, Bytes* out) {
  const auto run = [&](auto* coder) {
    for (int level = range.coarsest - 1; level >= range.finest; --level) {
      const BitGrid& fine = grids[static_cast<std::size_t>(level)];
      Refine(grids[static_cast<std::size_t>(level) + 1], fine.shape(), &fine, coder);
    }
  };
  const Models models_before = *models;
  Bytes stream;
  WordCoder<BitWriter> coder(BitWriter(&stream), models);
  run(&coder);
  coder.bits().Finish();
  const auto samples = static_cast<std::size_t>(NewSamples(grids[0].shape(), range));
  const std::size_t bitmap_size = CeilDivide<std::size_t>(samples, 8);
  // Noise decodes many times faster from a bitmap: the coder has to gain an eighth.
  if (stream.size() > bitmap_size - CeilDivide<std::size_t>(bitmap_size, 8)) {
    *models = models_before;
    stream.clear();
    BitmapWriter bitmap(&stream);
    run(&bitmap);
  }
  out->insert(out->end(), stream.begin(), stream.end());
}

Result<BitGrid> DecodeRange(BitGrid grid, const Index3& shape, const LevelRange& range, ByteSpan payload,
                            Models* models) {
  const auto samples = static_cast<std::size_t>(NewSamples(shape, range));
  const std::size_t bitmap_size = CeilDivide<std::size_t>(samples, 8);
  if (payload.size() > bitmap_size)
    return DataLoss("the mask of {} samples has {} bytes, more than {}", samples, payload.size(),
                    bitmap_size);
  const auto run = [&](auto coder) {
    for (int level = range.coarsest - 1; level >= range.finest; --level) {
      grid = Refine(std::move(grid), LevelShape(shape, level), nullptr, &coder);
    }
  };
  // The length tells them apart: the arithmetic coder is used where it is shorter.
  if (payload.size() == bitmap_size) {
    run(BitmapReader(payload));
  } else {
    run(WordCoder<BitReader>(BitReader(payload), models));
  }
  return grid;
}

class Decoder final : public PatchDecoder {
 public:
  explicit Decoder(const PatchLayout& layout) : layout_(layout), level_(layout.levels) {
    layout_.shape = WithoutUnitAxes(layout.shape);
  }

  int level() const override { return level_; }
  ByteSpan samples() const override { return samples_; }
  std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
  std::uint64_t memory() const override { return samples_.size() + samples_.size() / 8; }

  Status Advance(ByteSpan payload, Validity /*validity*/) override {
    if (level_ == 0) return InternalError("a mask of {} levels has no finer level", layout_.levels);
    const int level = level_ - 1;
    if (level_ == layout_.levels) QUARRY_RETURN_IF_ERROR(Start(&payload));
    if (state_ == State::kMixed) {
      QUARRY_ASSIGN_OR_RETURN(grid_, DecodeRange(std::move(grid_), layout_.shape,
                                                 LevelsOfPayload(layout_, level), payload, &models_));
      samples_ = Unpack(grid_);
    } else {
      if (!payload.empty())
        return DataLoss("level {} of a mask of equal samples has {} bytes", level, payload.size());
      const auto value = static_cast<std::byte>(state_ == State::kValid ? 1 : 0);
      samples_.assign(static_cast<std::size_t>(Volume(LevelShape(layout_.shape, level))), value);
    }
    level_ = level;
    return Status::Ok();
  }

 private:
  enum class State { kValid, kMissing, kMixed };

  /// Reads the mode off the front of the coarsest payload.
  Status Start(ByteSpan* payload) {
    if (payload->empty()) return Status::Ok();
    const auto mode = static_cast<PatchMode>(payload->front());
    if (mode > PatchMode::kFirstValid) return DataLoss("unknown mode {} of a mask", static_cast<int>(mode));
    *payload = payload->subspan(1);
    state_ = mode == PatchMode::kMissing ? State::kMissing : State::kMixed;
    grid_ = BitGrid({1, 1, 1});
    *grid_.Row(0, 0) = mode == PatchMode::kFirstValid ? 1 : 0;
    return Status::Ok();
  }

  PatchLayout layout_;
  int level_;
  State state_ = State::kValid;
  Models models_;
  BitGrid grid_;
  Bytes samples_;
};

Status CheckMask(const PatchLayout& layout, ByteSpan samples) {
  if (layout.type != DataType::kUint8)
    return InvalidArgument("a mask has samples of type uint8, not {}", Name(layout.type));
  if (samples.size() != static_cast<std::size_t>(Volume(layout.shape)) || samples.empty())
    return InvalidArgument("a mask of shape {} has {} samples", ToString(layout.shape), samples.size());
  if (std::any_of(samples.begin(), samples.end(), [](std::byte sample) { return sample > std::byte{1}; }))
    return InvalidArgument("a sample of a mask is neither 0 nor 1");
  return Status::Ok();
}

/// The mask at every level down to one sample, 0 the finest.
std::vector<BitGrid> Pyramid(const PatchLayout& layout, ByteSpan samples) {
  const Index3 shape = WithoutUnitAxes(layout.shape);
  const int levels = std::max(layout.levels, Depth(shape) + 1);
  std::vector<BitGrid> grids = {Pack(samples, shape)};
  while (static_cast<int>(grids.size()) < levels) {
    grids.push_back(Subsample(grids.back(), {0, 0, 0}, {2, 2, 2}));
  }
  return grids;
}

}  // namespace

Result<CodedPatch> ValidityCoder::Encode(const PatchLayout& layout, ByteSpan samples, Validity /*validity*/,
                                         double /*tolerance*/) const {
  QUARRY_RETURN_IF_ERROR(CheckMask(layout, samples));
  CodedPatch coded;
  coded.levels.resize(static_cast<std::size_t>(layout.levels));
  const std::vector<BitGrid> grids = Pyramid(layout, samples);
  for (int level = 0; level < layout.levels; ++level) {
    coded.decoded.push_back(Unpack(grids[static_cast<std::size_t>(level)]));
  }
  const bool some_valid = std::find(samples.begin(), samples.end(), std::byte{1}) != samples.end();
  const bool some_missing = std::find(samples.begin(), samples.end(), std::byte{0}) != samples.end();
  if (!some_missing) return coded;
  const PatchMode mode = !some_valid                       ? PatchMode::kMissing
                         : samples.front() == std::byte{1} ? PatchMode::kFirstValid
                                                           : PatchMode::kFirstMissing;
  coded.levels.back().push_back(static_cast<std::byte>(mode));
  if (mode == PatchMode::kMissing) return coded;
  Models models;
  for (int level = layout.levels - 1; level >= 0; --level) {
    EncodeRange(grids, LevelsOfPayload(layout, level), &models,
                &coded.levels[static_cast<std::size_t>(level)]);
  }
  return coded;
}

std::unique_ptr<PatchDecoder> ValidityCoder::NewDecoder(const PatchLayout& layout) const {
  return std::make_unique<Decoder>(layout);
}

bool ValidityCoder::SaysAllMissing(ByteSpan coarsest_payload) {
  return !coarsest_payload.empty() && coarsest_payload[0] == static_cast<std::byte>(PatchMode::kMissing);
}

}  // namespace quarry
