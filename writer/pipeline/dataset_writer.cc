#include "writer/pipeline/dataset_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <sstream>

#include "quarry/base/missing.h"
#include "quarry/base/progress.h"
#include "quarry/base/utf8.h"
#include "quarry/format/invariants.h"
#include "quarry/format/manifest.h"
#include "writer/pipeline/chunks.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/encode.h"
#include "writer/pipeline/encoder_pool.h"
#include "writer/pipeline/field_files.h"
#include "writer/pipeline/own_patches.h"
#include "writer/pipeline/publish.h"
#include "writer/pipeline/rounding.h"

namespace quarry::writer {

namespace fs = std::filesystem;

/// State of rank 0 alone.
struct DatasetWriter::Root {
  Publisher publisher;
};

namespace {

// One in so many parts of a rank's memory is for:
constexpr std::uint64_t kPayloadShare = 2;  // encoded patches, before they go to a file
constexpr std::uint64_t kPatchShare = 4;    // patches that fill or wait for a thread, of two chunks
constexpr std::uint64_t kChunkShare = 8;    // the samples of a chunk
constexpr std::uint64_t kHeldShare = 4;     // samples of a whole field, beside the patches of one chunk
constexpr std::uint64_t kEarlierShare = 8;  // decoded patches, for the next step

/// Patches that wait for a thread, where nothing else bounds them: more would not be in the processor's
/// cache.
constexpr std::uint64_t kMostPatchBytes = 64 << 20;
/// Samples that are read at a time: large enough for a disk, small enough to be in the cache when they are
/// copied to their patches.
constexpr std::uint64_t kPieceBytes = 1 << 20;

/// Adds the time of a scope to a phase, but the time in which this thread waits for those that encode to
/// kEncode.
class MovingTimer {
 public:
  MovingTimer(PhaseSeconds* seconds, Phase phase, const EncoderPool& threads)
      : seconds_(*seconds),
        phase_(static_cast<std::size_t>(phase)),
        threads_(threads),
        waited_before_(threads.waited()),
        begin_(MPI_Wtime()) {}
  ~MovingTimer() {
    const double waited = threads_.waited() - waited_before_;
    seconds_[phase_] += MPI_Wtime() - begin_ - waited;
    seconds_[static_cast<std::size_t>(Phase::kEncode)] += waited;
  }
  MovingTimer(const MovingTimer&) = delete;
  MovingTimer& operator=(const MovingTimer&) = delete;

 private:
  PhaseSeconds& seconds_;
  const std::size_t phase_;
  const EncoderPool& threads_;
  const double waited_before_;
  const double begin_;
};

/// Range of the samples behind a view.
SampleScan ScanView(DataType type, const BoxView& view, const Box& box, std::optional<std::uint64_t> fill) {
  const std::size_t size = SizeOf(type);
  const Index3 shape = box.shape();
  SampleScan scan;
  Bytes row(static_cast<std::size_t>(shape[0]) * size);
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const std::byte* first = view.data + y * view.stride[1] + z * view.stride[2];
      ByteSpan samples(first, row.size());
      if (view.stride[0] != static_cast<std::int64_t>(size)) {
        for (std::int64_t x = 0; x < shape[0]; ++x)
          std::copy_n(first + x * view.stride[0], size, row.data() + static_cast<std::size_t>(x) * size);
        samples = row;
      }
      scan.Add(ScanSamples(type, samples, fill));
    }
  }
  return scan;
}

