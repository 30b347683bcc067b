#pragma once

#include <cstdint>
#include <vector>

#include "quarry/format/subfile.h"
#include "quarry/geometry/morton.h"

namespace quarry::query {

/// One patch of a field and step, or of a mask: its row of the patch table, and the subfile that holds its
/// payload.
struct LocatedPatch {
  std::uint32_t subfile = 0;
  format::PatchEntry patch;
};

/// Patches at some positions of a grid: all of them, or those on a piece of the curve.
struct PatchRange {
  PatchRange(const Box& positions, const MortonRun& codes = kAllCodes)  // NOLINT: a box is a range
      : positions(positions), codes(codes) {}

  std::uint64_t count() const { return CountCodes(positions, codes); }

  Box positions;
  MortonRun codes;
};

/// Finds the patches that a query touches: from the subfiles' own tables, or from an index over all of them.
/// Implementations are thread-safe.
class PatchLocator {
 public:
  virtual ~PatchLocator() = default;

  /// All patches of a range of a field and step, in Morton order, none missing.
  /// @errors kNotFound: no such step or field; kDataLoss: a table or record is damaged, or none of them has a
  /// patch
  virtual Result<std::vector<LocatedPatch>> Find(std::uint64_t step, std::size_t field_number,
                                                 const PatchRange& range) const = 0;

  /// The same patches of the mask of this field and step; empty when no sample is missing.
  virtual Result<std::vector<LocatedPatch>> FindMask(std::uint64_t step, std::size_t field_number,
                                                     const PatchRange& range) const = 0;
};

}  // namespace quarry::query
