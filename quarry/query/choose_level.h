#pragma once

#include <vector>

#include "quarry/geometry/patch_grid.h"
#include "quarry/query/references.h"

/// The level and layer that a question leaves open.
namespace quarry::query {

/// Whether a record promises that a level shows all valid samples within `max_error`. Level 0 covers all of
/// them.
/// @tparam Record  of a patch or of a step: LevelEntry, LevelRecord
template <typename Record>
bool KeepsError(const Record& record, double max_error) {
  return record.max_error <= max_error && record.coverage >= 1;
}

/// The question, and the patches that meet its box.
struct LevelCandidates {
  const Query& query;
  const FieldDescription& field;
  const GridDescription& grid;
  const PatchGrid& patches;
  const std::vector<LocatedPatch>& entries;
  const std::vector<LocatedPatch>& masks;
  const FoundReferences& references;
  const std::vector<Box>& left_out;  ///< boxes without samples
};

/// The coarsest level that has a sample at every multiple of `stride`, with the value that level 0 promises
/// there: 2^level divides the stride along every axis of more than one sample. Level 0 if the coder filters
/// coarse levels, because their samples differ from the field's.
int LevelForStride(const GridDescription& grid, const PatchCoder& coder, const Index3& stride);

/// The level and layer of an answer, from the target of the query.
/// @errors kNotFound: no level and layer keep the error, or fit into the bytes; kDataLoss: the coder of the
/// field is unknown
Result<LevelChoice> ChooseLevel(const LevelCandidates& candidates);

}  // namespace quarry::query