/// Valid samples at chosen places of the grid, for the look at their range. Local.
/// @param box  of the grid, whose samples the view has
void ChooseSamples(DataType type, const BoxView& view, const Box& box, const Index3& dims,
                   std::optional<std::uint64_t> fill, std::vector<double>* chosen) {
  const SampleChoice choice(static_cast<std::uint64_t>(Volume(dims)));
  DispatchType(type, [&]<typename T>(T) {
    for (std::int64_t z = box.begin[2]; z < box.end[2]; ++z) {
      for (std::int64_t y = box.begin[1]; y < box.end[1]; ++y) {
        const std::byte* row =
            view.data + (y - box.begin[1]) * view.stride[1] + (z - box.begin[2]) * view.stride[2];
        const auto first = static_cast<std::uint64_t>(dims[0] * (y + dims[1] * z));
        const std::uint64_t end = first + static_cast<std::uint64_t>(box.end[0]);
        for (std::uint64_t at = choice.Next(first + static_cast<std::uint64_t>(box.begin[0])); at < end;
             at += choice.stride()) {
          T sample;
          const auto x = static_cast<std::int64_t>(at - first) - box.begin[0];
          std::memcpy(&sample, row + x * view.stride[0], sizeof(T));
          if (!IsMissing(sample, fill)) chosen->push_back(static_cast<double>(sample));
        }
      }
    }
  });
}

}  // namespace

std::size_t ChooseFileCount(std::optional<int> wanted, const PatchGrid& grid, int ranks) {
  return distribution::UsableFiles(static_cast<std::size_t>(grid.patch_count()),
                                   static_cast<std::size_t>(wanted.value_or(std::max(1, ranks / 8))));
}

Status OutlyingRefusal(const OutlyingSamples& outlying, const std::string& field, const std::string& source,
                       const RangeWords& words) {
  return InvalidArgument(
      "the tolerance of field \"{}\" of \"{}\" is relative to its range, which comes from a few outliers: "
      "{}; if these samples are missing, say so ({}{}), otherwise give an absolute tolerance ({}), or insist "
      "({})",
      field, source, ToString(outlying), words.fill, outlying.value, words.tolerance, words.accept);
}

std::vector<double> CoderTolerances(const FieldDescription& field, double min, double max) {
  if (field.pointwise_relative_tolerance) return {*field.pointwise_relative_tolerance};
  const double range = min <= max ? max - min : 0;
  std::vector<double> tolerances = field.rougher;
  if (field.rougher_relative) {
    for (double& tolerance : tolerances) tolerance *= range;
  }
  const double relative = field.relative_tolerance.value_or(0) * range;
  tolerances.push_back(field.lossless ? 0 : field.tolerance.value_or(relative));
  return tolerances;
}

/// One field of one step on its way to encoded patches: this thread reads and exchanges chunk after chunk,
/// and hands whole patches to the threads that encode.
class DatasetWriter::FieldRun {
 public:
  /// @param earlier  null: patches refer to no other step
  FieldRun(DatasetWriter* writer, const FieldDescription& field, FieldSource* source, OwnPatches* own,
           EarlierPatches* earlier)
      : w_(*writer),
        field_(field),
        source_(*source),
        own_(*own),
        earlier_(earlier),
        grid_(w_.PlanOf(field)),
        wider_(source->wider()),
        placement_(grid_.morton_order.size(), 0) {
    w_.patches_per_rank_.assign(static_cast<std::size_t>(w_.ranks_), 0);
  }

