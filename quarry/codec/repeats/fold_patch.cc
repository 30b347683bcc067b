#include "quarry/codec/repeats/fold_patch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "quarry/codec/instruction_sets.h"
#include "quarry/codec/sample_span.h"

namespace quarry::repeats {
namespace {

/// Largest distance of a sample from the one that stands for it, as a share of the tolerance. The rest is for
/// the coder, which needs at most five more bits for each of the few samples that are left.
constexpr double kMostDistance = 31.0 / 32;

/// Samples next to each other that are compared before the result is looked at.
constexpr std::size_t kBlock = 256;

/// The lines of a patch along an axis. Sample i of line `at` of a slab is at (slab * count + i) * stride +
/// at.
struct Lines {
  Lines(const Index3& shape, std::size_t axis) : count(static_cast<std::size_t>(shape[axis])) {
    for (std::size_t a = 0; a < 3; ++a) {
      if (a != axis) (a < axis ? stride : slabs) *= static_cast<std::size_t>(shape[a]);
    }
  }
  std::size_t lines() const { return slabs * stride; }

  std::size_t count;       ///< samples of a line
  std::size_t stride = 1;  ///< from one sample of a line to the next; also the lines of a slab
  std::size_t slabs = 1;
};

/// A step that visits all of `count` blocks, far from each other one after the other: most patches differ
/// along an axis in most places, but not where they begin.
std::size_t ScatteredStep(std::size_t count) {
  std::size_t step = count * 5 / 8 + 1;
  while (std::gcd(step, count) != 1) ++step;
  return step;
}

/// Calls visit(first sample, first line, lines) for blocks of neighbouring lines until it returns false.
/// @return whether it never did
template <typename Visit>
bool ForEachBlock(const Lines& lines, Visit visit) {
  const std::size_t of_slab = (lines.stride + kBlock - 1) / kBlock;
  const std::size_t blocks = lines.slabs * of_slab;
  const std::size_t step = ScatteredStep(blocks);
  for (std::size_t n = 0, at = 0; n < blocks; ++n, at = (at + step) % blocks) {
    const std::size_t slab = at / of_slab;
    const std::size_t begin = at % of_slab * kBlock;
    const std::size_t block = std::min(kBlock, lines.stride - begin);
    if (!visit(slab * lines.count * lines.stride + begin, slab * lines.stride + begin, block)) return false;
  }
  return true;
}

/// Widens the ranges of `lines` neighbouring lines by `count` samples of each.
template <typename T>
struct JoinRanges {
  QUARRY_INLINE static void Run(const T* low, const T* high, std::size_t count, std::size_t stride,
                                std::size_t lines, T* __restrict least, T* __restrict most) {
    for (std::size_t i = 0; i < count; ++i, low += stride, high += stride) {
      for (std::size_t at = 0; at < lines; ++at) {
        least[at] = low[at] < least[at] ? low[at] : least[at];
        most[at] = high[at] > most[at] ? high[at] : most[at];
      }
    }
  }
};

/// The range of the valid samples of each line, or of more where several axes are folded.
template <typename T>
class Ranges {
 public:
  Ranges(const Index3& shape, std::span<const T> samples, Validity validity)
      : shape_(shape), least_(samples), most_(samples), valid_(validity) {}

  /// Folds each axis that leaves no range wider than `width`.
  Repeats Fold(double width) {
    Repeats folded;
    for (std::size_t axis = 3; axis-- > 0;) folded.along[axis] = shape_[axis] > 1 && FoldAxis(axis, width);
    return folded;
  }

  std::span<const T> least() const { return least_; }
  std::span<const T> most() const { return most_; }
  /// Whether a range has any sample; empty: all have.
  Validity valid() const { return valid_; }

 private:
  /// @return false, and nothing has changed, if a range would be too wide
  bool FoldAxis(std::size_t axis, double width) {
    const Lines lines(shape_, axis);
    std::vector<T> least(lines.lines());
    std::vector<T> most(lines.lines());
    std::vector<std::uint8_t> valid(valid_.empty() ? 0 : lines.lines());
    const bool narrow = ForEachBlock(lines, [&](std::size_t from, std::size_t to, std::size_t block) {
      if (valid.empty()) {
        Join(lines, from, block, &least[to], &most[to]);
      } else {
        JoinValid(lines, from, block, &least[to], &most[to], &valid[to]);
      }
      for (std::size_t line = to; line < to + block; ++line) {
        if ((valid.empty() || valid[line] != 0) && !IsWithin(width, least[line], most[line])) return false;
      }
      return true;
    });
    if (!narrow) return false;
    least_ = own_least_ = std::move(least);
    most_ = own_most_ = std::move(most);
    valid_ = own_valid_ = std::move(valid);
    shape_[axis] = 1;
    return true;
  }

