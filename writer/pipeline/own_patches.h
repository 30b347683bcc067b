#pragma once

#include <limits>
#include <mutex>
#include <vector>

#include "writer/distribution/patch_numbers.h"
#include "writer/pipeline/payload_store.h"
#include "writer/pipeline/subfile_writer.h"

namespace quarry::writer {

class OwnPatches;

/// The patches of a rank as one set of subfiles has them: their samples, or their masks. In the order of the
/// curve, and numbered by it.
class OutgoingPatches {
 public:
  std::size_t size() const;
  std::uint64_t CurvePosition(std::size_t patch) const;
  /// The first patch at a curve position or behind it.
  std::size_t FirstFrom(std::uint64_t curve_position) const;
  const PatchGrid& grid() const;
  const PatchParts& parts() const { return parts_; }

  /// See StoredBytes. @errors those of reading the store
  Result<std::uint64_t> Stored(std::size_t patch) const;
  Result<format::PatchEntry> Row(std::size_t patch) const;
  /// The payload of some parts, where it is kept, or in `buffer`.
  /// @param row  of the patch
  Result<ByteSpan> Payload(std::size_t patch, const format::PatchEntry& row, const format::PartRun& run,
                           Bytes* buffer) const;

 private:
  friend class OwnPatches;
  enum class Kind { kSamples, kMasks };
  OutgoingPatches(const OwnPatches& own, Kind kind);

  bool IsMask() const { return kind_ == Kind::kMasks; }
  /// Where the row of a patch is kept, and behind it its payload.
  Result<std::uint64_t> PositionOf(std::size_t patch) const;

  const OwnPatches* own_;
  Kind kind_;
  PatchParts parts_;
  std::uint64_t unmasked_bytes_;  ///< stored, of the mask of a patch in which no sample is missing
};

/// The patches of a field that a rank has encoded, until they are written. Rows and payload of samples and
/// masks are in a store, which keeps to its memory; of each patch 24 bytes are always in memory.
class OwnPatches {
 public:
  /// @param parts  of the patches
  /// @param folder, memory_limit  see PayloadStore
  OwnPatches(const PatchGrid& grid, const PatchParts& parts, std::filesystem::path folder,
             std::uint64_t memory_limit)
      : grid_(grid), parts_(parts), store_(std::move(folder), memory_limit) {}

  /// Makes room for so many patches.
  void Reserve(std::size_t patches) { patches_.reserve(patches); }

  std::size_t size() const { return patches_.size(); }
  /// Range of the valid samples; without any, min() is infinity and max() minus infinity.
  double min() const { return min_; }
  double max() const { return max_; }
  /// Whether any of them refers to an earlier step.
  bool any_refers() const { return any_refers_; }
  /// Whether a sample of any of them is missing.
  bool any_masked() const { return any_masked_; }

  /// @param samples  of the patch at level 0
  /// @threads safe; everything else only after the last Add
  Status Add(const EncodedPatchOfGrid& patch, std::int64_t samples);
  /// Into the order of the curve, in which they are sent.
  void Sort();

  OutgoingPatches samples() const { return {*this, OutgoingPatches::Kind::kSamples}; }
  OutgoingPatches masks() const { return {*this, OutgoingPatches::Kind::kMasks}; }

 private:
  friend class OutgoingPatches;

  /// A patch in the store: its row; if a sample is missing the position of its mask's row, behind which lies
  /// the mask's payload; then its payload. Payloads have the last part first.
  struct Own {
    std::uint64_t curve_position = 0;
    std::uint64_t position = 0;
    std::uint64_t stored : 63 = 0;
    std::uint64_t masked : 1 = 0;
  };
  static_assert(sizeof(Own) == distribution::kBytesOfOwnPatch);

  PatchGrid grid_;
  PatchParts parts_;
  std::mutex mutex_;  ///< serialises Add
  PayloadStore store_;
  std::vector<Own> patches_;
  bool any_refers_ = false;
  bool any_masked_ = false;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
};

}  // namespace quarry::writer