  /// @param source_name  for messages
  Status Encode(const std::string& source_name) {
    QUARRY_RETURN_IF_ERROR(FindTolerance(source_name));
    QUARRY_RETURN_IF_ERROR(MakeChunks());
    QUARRY_ASSIGN_OR_RETURN(redistribution_, DescribeExchange());
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(w_.comm_, Guarded([&] {
                                           StartThreads();
                                           return Status::Ok();
                                         })));
    for (const Chunk& chunk : chunks_) QUARRY_RETURN_IF_ERROR(GatherChunk(chunk));
    source_.Release();
    const PhaseTimer timer(&w_.seconds_, Phase::kEncode);
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(w_.comm_, threads_->Drain()));
    threads_.reset();
    progress_.reset();
    own_.Sort();
    return Status::Ok();
  }

  /// Tolerances of the layers.
  const std::vector<double>& tolerances() const { return tolerances_; }
  const std::optional<OutlyingSamples>& outlying() const { return outlying_; }
  /// Placement of all patches of the grid.
  const distribution::Placement& placement() const { return placement_; }
  std::uint64_t raw_bytes() const { return w_.dataset_.GridOf(field_).samples() * source_sample_bytes(); }

 private:
  std::size_t source_sample_bytes() const { return SizeOf(source_type()); }
  DataType source_type() const { return wider_ ? DataType::kFloat64 : field_.type; }
  std::uint64_t ExpectedPatches() const {
    return grid_.morton_order.size() / static_cast<std::size_t>(w_.ranks_);
  }
  /// Bytes of all ranks together.
  std::uint64_t ShareOfMemory(std::uint64_t share) const {
    if (!w_.options_.memory_per_rank) return UINT64_MAX;
    return *w_.options_.memory_per_rank / share * static_cast<std::uint64_t>(w_.ranks_);
  }
  const std::vector<Box>& OfThisRank(const distribution::Ownership& boxes) const {
    return boxes[static_cast<std::size_t>(w_.rank_)];
  }

  Status MakeChunks() {
    const std::uint64_t bytes = held_ ? UINT64_MAX : ShareOfMemory(kChunkShare);
    for (const Box& patches : CutToChunks(grid_.patches, source_sample_bytes(), bytes, source_.unit())) {
      QUARRY_ASSIGN_OR_RETURN(const Chunk chunk, Chunk::Create(grid_.patches, patches));
      chunks_.push_back(chunk);
    }
    return Status::Ok();
  }

  Result<std::optional<redistribute::Redistribution>> DescribeExchange() const {
    using redistribute::Method;
    QUARRY_ASSIGN_OR_RETURN(
        auto redistribution,
        redistribute::Redistribution::Describe(w_.comm_, {grid_.patches.dims(), SizeOf(field_.type),
                                                          Method::kPointToPoint, w_.options_.exchange}));
    return std::optional(std::move(redistribution));
  }

  void StartThreads() {
    progress_.emplace(fmt::format("encode {}", field_.name), ExpectedPatches(),
                      w_.options_.progress && w_.root());
    const std::uint64_t most =
        w_.options_.memory_per_rank ? *w_.options_.memory_per_rank / kPatchShare : kMostPatchBytes;
    const EncodeSettings settings{field_.coder, field_.type, w_.dataset_.GridOf(field_).levels, tolerances_,
                                  field_.fill_bits()};
    threads_.emplace(
        w_.threads_, most,
        [this, settings](const PatchSamples& patch) -> Status {
          QUARRY_ASSIGN_OR_RETURN(const EncodedPatchOfGrid encoded, EncodeOne(settings, patch));
          return own_.Add(encoded, grid_.patches.PatchBox(patch.patch_index).volume());
        },
        [this](std::size_t done) { progress_->Update(done); });
  }

  Result<EncodedPatchOfGrid> EncodeOne(const EncodeSettings& settings, const PatchSamples& patch) {
    if (earlier_ == nullptr) return EncodePatchOfGrid(grid_.patches, settings, patch);
    QUARRY_ASSIGN_OR_RETURN(const DecodedPatch reference,
                            earlier_->Find(patch.patch_index, grid_.patches.PatchBox(patch.patch_index)));
    DecodedPatch decoded;
    Result<EncodedPatchOfGrid> encoded =
        EncodePatchOfGrid(grid_.patches, settings, patch, &reference, &decoded);
    if (encoded.ok()) earlier_->Keep(patch.patch_index, std::move(decoded));
    return encoded;
  }

  /// A tolerance relative to the range needs the whole field before the first patch is encoded. A field that
  /// fits the memory is held from here on, and read once.
  Status FindTolerance(const std::string& source_name) {
    tolerances_ = CoderTolerances(field_, 0, 0);
    if (!field_.relative_tolerance && !field_.rougher_relative) return Status::Ok();
    const PhaseTimer timer(&w_.seconds_, Phase::kRead);
    held_ = raw_bytes() <= ShareOfMemory(kHeldShare);
    SampleScan scan;
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(w_.comm_, Guarded([&]() -> Status {
                                           QUARRY_ASSIGN_OR_RETURN(scan, ScanField());
                                           return Status::Ok();
                                         })));
    QUARRY_ASSIGN_OR_RETURN(scan.min, MinOverRanks(w_.comm_, scan.min));
    QUARRY_ASSIGN_OR_RETURN(scan.max, MaxOverRanks(w_.comm_, scan.max));
    tolerances_ = CoderTolerances(field_, scan.min, scan.max);
    QUARRY_RETURN_IF_ERROR(CheckRange(scan, source_name));
    if (std::isfinite(tolerances_.front())) return Status::Ok();
    return InvalidArgument(
        "the value range [{}, {}] of \"{}\" is too large for a relative tolerance; give an "
        "absolute one (--tolerance)",
        scan.min, scan.max, source_name);
  }

  /// A range that few outlying samples make is none that a tolerance can be relative to.
  Status CheckRange(const SampleScan& scan, const std::string& source_name) {
    QUARRY_ASSIGN_OR_RETURN(const Bytes gathered, GatherBytes(w_.comm_, std::as_bytes(std::span(chosen_))));
    chosen_ = {};
    return OnRoot(w_.comm_, [&]() -> Status {
      std::vector<double> sample(gathered.size() / sizeof(double));
      if (!sample.empty()) std::memcpy(sample.data(), gathered.data(), gathered.size());
      outlying_ = FindOutlying(&sample, scan.min, scan.max);
      if (!outlying_ || w_.options_.accept_range) return Status::Ok();
      return OutlyingRefusal(*outlying_, field_.name, source_name, w_.options_.range_words);
    });
  }

  /// Range of what this rank reads of the field. Local.
  Result<SampleScan> ScanField() {
    SampleScan scan;
    const std::optional<std::uint64_t> fill = wider_ ? wider_->fill : field_.fill_bits();
    const distribution::Ownership owned = source_.Owned(grid_.patches.domain());
    QUARRY_RETURN_IF_ERROR(
        LoadBoxes(OfThisRank(owned), [&](std::size_t, const Box& piece, const BoxView& view) {
          scan.Add(ScanView(source_type(), view, piece, fill));
          ChooseSamples(source_type(), view, piece, grid_.patches.dims(), fill, &chosen_);
          return Status::Ok();
        }));
    return scan;
  }

  /// Visits the samples of this rank's boxes: whole boxes, or pieces where the source loads them piece by
  /// piece and the field is not held. Local.
  template <typename Visit>
  Status LoadBoxes(const std::vector<Box>& boxes, Visit visit) {
    if (source_.in_pieces() && !held_) {
      for (std::size_t b = 0; b < boxes.size(); ++b) QUARRY_RETURN_IF_ERROR(LoadPieces(b, boxes[b], visit));
      return Status::Ok();
    }
    if (!held_ || views_.empty()) {
      QUARRY_ASSIGN_OR_RETURN(views_, source_.Load(boxes));
    }
    for (std::size_t b = 0; b < boxes.size(); ++b) QUARRY_RETURN_IF_ERROR(visit(b, boxes[b], views_[b]));
    return Status::Ok();
  }

  template <typename Visit>
  Status LoadPieces(std::size_t number, const Box& box, Visit visit) {
    for (const Box& piece : CutToPieces(box, source_sample_bytes(), kPieceBytes, source_.unit())) {
      QUARRY_ASSIGN_OR_RETURN(const std::vector<BoxView> views, source_.Load({piece}));
      QUARRY_RETURN_IF_ERROR(visit(number, piece, views.front()));
    }
    return Status::Ok();
  }

  /// Reads and exchanges a chunk, while patches of this one and the one before are encoded.
  Status GatherChunk(const Chunk& chunk) {
    const distribution::Ownership boxes = source_.Owned(chunk.samples());
    const distribution::Ownership owned = distribution::CutToRegion(boxes, chunk.samples());
    changes_.assign(static_cast<std::size_t>(chunk.grid().patch_count()), 0);
    std::optional<PatchGathering> gathering;
    {
      const MovingTimer timer(&w_.seconds_, Phase::kRead, *threads_);
      const distribution::Placement placement = Place(chunk, owned);
      const PatchGathering::Owner owner{[this](std::uint64_t bytes) { threads_->Reserve(bytes); },
                                        [&](PatchSamples patch) { Take(chunk, std::move(patch)); }};
      QUARRY_RETURN_IF_ERROR(AgreeOnStatus(w_.comm_, Guarded([&] {
                                             gathering.emplace(chunk.grid(), field_.type, owned, placement,
                                                               w_.rank_, InPlace(), owner);
                                             return Read(chunk, OfThisRank(boxes), &*gathering);
                                           })));
      QUARRY_RETURN_IF_ERROR(AgreeOnChanges(chunk));
    }
    const MovingTimer timer(&w_.seconds_, Phase::kExchange, *threads_);
    return gathering->Exchange(w_.comm_, &*redistribution_);
  }

  /// Whether samples stay where they were loaded until they are exchanged.
  bool InPlace() const { return !wider_ && (held_ || !source_.in_pieces()); }

  /// Local.
  Status Read(const Chunk& chunk, const std::vector<Box>& boxes, PatchGathering* gathering) {
    return LoadBoxes(boxes, [&](std::size_t number, const Box& box, const BoxView& view) -> Status {
      QUARRY_RETURN_IF_ERROR(threads_->status());
      if (wider_) return RoundAndAdd(chunk, number, box, view, gathering);
      gathering->Add(number, Translate(box, chunk.samples().begin), view);
      return Status::Ok();
    });
  }

  /// Rounds the samples of a box, piece by piece. Local.
  Status RoundAndAdd(const Chunk& chunk, std::size_t number, const Box& box, const BoxView& view,
                     PatchGathering* gathering) {
    Float32Rounding rounding(field_, wider_->fill);
    const Index3& origin = chunk.samples().begin;
    for (const Box& piece : CutToPieces(box, sizeof(double), kPieceBytes, {1, 1, 1})) {
      const BoxView part{redistribute::FirstSample(view, box, piece), view.stride};
      const Box in_chunk = Translate(piece, origin);
      rounded_.resize(static_cast<std::size_t>(piece.volume()));
      QUARRY_RETURN_IF_ERROR(rounding.Round(part, in_chunk, chunk.grid(), origin, changes_, rounded_));
      gathering->Add(number, in_chunk, BoxView::Dense(rounded_.data(), in_chunk, sizeof(float)));
    }
    return Status::Ok();
  }

  /// Parts of a patch may have been rounded on several ranks.
  Status AgreeOnChanges(const Chunk& chunk) {
    if (!wider_) return Status::Ok();
    QUARRY_RETURN_IF_ERROR(MaxOverRanks(w_.comm_, changes_));
    // The same numbers and the same answer on every rank.
    return CheckChanges(field_, chunk.grid(), chunk.samples().begin, changes_, tolerances_.back());
  }

  /// A whole patch goes to the threads, unless rounding has changed it too much: AgreeOnChanges will say so.
  void Take(const Chunk& chunk, PatchSamples patch) {
    patch.change = changes_[static_cast<std::size_t>(patch.patch_index)];
    patch.patch_index = chunk.IndexInWhole(patch.patch_index);
    if (patch.change > 0 && ToleranceAfter(tolerances_.back(), patch.change) == 0) {
      threads_->Release(patch.samples.size());
    } else {
      threads_->Submit(std::move(patch));
    }
  }

  /// Over all chunks together every rank gets its even share of the patches.
  distribution::Placement Place(const Chunk& chunk, const distribution::Ownership& owned) {
    const std::vector<std::int64_t> target =
        distribution::NextTargetCounts(w_.patches_per_rank_, chunk.grid().patch_count());
    distribution::Placement placement =
        distribution::PlacePatches(chunk.grid(), owned, w_.options_.placement, target);
    for (std::size_t p = 0; p < placement.size(); ++p) {
      placement_[static_cast<std::size_t>(chunk.IndexInWhole(static_cast<std::int64_t>(p)))] = placement[p];
      ++w_.patches_per_rank_[static_cast<std::size_t>(placement[p])];
    }
    return placement;
  }

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
  bool held_ = false;            ///< all of the field is loaded at once, and stays
  std::vector<BoxView> views_;   ///< views of the last loaded boxes, if not in pieces
  std::vector<float> rounded_;   ///< a piece of a wider source
  std::vector<double> changes_;  ///< by rounding, of each patch of the chunk, over all ranks
  distribution::Placement placement_;
  std::optional<redistribute::Redistribution> redistribution_;
  std::optional<Progress> progress_;
  std::optional<EncoderPool> threads_;  ///< last: its threads use everything above
};