  /// Integers of 64 bits have no width but 0: float64 does not tell all of them apart.
  static bool IsWithin(double width, T least, T most) {
    return least == most || (width > 0 && static_cast<double>(most) - static_cast<double>(least) <= width);
  }

  void Join(const Lines& lines, std::size_t from, std::size_t block, T* least, T* most) const {
    if (lines.stride == 1) return JoinLine(lines.count, &least_[from], &most_[from], least, most);
    std::copy_n(&least_[from], block, least);
    std::copy_n(&most_[from], block, most);
    RunOnBestInstructionSet<JoinRanges<T>>(&least_[from] + lines.stride, &most_[from] + lines.stride,
                                           lines.count - 1, lines.stride, block, least, most);
  }

  /// A line in memory order, as kLanes lines beside each other.
  static void JoinLine(std::size_t count, const T* low, const T* high, T* least, T* most) {
    constexpr std::size_t kLanes = 16;
    std::array<T, kLanes> lowest;
    std::array<T, kLanes> highest;
    lowest.fill(*low);
    highest.fill(*high);
    const std::size_t rows = count / kLanes;
    RunOnBestInstructionSet<JoinRanges<T>>(low, high, rows, kLanes, kLanes, lowest.data(), highest.data());
    for (std::size_t i = rows * kLanes; i < count; ++i) {
      lowest[0] = std::min(lowest[0], low[i]);
      highest[0] = std::max(highest[0], high[i]);
    }
    *least = *std::min_element(lowest.begin(), lowest.end());
    *most = *std::max_element(highest.begin(), highest.end());
  }

  void JoinValid(const Lines& lines, std::size_t from, std::size_t block, T* least, T* most,
                 std::uint8_t* valid) const {
    for (std::size_t i = 0; i < lines.count; ++i) {
      for (std::size_t at = 0; at < block; ++at) {
        const std::size_t sample = from + i * lines.stride + at;
        if (valid_[sample] == 0) continue;
        least[at] = valid[at] == 0 ? least_[sample] : std::min(least[at], least_[sample]);
        most[at] = valid[at] == 0 ? most_[sample] : std::max(most[at], most_[sample]);
        valid[at] = 1;
      }
    }
  }

  Index3 shape_;
  std::span<const T> least_;  // has shape_, as the others
  std::span<const T> most_;
  Validity valid_;
  std::vector<T> own_least_;
  std::vector<T> own_most_;
  std::vector<std::uint8_t> own_valid_;
};

/// A number between two others, which no rounding leaves.
template <typename T>
T Middle(T least, T most) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::clamp(static_cast<T>(least * T(0.5) + most * T(0.5)), least, most);
  } else {
    return static_cast<T>((static_cast<std::int64_t>(least) + static_cast<std::int64_t>(most)) >> 1);
  }
}

/// Whether the validity is that of the first plane everywhere.
bool MaskRepeats(const Repeats& repeats, Validity validity, const Index3& shape) {
  const Bytes mask = FirstPlanes(repeats, std::as_bytes(validity), shape, 1);
  const Bytes repeated = Repeat(repeats, mask, shape, 1);
  return std::memcmp(repeated.data(), validity.data(), repeated.size()) == 0;
}

/// @param samples  of the coded shape
/// @return nothing if the coder would code more than half as many samples as without: where few are valid,
///         each may be alone in its line
template <typename T>
std::optional<FoldedPatch> Finish(const Repeats& repeats, const Index3& shape, Validity validity,
                                  std::vector<T> samples, Validity valid) {
  const auto count = [](Validity of, std::size_t all) {
    return of.empty() ? all : static_cast<std::size_t>(std::count(of.begin(), of.end(), 1));
  };
  const auto all = static_cast<std::size_t>(Volume(shape));
  const std::size_t valid_before = count(validity, all);
  const bool mask = valid_before < all && MaskRepeats(repeats, validity, shape);
  const std::size_t coded = mask ? count(valid, samples.size()) : samples.size();
  if (2 * coded > valid_before) return std::nullopt;
  FoldedPatch folded{repeats};
  CopyPlausibly(samples.data(), valid, samples.data());
  const ByteSpan bytes = std::as_bytes(std::span(samples));
  folded.samples.assign(bytes.begin(), bytes.end());
  folded.repeats.mask = mask;
  if (mask) folded.validity.assign(valid.begin(), valid.end());
  return folded;
}

