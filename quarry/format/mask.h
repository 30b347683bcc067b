#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "quarry/base/checksum.h"
#include "quarry/description.h"
#include "quarry/format/subfile.h"

/// Masks: which samples of a field and step are missing. A mask is a set of subfiles with the samples 1
/// (valid) and 0 (missing). Its name follows from its contents, so fields and steps with the same missing
/// samples share one. docs/format.md, "Masks".
namespace quarry::format {

/// Digest of the validity of one patch: of the sizes and checksums of the payloads in its mask's row.
std::uint64_t MaskDigest(const PatchEntry& row);

/// Name of the mask with these digests, one for each patch of the grid in Morton order; never 0.
/// @param grid  number of the grid: equal digests of two grids are two masks
std::uint64_t MaskName(std::span<const std::uint64_t> digests, std::size_t grid);

/// MaskName from digests that come one after the other.
class MaskNaming {
 public:
  /// @param digests  of the next patches
  void Add(std::span<const std::uint64_t> digests);
  std::uint64_t Name(std::size_t grid);

 private:
  StreamingChecksum checksum_;
};

/// "0123456789abcdef"
std::string MaskText(std::uint64_t name);
/// "masks/0123456789abcdef"
std::string MaskFolder(std::uint64_t name);

/// Header of a subfile of the mask `name`; the caller sets its number and its count of patches.
SubfileHeader MaskHeader(std::uint64_t name, const GridDescription& grid, PayloadOrder order);

}  // namespace quarry::format