DatasetWriter::DatasetWriter(MPI_Comm comm, const PipelineOptions& options)
    : comm_(comm), options_(options), rank_(Rank(comm)), ranks_(Size(comm)) {}

DatasetWriter::~DatasetWriter() = default;

Result<std::unique_ptr<DatasetWriter>> DatasetWriter::Open(MPI_Comm comm, const std::string& path,
                                                           OpenMode mode, const PipelineOptions& options) {
  std::unique_ptr<DatasetWriter> writer(new DatasetWriter(comm, options));
  writer->path_ = path;
  QUARRY_ASSIGN_OR_RETURN(writer->threads_, ThreadsOfRank(comm));
  std::string existing;
  QUARRY_RETURN_IF_ERROR(OnRoot(comm, [&]() -> Status {
    std::error_code ignored;
    const bool append = mode == OpenMode::kAppend || (mode == OpenMode::kResume && fs::exists(path, ignored));
    QUARRY_ASSIGN_OR_RETURN(Publisher publisher, Publisher::Open(path, append, options.break_lock));
    if (publisher.existing()) existing = format::EncodeManifest(*publisher.existing());
    writer->root_ = std::make_unique<Root>(Root{std::move(publisher)});
    return Status::Ok();
  }));
  QUARRY_ASSIGN_OR_RETURN(existing, BroadcastText(comm, existing));
  if (!existing.empty()) {
    QUARRY_ASSIGN_OR_RETURN(writer->existing_, format::DecodeDatasetManifest(existing));
  }
  return writer;
}

