#pragma once

#include <cstdint>
#include <vector>

#include "quarry/format/subfile.h"

namespace quarry::query {

/// One patch of a field and step, or of a mask: its row of the patch table, and the subfile that holds its
/// payload.
struct LocatedPatch {
  std::uint32_t subfile = 0;
  format::PatchEntry patch;
};

/// Finds the patches that a query touches: from the subfiles' own tables, or from an index over all of them.
/// Implementations are thread-safe.
class PatchLocator {
 public:
  virtual ~PatchLocator() = default;

  /// All patches of a field and step whose position lies in `positions`, in Morton order, none missing.
  /// @errors kNotFound: no such step or field; kDataLoss: a table or record is damaged, or none of them has a
  /// patch
  virtual Result<std::vector<LocatedPatch>> Find(std::uint64_t step, std::size_t field_number,
                                                 const Box& positions) const = 0;

  /// The same patches of the mask of this field and step; empty when no sample is missing.
  virtual Result<std::vector<LocatedPatch>> FindMask(std::uint64_t step, std::size_t field_number,
                                                     const Box& positions) const = 0;
};

}  // namespace quarry::query
