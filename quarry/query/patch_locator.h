#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

/// Patches at some positions of a grid: all of them, those on a piece of the curve, or those of listed
/// pieces.
struct PatchRange {
  PatchRange(const Box& positions, const MortonRun& codes = kAllCodes)  // NOLINT: a box is a range
      : positions(positions), codes(codes) {}
  /// @param listed  ascending; none overlap, and each code is that of a position. Outlives the range
  PatchRange(const Box& positions, std::span<const MortonRun> listed)
      : positions(positions), codes(kAllCodes), listed(listed) {}

  std::uint64_t count() const;

  Box positions;
  MortonRun codes;
  std::optional<std::span<const MortonRun>> listed;
};

/// The codes of a range, ascending, one run after the other.
class RangeRuns {
 public:
  /// @param within  only codes in this run
  explicit RangeRuns(const PatchRange& range, const MortonRun& within = kAllCodes);

  /// Nothing after the last.
  std::optional<MortonRun> Next();

 private:
  std::optional<MortonRuns> of_box_;  ///< otherwise they are listed
  std::span<const MortonRun> listed_;
  MortonRun within_;
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