Result<PublishedStep> DatasetWriter::Published(std::uint64_t step) {
  std::string text;
  QUARRY_RETURN_IF_ERROR(OnRoot(comm_, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(const PublishedStep published, root_->publisher.Published(step));
    // Neither names nor numbers have a zero byte.
    const auto add = [&](const std::string& part) { text.append(part).push_back('\0'); };
    add(published.time ? fmt::format("{}", *published.time) : "");
    for (const auto& [field, source] : published.sources) {
      add(field);
      add(source);
    }
    return Status::Ok();
  }));
  QUARRY_ASSIGN_OR_RETURN(text, BroadcastText(comm_, text));
  PublishedStep published;
  std::size_t at = 0;
  const auto next = [&] {
    const std::size_t end = text.find('\0', at);
    std::string part = text.substr(at, end - at);
    at = end + 1;
    return part;
  };
  if (const std::string time = next(); !time.empty()) published.time = std::stod(time);
  while (at < text.size()) {
    const std::string field = next();
    published.sources[field] = next();
  }
  return published;
}

Result<std::optional<std::uint64_t>> DatasetWriter::LastStep(const std::string& field) {
  std::string text;
  QUARRY_RETURN_IF_ERROR(OnRoot(comm_, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> last, Publisher::LastStep(path_, field));
    text = last ? std::to_string(*last) : "";
    return Status::Ok();
  }));
  QUARRY_ASSIGN_OR_RETURN(text, BroadcastText(comm_, text));
  return text.empty() ? std::nullopt : std::optional<std::uint64_t>(std::stoull(text));
}

