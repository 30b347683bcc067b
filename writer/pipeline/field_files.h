#pragma once

#include <mpi.h>

#include <filesystem>
#include <vector>

#include "quarry/description.h"
#include "writer/distribution/aggregation.h"
#include "writer/distribution/placement.h"
#include "writer/pipeline/own_patches.h"
#include "writer/pipeline/phases.h"
#include "writer/pipeline/publish.h"
#include "writer/pipeline/transfer.h"

namespace quarry::writer {

/// Shared by the files of all fields.
struct FileSetting {
  MPI_Comm comm;
  const DatasetDescription& dataset;
  std::size_t grid_number;  ///< grid of the fields
  const PatchGrid& grid;
  const std::vector<std::int64_t>& morton_order;
  std::size_t files;  ///< for each field and step, and for each mask
  distribution::AggregationStrategy aggregation;
  Publisher* publisher;      ///< on rank 0; elsewhere null
  std::uint64_t* transfers;  ///< done so far, the same on every rank
  PhaseSeconds* seconds;
};

/// The mask of a field and step.
struct FieldMask {
  std::uint64_t name = 0;       ///< 0: no sample of the grid is missing
  MaskDescription description;  ///< on rank 0
  std::uint64_t new_bytes = 0;  ///< on rank 0; 0 if the mask already existed
};

/// Writes the encoded patches of a field to subfiles: every rank computes the same assignment and sends its
/// patches to their aggregators. All calls are collective and return the same Status on every rank.
class FieldFiles {
 public:
  /// @param own        patches of this rank, sorted
  /// @param placement  of all patches of the grid
  static Result<FieldFiles> Create(const FileSetting& setting, const OwnPatches& own,
                                   const distribution::Placement& placement);

  /// Writes the mask, unless an earlier step or field wrote the same one.
  Result<FieldMask> WriteMask() const;

  /// @param header  of the first subfile
  /// @returns       on rank 0
  Result<std::vector<SubfileSummary>> WriteSamples(const std::filesystem::path& folder,
                                                   const format::SubfileHeader& header) const;

  /// Stored bytes of every patch, by patch index.
  const std::vector<std::uint64_t>& stored_bytes() const { return sizes_.samples; }

 private:
  FieldFiles(const FileSetting& setting, const OwnPatches& own, const distribution::Placement& placement,
             PatchSizes sizes)
      : setting_(setting), own_(own), placement_(placement), sizes_(std::move(sizes)) {}

  std::vector<std::uint64_t> InMortonOrder(const std::vector<std::uint64_t>& by_index) const;
  Result<std::vector<SubfileSummary>> Write(const std::vector<std::uint64_t>& stored_bytes,
                                            const std::filesystem::path& folder,
                                            const format::SubfileHeader& header,
                                            const std::vector<OutgoingPatch>& mine) const;

  FileSetting setting_;
  const OwnPatches& own_;
  const distribution::Placement& placement_;
  PatchSizes sizes_;
};

/// The subfiles as a manifest lists them.
std::vector<SubfileDescription> SubfilesOf(const std::vector<SubfileSummary>& summaries);

/// Fills in the totals of a field's subfiles: levels, errors, bytes.
/// @param field  with min and max, and the tolerances of its rougher layers
void EnterSummaries(const std::vector<SubfileSummary>& summaries, const PatchParts& parts,
                    FieldStepDescription* field);

}  // namespace quarry::writer
