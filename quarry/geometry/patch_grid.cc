#include "quarry/geometry/patch_grid.h"

#include <algorithm>
#include <bit>

#include "quarry/base/checked_math.h"
#include "quarry/base/status.h"
#include "quarry/geometry/morton.h"

namespace quarry {

namespace {
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 31;
constexpr std::int64_t kMaxSamples = std::int64_t{1} << 58;  // byte counts of float64 fields stay below 2^62
}  // namespace

Box LevelBox(const Box& box, int level) { return {LevelShape(box.begin, level), LevelShape(box.end, level)}; }

Box SpacedBox(const Box& box, const Index3& spacing) {
  Box spaced;
  for (std::size_t a = 0; a < 3; ++a) {
    spaced.begin[a] = CeilDivide(box.begin[a], spacing[a]);
    spaced.end[a] = CeilDivide(box.end[a], spacing[a]);
  }
  return spaced;
}

Result<PatchGrid> PatchGrid::Create(const Index3& dims, const Index3& patch) {
  Index3 patches{};
  for (int a = 0; a < 3; ++a) {
    if (dims[a] < 1 || dims[a] > kMaxExtent) {
      return InvalidArgument("grid {} has {} samples along {}; allowed are 1 to {}", ToString(dims), dims[a],
                             kAxisNames[a], kMaxExtent);
    }
    if (patch[a] < 1 || !std::has_single_bit(static_cast<std::uint64_t>(patch[a]))) {
      return InvalidArgument("patch {} has {} samples along {}; every patch extent must be a power of two",
                             ToString(patch), patch[a], kAxisNames[a]);
    }
    patches[a] = CeilDivide(dims[a], patch[a]);
  }
  std::int64_t samples = 0;
  if (!CheckedMultiply(dims[0], dims[1], &samples) || !CheckedMultiply(samples, dims[2], &samples) ||
      samples > kMaxSamples) {
    return InvalidArgument("grid {} has more than {} samples; split it into several datasets", ToString(dims),
                           kMaxSamples);
  }
  std::int64_t volume = 0;
  if (!CheckedMultiply(patch[0], patch[1], &volume) || !CheckedMultiply(volume, patch[2], &volume) ||
      volume > kMaxPatchVolume) {
    return InvalidArgument("patch {} has more than {} samples; choose a smaller one, for example 64x64x64",
                           ToString(patch), kMaxPatchVolume);
  }
  for (int a = 0; a < 3; ++a) {
    if (patches[a] > kMaxPatchesPerAxis) {
      return InvalidArgument(
          "grid {} in patches of {} makes {} patches along {}; at most {} are allowed: use larger patches",
          ToString(dims), ToString(patch), patches[a], kAxisNames[a], kMaxPatchesPerAxis);
    }
  }
  if (Volume(patches) > PatchGrid::kMaxPatchCount) {
    return InvalidArgument(
        "grid {} in patches of {} makes {} patches; at most {} are allowed: use larger patches",
        ToString(dims), ToString(patch), Volume(patches), PatchGrid::kMaxPatchCount);
  }
  return PatchGrid(dims, patch, patches);
}

Index3 PatchGrid::PatchPosition(std::int64_t index) const {
  return {index % patches_[0], index / patches_[0] % patches_[1], index / patches_[0] / patches_[1]};
}

std::uint64_t PatchGrid::PatchMorton(std::int64_t index) const { return MortonEncode(PatchPosition(index)); }

Box PatchGrid::PatchBox(const Index3& position) const {
  Box box;
  for (int a = 0; a < 3; ++a) {
    box.begin[a] = position[a] * patch_[a];
    box.end[a] = std::min(box.begin[a] + patch_[a], dims_[a]);
  }
  return box;
}

Box PatchGrid::PatchesMeeting(const Box& samples) const {
  const Box inside = Intersect(samples, domain());
  if (inside.empty()) return {};
  Box positions;
  for (int a = 0; a < 3; ++a) {
    positions.begin[a] = inside.begin[a] / patch_[a];
    positions.end[a] = CeilDivide(inside.end[a], patch_[a]);
  }
  return positions;
}

std::int64_t PatchGrid::CurvePosition(std::int64_t index) const {
  return MortonRankOf(patches_, PatchPosition(index));
}

std::int64_t PatchGrid::PatchAtCurvePosition(std::int64_t curve_position) const {
  return PatchIndex(MortonDecode(MortonCodeOfRank(patches_, curve_position)));
}

std::vector<std::int64_t> PatchGrid::MortonOrder() const {
  std::vector<std::pair<std::uint64_t, std::int64_t>> order(static_cast<std::size_t>(patch_count()));
  for (std::int64_t i = 0; i < patch_count(); ++i) order[static_cast<std::size_t>(i)] = {PatchMorton(i), i};
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> indices(order.size());
  std::transform(order.begin(), order.end(), indices.begin(), [](const auto& entry) { return entry.second; });
  return indices;
}

int MaxLevels(const Index3& dims, const Index3& patch) {
  std::int64_t smallest = 0;
  for (int a = 0; a < 3; ++a) {
    if (dims[a] > 1 && (smallest == 0 || patch[a] < smallest)) smallest = patch[a];
  }
  return smallest == 0 ? 1 : std::bit_width(static_cast<std::uint64_t>(smallest));
}

Index3 LargestPatchShape(const Index3& dims, const Index3& patch) {
  return {std::min(dims[0], patch[0]), std::min(dims[1], patch[1]), std::min(dims[2], patch[2])};
}

namespace {

/// Doubles the smallest extent below that of `most`, x first, for as long as `fits` accepts the result.
template <typename Fits>
void Grow(const Index3& most, Index3* patch, Fits fits) {
  while (true) {
    std::size_t axis = 3;
    for (std::size_t a = 0; a < 3; ++a) {
      if ((*patch)[a] < most[a] && (axis == 3 || (*patch)[a] < (*patch)[axis])) axis = a;
    }
    if (axis == 3) return;
    Index3 larger = *patch;
    larger[axis] *= 2;
    if (!fits(larger)) return;
    *patch = larger;
  }
}

}  // namespace

Index3 DefaultPatch(const Index3& dims) {
  constexpr std::int64_t kSamples = 64 * 64 * 64;
  constexpr std::int64_t kLeast = 64;
  Index3 patch = {1, 1, 1};
  Grow(dims, &patch,
       [&](const Index3& larger) { return Volume(LargestPatchShape(dims, larger)) <= kSamples; });
  Index3 least;
  for (std::size_t a = 0; a < 3; ++a) least[a] = dims[a] > 1 ? kLeast : 1;
  Grow(least, &patch, [](const Index3& larger) { return Volume(larger) <= PatchGrid::kMaxPatchVolume; });
  return patch;
}

int DefaultLevels(const Index3& dims, const Index3& patch) {
  constexpr int kMost = 10;
  return std::min(MaxLevels(dims, patch), kMost);
}

}  // namespace quarry