Result<bool> DatasetWriter::Holds(const std::string& field) {
  std::string text;
  QUARRY_RETURN_IF_ERROR(OnRoot(comm_, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(const bool holds, Publisher::Holds(path_, field));
    text = holds ? "yes" : "";
    return Status::Ok();
  }));
  QUARRY_ASSIGN_OR_RETURN(text, BroadcastText(comm_, text));
  return !text.empty();
}

Result<TimeUnit> DatasetWriter::ChooseTimeUnit(const TimeUnit& here) {
  QUARRY_RETURN_IF_ERROR(CheckTimeUnit(here));
  if (!existing_) return here;
  bool has_times = false;
  if (!here.units.empty() && existing_->time_unit.units.empty()) {
    std::string text;
    QUARRY_RETURN_IF_ERROR(OnRoot(comm_, [&]() -> Status {
      QUARRY_ASSIGN_OR_RETURN(has_times, Publisher::HasTimes(path_));
      text = has_times ? "times" : "none";
      return Status::Ok();
    }));
    QUARRY_ASSIGN_OR_RETURN(text, BroadcastText(comm_, text));
    has_times = text == "times";
  }
  return ContinueTimeUnit(here, existing_->time_unit, has_times);
}

Status DatasetWriter::Declare(const DatasetDescription& dataset) {
  QUARRY_RETURN_IF_ERROR(format::CheckDataset(dataset));
  grids_.clear();
  for (const GridDescription& grid : dataset.grids) {
    QUARRY_ASSIGN_OR_RETURN(const PatchGrid patches, PatchesOf(grid));
    grids_.push_back({patches, patches.MortonOrder(), ChooseFileCount(options_.files, patches, ranks_)});
  }
  dataset_ = dataset;
  return Status::Ok();
}