template <typename T>
std::optional<FoldedPatch> FoldClose(const PatchLayout& layout, std::span<const T> samples, Validity validity,
                                     double tolerance) {
  Ranges<T> ranges(layout.shape, samples, validity);
  const Repeats repeats = ranges.Fold(2 * kMostDistance * tolerance);
  if (!repeats.any()) return std::nullopt;
  std::vector<T> middle(ranges.least().size());
  double distance = 0;
  for (std::size_t i = 0; i < middle.size(); ++i) {
    if (!ranges.valid().empty() && ranges.valid()[i] == 0) continue;
    middle[i] = Middle(ranges.least()[i], ranges.most()[i]);
    const auto value = static_cast<double>(middle[i]);
    distance = std::max({distance, static_cast<double>(ranges.most()[i]) - value,
                         value - static_cast<double>(ranges.least()[i])});
  }
  // In a type with few digits the middle may be as far away as the ends are from each other.
  if (!(distance <= kMostDistance * tolerance)) return std::nullopt;
  std::optional<FoldedPatch> folded =
      Finish(repeats, layout.shape, validity, std::move(middle), ranges.valid());
  if (folded) folded->distance = distance;
  return folded;
}

/// Whether all samples of each line along an axis have the same bits.
bool SameAlong(std::size_t axis, const Index3& shape, std::size_t size, ByteSpan samples) {
  const Lines lines(shape, axis);
  const std::size_t slab = lines.stride * size;
  return ForEachBlock(lines, [&](std::size_t from, std::size_t, std::size_t block) {
    const std::byte* first = samples.data() + from * size;
    // All blocks of a slab that has no other lines, each with the next.
    if (block == lines.stride) return std::memcmp(first, first + slab, (lines.count - 1) * slab) == 0;
    for (std::size_t i = 1; i < lines.count; ++i) {
      if (std::memcmp(first, first + i * slab, block * size) != 0) return false;
    }
    return true;
  });
}

/// @param samples  without missing ones
std::optional<FoldedPatch> FoldSame(const PatchLayout& layout, ByteSpan samples) {
  const std::size_t size = SizeOf(layout.type);
  FoldedPatch folded;
  Index3 shape = layout.shape;  // the first samples in memory, which all others repeat, have it
  for (std::size_t axis = 3; axis-- > 0;) {
    if (shape[axis] == 1 || !SameAlong(axis, shape, size, samples)) continue;
    folded.repeats.along[axis] = true;
    if (Lines(shape, axis).slabs == 1) shape[axis] = 1;
  }
  if (!folded.repeats.any()) return std::nullopt;
  folded.samples = FirstPlanes(folded.repeats, samples, layout.shape, size);
  return folded;
}

template <typename Bits>
std::optional<FoldedPatch> FoldSameValid(const PatchLayout& layout, std::span<const Bits> samples,
                                         Validity validity) {
  Ranges<Bits> ranges(layout.shape, samples, validity);
  const Repeats repeats = ranges.Fold(0);
  if (!repeats.any()) return std::nullopt;
  return Finish(repeats, layout.shape, validity,
                std::vector<Bits>(ranges.least().begin(), ranges.least().end()), ranges.valid());
}

}  // namespace

std::optional<FoldedPatch> FoldSameBits(const PatchLayout& layout, ByteSpan samples, Validity validity) {
  if (validity.empty()) return FoldSame(layout, samples);
  return DispatchType(layout.type, [&]<typename T>(T) {
    using Bits = std::conditional_t<
        sizeof(T) == 1, std::uint8_t,
        std::conditional_t<sizeof(T) == 2, std::uint16_t,
                           std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
    return FoldSameValid<Bits>(layout, SamplesOf<Bits>(samples), validity);
  });
}

std::optional<FoldedPatch> FoldCloseSamples(const PatchLayout& layout, ByteSpan samples, Validity validity,
                                            double tolerance) {
  return DispatchNarrow(layout.type, [&]<typename T>(T) {
    return FoldClose<T>(layout, SamplesOf<T>(samples), validity, tolerance);
  });
}

}  // namespace quarry::repeats
