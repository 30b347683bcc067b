#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "quarry/codec/entropy/binary_coder.h"
#include "quarry/codec/mask/bit_grid.h"

/// The two forms in which the new samples of a level are stored: predicted from their surroundings, or as a
/// bitmap. Each class has `Code(axis, around, truth)`, which returns the samples: a writer writes `truth`, a
/// reader ignores it.
namespace quarry::mask {

/// Known samples around up to 64 new samples of a row, one bit each. Each new sample lies between two known
/// ones along the pass, `before` and `after`; the two axes across the pass are u and v, u the faster one.
struct Surroundings {
  Word mask;       ///< the bits that are samples
  Word before;     ///< the known sample before the new one, along the pass
  Word after;      ///< the known sample after the new one; at the end of the axis, `before`
  Word unanimous;  ///< all known and new samples around are equal
  Word sum[3];     ///< bits of the number of valid ones among the four nearest known samples along u and v
  Word new_v;      ///< the new sample one back along v
  Word new_u;      ///< the new sample one back along u; unused where `serial`
  bool serial;     ///< u is x: the new sample one back along u is the previous one in this row
  bool carry;      ///< if `serial`: the sample before the first
};

/// Adaptive models of a patch. They live as long as the patch: coarse levels teach the finer ones.
class Models {
 public:
  entropy::AdaptiveBit* Flag(std::size_t axis, bool some_valid, bool some_missing) {
    return &flags_[axis][(some_valid ? 1u : 0u) + (some_missing ? 2u : 0u) - 1u];
  }
  entropy::AdaptiveBit* Sample(std::size_t axis, std::size_t context) { return &samples_[axis][context]; }

 private:
  std::array<std::array<entropy::AdaptiveBit, 3>, 3> flags_;
  std::array<std::array<entropy::AdaptiveBit, 80>, 3> samples_;
};

/// Codes whether `before` predicts each new sample. A coded bit is 1 if it does, so a level without surprises
/// is a stream of ones, which the arithmetic coder writes in no bytes at all. `Bits` is entropy::BitWriter or
/// entropy::BitReader.
template <typename Bits>
class PredictedSamples {
 public:
  PredictedSamples(Bits bits, Models* models) : bits_(bits), models_(models) {}

  /// @param truth  the new samples; a reader ignores them
  Word Code(std::size_t axis, const Surroundings& around, Word truth) {
    const Word agreed = around.unanimous & around.mask;
    Word result = around.before & agreed;
    Word open = around.mask & ~agreed;
    if (agreed != 0) {
      const bool hit = ((truth ^ around.before) & agreed) == 0;
      if (!bits_.Adaptive(hit, models_->Flag(axis, result != 0, (agreed & ~result) != 0))) {
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
      const bool hit = bits_.Adaptive((Bit(truth, x) != 0) == before, models_->Sample(axis, context));
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

}  // namespace quarry::mask