Result<FieldOutcome> DatasetWriter::WriteField(std::uint64_t step, std::size_t field,
                                               const std::string& source_name, FieldSource* source) {
  Result<FieldOutcome> outcome = StageField(step, field, source_name, source);
  if (!outcome.ok()) {
    Abandon();
    return std::move(outcome).status().Annotate(
        fmt::format("step {}, field \"{}\"", step, dataset_.fields[field].name));
  }
  if (root()) written_.push_back(outcome->description);
  return outcome;
}

Result<FieldOutcome> DatasetWriter::StageField(std::uint64_t step, std::size_t number,
                                               const std::string& source_name, FieldSource* source) {
  const FieldDescription& field = dataset_.fields[number];
  std::string folder;
  QUARRY_RETURN_IF_ERROR(OnRoot(comm_, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(const fs::path path, root_->publisher.StageField(step, field.name));
    folder = path.string();
    return Status::Ok();
  }));
  QUARRY_ASSIGN_OR_RETURN(folder, BroadcastText(comm_, folder));
  OwnPatches own(folder, options_.memory_per_rank.value_or(UINT64_MAX) / kPayloadShare);
  QUARRY_ASSIGN_OR_RETURN(EarlierPatches * earlier, BeginEarlier(step, number));
  FieldRun run(this, field, source, &own, earlier);
  QUARRY_RETURN_IF_ERROR(run.Encode(source_name));

  const GridPlan& grid = PlanOf(field);
  const FileSetting setting{comm_,
                            dataset_,
                            field.grid,
                            grid.patches,
                            grid.morton_order,
                            grid.files,
                            options_.aggregation,
                            root() ? &root_->publisher : nullptr,
                            &transfers_,
                            &seconds_};
  QUARRY_ASSIGN_OR_RETURN(const FieldFiles files, FieldFiles::Create(setting, own, run.placement()));
  QUARRY_ASSIGN_OR_RETURN(FieldMask mask, files.WriteMask());
  QUARRY_ASSIGN_OR_RETURN(const std::vector<SubfileSummary> summaries,
                          files.WriteSamples(folder, HeaderOf(step, number, mask.name)));
  FieldOutcome outcome;
  outcome.outlying = run.outlying();
  FieldStepDescription& d = outcome.description;
  QUARRY_ASSIGN_OR_RETURN(d.min, MinOverRanks(comm_, own.min()));
  QUARRY_ASSIGN_OR_RETURN(d.max, MaxOverRanks(comm_, own.max()));
  QUARRY_ASSIGN_OR_RETURN(const double refers, MaxOverRanks(comm_, own.any_refers() ? 1.0 : 0.0));
  if (refers != 0) d.references = earlier->references();
  outcome.new_mask_bytes = mask.new_bytes;
  outcome.stored_bytes = files.stored_bytes();
  if (!root()) return outcome;
  d.name = field.name;
  d.source = ToUtf8(source_name);
  d.raw_bytes = run.raw_bytes();
  d.patches = outcome.stored_bytes.size();
  d.tolerance = run.tolerances().back();
  // The largest sample has the largest error.
  if (field.pointwise_relative_tolerance)
    d.tolerance *= d.min <= d.max ? std::max(std::abs(d.min), std::abs(d.max)) : 0;
  for (std::size_t k = 0; k + 1 < run.tolerances().size(); ++k)
    d.rougher.push_back({run.tolerances()[k], {}});
  if (mask.name != 0) d.mask = std::move(mask.description);
  EnterSummaries(summaries, {dataset_.GridOf(field).levels, field.layers()}, &d);
  return outcome;
}

