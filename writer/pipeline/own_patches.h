#pragma once

#include <mpi.h>

#include <limits>
#include <mutex>
#include <vector>

#include "writer/pipeline/payload_store.h"
#include "writer/pipeline/subfile_writer.h"
#include "writer/pipeline/transfer.h"

namespace quarry::writer {

/// Facts that every rank knows about all patches of a field before they are written; by patch index.
struct PatchSizes {
  std::vector<std::uint64_t> samples;       ///< stored bytes
  std::vector<std::uint64_t> masks;         ///< the same of the mask
  std::vector<std::uint64_t> mask_digests;  ///< see format::MaskDigest
  bool any_missing = false;                 ///< whether any sample of the grid is missing
};

/// The patches of a field that a rank has encoded, until they are written: rows and payload of samples and
/// mask.
class OwnPatches {
 public:
  /// @param folder, memory_limit  see PayloadStore
  OwnPatches(std::filesystem::path folder, std::uint64_t memory_limit)
      : store_(std::move(folder), memory_limit) {}

  std::size_t size() const { return patches_.size(); }
  const PayloadStore& store() const { return store_; }
  /// Range of the valid samples; without any, min() is infinity and max() minus infinity.
  double min() const { return min_; }
  double max() const { return max_; }
  /// Whether any of them refers to an earlier step.
  bool any_refers() const { return any_refers_; }

  /// @param samples  of the patch at level 0
  /// @threads safe; everything else only after the last Add
  Status Add(const EncodedPatchOfGrid& patch, std::int64_t samples);
  /// By ascending patch index, as they are sent.
  void Sort();

  std::vector<OutgoingPatch> samples() const;
  std::vector<OutgoingPatch> masks() const;

  /// @param patch_count  of the grid
  /// @collective
  Result<PatchSizes> ShareSizes(MPI_Comm comm, std::size_t patch_count) const;

 private:
  struct Own {
    OutgoingPatch samples;
    OutgoingPatch mask;
    bool masked = false;
  };

  std::mutex mutex_;  ///< serialises Add
  PayloadStore store_;
  std::vector<Own> patches_;
  bool any_refers_ = false;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
};

}  // namespace quarry::writer
