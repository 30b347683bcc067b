#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

/// The coarsest level that has a sample at every multiple of `stride`, with the value that level 0 promises
/// there: 2^level divides the stride along every axis of more than one sample. Level 0 if the coder filters
/// coarse levels, because their samples differ from the field's.
int LevelForStride(const GridDescription& grid, const PatchCoder& coder, const Index3& stride);

/// Chooses the level and layer of an answer from the target of its query. The patches that meet the box may
/// come run by run.
class LevelSurvey {
 public:
  /// @param query, field, grid, patches  outlive the survey
  LevelSurvey(const Query& query, const FieldDescription& field, const GridDescription& grid,
              const PatchGrid& patches);

  /// Whether the choice depends on the patches.
  bool NeedsPatches() const;
  /// @param masks  rows of the same patches
  void Add(std::span<const LocatedPatch> entries, std::span<const LocatedPatch> masks,
           const FoundReferences& references);

  /// @param left_out  boxes without samples
  /// @errors kNotFound: no level and layer keep the error, or fit into the bytes; kDataLoss: the coder of the
  /// field is unknown
  Result<LevelChoice> Choose(const std::vector<Box>& left_out) const;

 private:
  /// A level in a layer, over all patches.
  struct Candidate {
    bool shows = true;        ///< it shows all valid samples of each patch in the box within the wanted error
    double max_error = 0;     ///< largest recorded
    std::uint64_t bytes = 0;  ///< payload of an answer, with the layers before it, masks, and references
  };

  Candidate& At(int layer, int level) { return candidates_[parts_.Of(layer, level)]; }
  const Candidate& At(const LevelChoice& choice) const {
    return candidates_[parts_.Of(choice.layer, choice.level)];
  }
  Box PartOf(const LocatedPatch& entry) const;
  std::uint64_t PayloadOf(const LocatedPatch& entry, std::span<const ReferredPatch> references, int layer,
                          int level) const;
  std::uint64_t SamplesOf(const std::vector<Box>& left_out, const LevelChoice& choice) const;
  template <typename LevelOf, typename CostOf>
  std::optional<LevelChoice> ChooseAmongLayers(const LevelOf& level_of, const CostOf& cost_of) const;

  Result<LevelChoice> ChooseFor(const WithinError& within, const std::vector<Box>& left_out) const;
  Result<LevelChoice> ChooseFor(const WithinBytes& within, const std::vector<Box>& left_out) const;
  Result<LevelChoice> ChooseFor(const AtStride& at, const std::vector<Box>& left_out) const;
  Result<LevelChoice> ChooseFor(const AtLevel& at, const std::vector<Box>& left_out) const;

  const Query& query_;
  const FieldDescription& field_;
  const GridDescription& grid_;
  const PatchGrid& patches_;
  const PatchParts parts_;
  const double wanted_;  ///< error
  std::vector<Candidate> candidates_;
};

}  // namespace quarry::query
