#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "quarry/format/subfile.h"

/// Masks: which samples of a field and step are missing. A mask is a set of subfiles of its own, with the
/// samples 1 (valid) and 0 (missing), and its name follows from its contents, so that fields and steps with
/// the same missing samples share one. docs/format.md, "Masks".
namespace quarry::format {

/// What a mask's row says of the validity of one patch: the sizes and checksums of its payloads, digested.
std::uint64_t MaskDigest(const PatchEntry& row);

/// Name of the mask with these digests of all patches of the grid, in Morton order; never 0.
std::uint64_t MaskName(std::span<const std::uint64_t> digests);

/// "0123456789abcdef"
std::string MaskText(std::uint64_t name);
/// "masks/0123456789abcdef"
std::string MaskFolder(std::uint64_t name);

/// Header of a subfile of the mask `name`; number and count of patches are left to the caller.
SubfileHeader MaskHeader(std::uint64_t name, const Index3& dims, const Index3& patch, int levels,
                         PayloadOrder order);

}  // namespace quarry::format
