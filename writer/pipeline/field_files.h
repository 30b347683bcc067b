#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "quarry/description.h"
#include "writer/distribution/aggregation.h"
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
  std::size_t files;        ///< for each field and step, and for each mask
  distribution::AggregationStrategy aggregation;
  std::uint64_t memory_per_rank;
  const WritableLocation& place;  ///< the dataset
  Publisher* publisher;           ///< on rank 0; elsewhere null
  std::uint64_t* exchanges;       ///< see RankSetting
  PhaseSeconds* seconds;
};

/// The mask of a field and step.
struct FieldMask {
  std::uint64_t name = 0;       ///< 0: no sample of the grid is missing
  MaskDescription description;  ///< on rank 0
  std::uint64_t new_bytes = 0;  ///< on rank 0; 0 if the mask already existed
};

/// Writes the encoded patches of a field to subfiles: the ranks find the assignment together, and each sends
/// its patches to their aggregators. All calls are collective and return the same Status on every rank.
class FieldFiles {
 public:
  /// @param own  patches of this rank, sorted
  FieldFiles(const FileSetting& setting, const OwnPatches& own) : setting_(setting), own_(own) {}

  /// Whether the files of a field can be written, before anything is read: their summaries come to rank 0 in
  /// one message.
  /// @errors kResourceExhausted
  static Status CheckCount(std::size_t files, const PatchParts& parts);

  /// Writes the mask, unless an earlier step or field wrote the same one.
  Result<FieldMask> WriteMask() const;

  /// @param folder  its path
  /// @param header  of the first subfile
  /// @returns       on rank 0
  Result<std::vector<SubfileSummary>> WriteSamples(const std::string& folder,
                                                   const format::SubfileHeader& header) const;

  /// See GatherStoredBytes.
  Result<std::vector<std::uint64_t>> StoredBytes() const {
    return GatherStoredBytes(ranks(), own_.samples());
  }

 private:
  RankSetting ranks() const { return {setting_.comm, setting_.exchanges}; }
  Result<std::vector<SubfileSummary>> Write(const std::string& folder, const format::SubfileHeader& header,
                                            const OutgoingPatches& own) const;

  FileSetting setting_;
  const OwnPatches& own_;
};

/// The subfiles as a manifest lists them.
std::vector<SubfileDescription> SubfilesOf(const std::vector<SubfileSummary>& summaries);

/// Fills in the totals of a field's subfiles: levels, errors, bytes.
/// @param field  with min and max, and the tolerances of its rougher layers
void EnterSummaries(const std::vector<SubfileSummary>& summaries, const PatchParts& parts,
                    FieldStepDescription* field);

}  // namespace quarry::writer
