#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quarry/codec/coder.h"
#include "quarry/codec/lossless/passes.h"
#include "quarry/codec/lossless/step.h"
#include "quarry/codec/strided.h"
#include "quarry/geometry/patch_grid.h"

/// Shared by encoder and decoder of a lossless patch. Payload: docs/format.md, "Payload of lossless".
namespace quarry::lossless {

// First byte of the coarsest level: how the whole patch is stored. In the first two modes finer levels are
// empty.
enum class PatchMode : std::uint8_t {
  kConstant = 0,   // one sample follows
  kWhole = 1,      // planes of all samples of level 0 follow, missing ones too
  kLevels = 2,     // the number of dropped bits follows, then the levels
  kIntegers = 3,   // an exponent follows, then the levels of integers: see fixed_point.h
  kMultiples = 4,  // a unit and an offset follow, then the levels of integers: see quantum.h
};

// The unpredicted base grid has at most this many samples along each axis. If the patch has few levels, the
// payload of the coarsest also holds the coarser grids down to the base.
inline constexpr std::int64_t kBaseExtent = 4;

/// Number of grids of a patch: its levels, and the coarser grids inside the coder.
inline int GridCount(const PatchLayout& layout) {
  int grids = layout.levels;
  const auto extent = [&](int grid) { return std::ranges::max(LevelShape(layout.shape, grid)); };
  while (extent(grids - 1) > kBaseExtent) ++grids;
  return grids;
}

/// Every 2^level-th sample along each axis.
template <typename T>
Buffer<T> Subsample(std::span<const T> samples, const Index3& shape, int level) {
  Buffer<T> result;
  CopyStrided(samples.data(), shape, std::int64_t{1} << level, &result);
  return result;
}

/// @param samples  checked: as many as the shape says
std::vector<Bytes> EncodeLevels(const PatchLayout& layout, ByteSpan samples, Validity validity);

std::unique_ptr<PatchDecoder> NewPatchDecoder(const PatchLayout& layout);

}  // namespace quarry::lossless