Result<EarlierPatches*> DatasetWriter::BeginEarlier(std::uint64_t step, std::size_t number) {
  const FieldDescription& field = dataset_.fields[number];
  if (field.keyframe <= 1) return static_cast<EarlierPatches*>(nullptr);
  const auto planned =
      std::find_if(plan_.begin(), plan_.end(), [&](const auto& entry) { return entry.first == step; });
  std::string chosen;
  QUARRY_RETURN_IF_ERROR(OnRoot(comm_, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(
        const std::vector<std::uint64_t> references,
        ChooseReferences(path_, step, field, planned != plan_.end() ? &planned->second : nullptr));
    chosen = fmt::format("{}", fmt::join(references, " "));
    return Status::Ok();
  }));
  QUARRY_ASSIGN_OR_RETURN(chosen, BroadcastText(comm_, chosen));
  std::istringstream words(chosen);
  const std::vector<std::uint64_t> references{std::istream_iterator<std::uint64_t>(words), {}};
  std::set<std::uint64_t> later;
  if (planned == plan_.end()) later = {step};
  for (auto next = planned; next != plan_.end(); ++next) {
    if (next != planned) later.insert(next->second.begin(), next->second.end());
  }
  const std::uint64_t most = options_.memory_per_rank.value_or(UINT64_MAX) / kEarlierShare;
  EarlierPatches& earlier = earlier_.try_emplace(number, path_, field.name, field.type, most).first->second;
  earlier.Begin(step, references, later);
  return &earlier;
}

format::SubfileHeader DatasetWriter::HeaderOf(std::uint64_t step, std::size_t number,
                                              std::uint64_t mask) const {
  const FieldDescription& field = dataset_.fields[number];
  format::SubfileHeader header;
  header.step = step;
  header.field_number = dataset_.NumberOf(number);
  const GridDescription& grid = dataset_.GridOf(field);
  header.dims = grid.dims;
  header.patch = grid.patch;
  header.levels = grid.levels;
  header.layers = field.layers();
  header.type = field.type;
  header.coder = field.coder;
  header.order = dataset_.order;
  header.field_name = field.name;
  header.mask = mask;
  return header;
}

Status DatasetWriter::PublishStep(std::uint64_t step, std::optional<double> time) {
  const PhaseTimer timer(&seconds_, Phase::kWrite);
  StepDescription description{step, time, std::move(written_)};
  written_.clear();
  Status status = OnRoot(comm_, [&]() -> Status {
    QUARRY_RETURN_IF_ERROR(CheckTime(time));
    return root_->publisher.PublishStep(dataset_, description);
  });
  if (!status.ok()) Abandon();
  return status;
}

void DatasetWriter::Abandon() {
  written_.clear();
  if (root_) root_->publisher.Abandon();
}

}  // namespace quarry::writer
