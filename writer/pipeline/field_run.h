#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quarry/base/progress.h"
#include "writer/pipeline/chunks.h"
#include "writer/pipeline/dataset_writer.h"
#include "writer/pipeline/encode.h"
#include "writer/pipeline/encoder_pool.h"
#include "writer/pipeline/own_patches.h"
#include "writer/pipeline/rounding.h"

namespace quarry::writer {

// One in so many parts of a rank's memory is for:
inline constexpr std::uint64_t kPayloadShare = 2;  // encoded patches, before they go to a file
inline constexpr std::uint64_t kPatchShare = 4;    // patches that fill or wait for a thread, of two chunks
inline constexpr std::uint64_t kChunkShare = 8;    // the samples of a chunk
inline constexpr std::uint64_t kHeldShare = 4;  // samples of a whole field, beside the patches of one chunk
inline constexpr std::uint64_t kEarlierShare = 8;  // decoded patches, for the next step

/// One field of one step on its way to encoded patches: this thread reads and exchanges chunk after chunk,
/// and hands whole patches to the threads that encode.
class DatasetWriter::FieldRun {
 public:
  /// @param earlier  null: patches refer to no other step
  FieldRun(DatasetWriter* writer, const FieldDescription& field, FieldSource* source, OwnPatches* own,
           EarlierPatches* earlier);

  /// @param source_name  for messages
  Status Encode(const std::string& source_name);

  /// Tolerances of the layers.
  const std::vector<double>& tolerances() const { return tolerances_; }
  const std::optional<OutlyingSamples>& outlying() const { return outlying_; }
  std::uint64_t raw_bytes() const { return w_.dataset_.GridOf(field_).samples() * source_sample_bytes(); }

 private:
  std::size_t source_sample_bytes() const { return SizeOf(source_type()); }
  DataType source_type() const { return wider_ ? DataType::kFloat64 : field_.type; }
  std::uint64_t ExpectedPatches() const {
    return static_cast<std::uint64_t>(grid_.patches.patch_count()) / static_cast<std::uint64_t>(w_.ranks_);
  }
  /// Bytes of all ranks together.
  std::uint64_t ShareOfMemory(std::uint64_t share) const {
    if (!w_.options_.memory_per_rank) return UINT64_MAX;
    return *w_.options_.memory_per_rank / share * static_cast<std::uint64_t>(w_.ranks_);
  }

  Status MakeChunks();

  Result<std::optional<redistribute::Redistribution>> DescribeExchange() const;

  void StartThreads();

  Result<EncodedPatchOfGrid> EncodeOne(const EncodeSettings& settings, const PatchSamples& patch);

  /// A tolerance relative to the range needs the whole field before the first patch is encoded. A field that
  /// fits the memory is held from here on, and read once.
  Status FindTolerance(const std::string& source_name);

  /// A range that few outlying samples make is none that a tolerance can be relative to.
  Status CheckRange(const SampleScan& scan, const std::string& source_name);

  /// Range of what this rank reads of the field. Local.
  Result<SampleScan> ScanField();

  /// Visits the samples of this rank's boxes: whole boxes, or pieces where the source loads them piece by
  /// piece and the field is not held. Local.
  template <typename Visit>
  Status LoadBoxes(const std::vector<Box>& boxes, Visit visit);

  template <typename Visit>
  Status LoadPieces(std::size_t number, const Box& box, Visit visit);

  /// Reads and exchanges a chunk, while patches of this one and the one before are encoded.
  Status GatherChunk(const Chunk& chunk);

  /// Whether samples stay where they were loaded until they are exchanged.
  bool InPlace() const { return !wider_ && (held_ || !source_.in_pieces()); }

  /// Local.
  Status Read(const Chunk& chunk, const std::vector<Box>& boxes, PatchGathering* gathering);

  /// Rounds the samples of a box, piece by piece. Local.
  Status RoundAndAdd(const Chunk& chunk, std::size_t number, const Box& box, const BoxView& view,
                     PatchGathering* gathering);

  /// Parts of a patch may have been rounded on several ranks.
  Status AgreeOnChanges(const Chunk& chunk, const PatchGathering& gathering);
  /// Changes of patches that other ranks encode go there. @returns those for this rank
  Result<std::vector<distribution::NumberLetter>> SendChanges(const PatchGathering& gathering);

  /// A whole patch goes to the threads, unless rounding has changed it too much: AgreeOnChanges will say so.
  void Take(const Chunk& chunk, PatchSamples patch);

  /// Over all chunks together every rank gets its even share of the patches.
  /// @param boxes  of every rank in the chunk, in coordinates of the whole grid
  redistribute::PatchSchedule Place(const Chunk& chunk, const distribution::RankBoxes& boxes);

  DatasetWriter& w_;
  const FieldDescription& field_;
  FieldSource& source_;
  OwnPatches& own_;
  EarlierPatches* const earlier_;
  const GridPlan& grid_;
  std::optional<FieldSource::Wider> wider_;
  std::vector<Chunk> chunks_;
  std::vector<double> tolerances_;  ///< tolerances of the layers
  std::vector<double> chosen_;      ///< samples for the look at the range
  std::optional<OutlyingSamples> outlying_;
  bool held_ = false;           ///< all of the field is loaded at once, and stays
  std::vector<BoxView> views_;  ///< views of the last loaded boxes, if not in pieces
  std::vector<float> rounded_;  ///< a piece of a wider source
  PatchChanges changes_;  ///< by rounding, of patches of the chunk; complete for those that this rank encodes
  std::optional<redistribute::Redistribution> redistribution_;
  std::optional<Progress> progress_;
  std::optional<EncoderPool> threads_;  ///< last: its threads use everything above
};

}  // namespace quarry::writer
