#include "writer/pipeline/dataset_writer.h"

#include <tbb/info.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "quarry/base/progress.h"
#include "quarry/base/utf8.h"
#include "quarry/format/manifest.h"
#include "writer/pipeline/chunks.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/encode.h"
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

/// A field may be held twice, as it was read and as whole patches, beside its payload.
constexpr std::uint64_t kSampleShare = 4;   // one in so many parts of the memory is for a chunk of samples
constexpr std::uint64_t kPayloadShare = 2;  // the same for encoded patches before they go to a file

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

}  // namespace

std::size_t ChooseFileCount(std::optional<int> wanted, const PatchGrid& grid, int ranks) {
  return distribution::UsableFiles(static_cast<std::size_t>(grid.patch_count()),
                                   static_cast<std::size_t>(wanted.value_or(std::max(1, ranks / 8))));
}

double AbsoluteTolerance(const FieldDescription& field, double min, double max) {
  if (field.lossless) return 0;
  if (field.tolerance) return *field.tolerance;
  return min <= max ? field.relative_tolerance.value_or(0) * (max - min) : 0;
}

/// One field of one step on its way to encoded patches.
class DatasetWriter::FieldRun {
 public:
  FieldRun(DatasetWriter* writer, const FieldDescription& field, FieldSource* source, OwnPatches* own)
      : w_(*writer),
        field_(field),
        source_(*source),
        own_(*own),
        wider_(source->wider()),
        placement_(w_.morton_order_.size(), 0) {
    w_.patches_per_rank_.assign(static_cast<std::size_t>(w_.ranks_), 0);
  }

  /// @param source_name  for messages
  Status Encode(const std::string& source_name) {
    QUARRY_RETURN_IF_ERROR(MakeChunks());
    QUARRY_RETURN_IF_ERROR(FindTolerance(source_name));
    Progress progress(fmt::format("encode {}", field_.name), ExpectedPatches(),
                      w_.options_.progress && w_.root());
    for (const Chunk& chunk : chunks_) QUARRY_RETURN_IF_ERROR(EncodeChunk(chunk, &progress));
    source_.Release();
    own_.Sort();
    return Status::Ok();
  }

  double tolerance() const { return tolerance_; }
  /// Of all patches of the grid.
  const distribution::Placement& placement() const { return placement_; }
  std::uint64_t raw_bytes() const {
    return static_cast<std::uint64_t>(Volume(w_.dataset_.grid.dims)) * source_sample_bytes();
  }

 private:
  std::size_t source_sample_bytes() const { return wider_ ? sizeof(double) : SizeOf(field_.type); }
  std::uint64_t ExpectedPatches() const {
    return w_.morton_order_.size() / static_cast<std::size_t>(w_.ranks_);
  }

  Status MakeChunks() {
    const std::uint64_t bytes = w_.options_.memory_per_rank ? *w_.options_.memory_per_rank / kSampleShare *
                                                                  static_cast<std::uint64_t>(w_.ranks_)
                                                            : UINT64_MAX;
    for (const Box& patches : CutToChunks(*w_.grid_, source_sample_bytes(), bytes, source_.unit())) {
      QUARRY_ASSIGN_OR_RETURN(Chunk chunk, Chunk::Create(*w_.grid_, patches));
      chunks_.push_back(std::move(chunk));
    }
    return Status::Ok();
  }

  /// A tolerance relative to the range needs the whole field before the first patch is encoded.
  Status FindTolerance(const std::string& source_name) {
    tolerance_ = AbsoluteTolerance(field_, 0, 0);
    if (!field_.relative_tolerance) return Status::Ok();
    SampleScan scan;
    for (const Chunk& chunk : chunks_) {
      const PhaseTimer timer(&w_.seconds_, Phase::kRead);
      QUARRY_RETURN_IF_ERROR(Load(chunk));
      if (wider_) continue;  // Round has scanned the source
      const std::vector<Box>& boxes = loaded_boxes_[static_cast<std::size_t>(w_.rank_)];
      for (std::size_t b = 0; b < boxes.size(); ++b)
        scan.Add(ScanView(field_.type, views_[b], boxes[b], field_.fill_bits()));
    }
    if (wider_) scan = source_scan_;
    QUARRY_ASSIGN_OR_RETURN(scan.min, MinOverRanks(w_.comm_, scan.min));
    QUARRY_ASSIGN_OR_RETURN(scan.max, MaxOverRanks(w_.comm_, scan.max));
    tolerance_ = AbsoluteTolerance(field_, scan.min, scan.max);
    if (std::isfinite(tolerance_)) return Status::Ok();
    return InvalidArgument(
        "the value range [{}, {}] of \"{}\" is too large for a relative tolerance; give an "
        "absolute one (--tolerance)",
        scan.min, scan.max, source_name);
  }

  /// Loads the samples of a chunk, unless they are loaded: a field in one chunk is read once.
  Status Load(const Chunk& chunk) {
    if (loaded_ == &chunk) return Status::Ok();
    loaded_boxes_ = source_.Owned(chunk.samples());
    loaded_ = &chunk;
    const std::vector<Box>& mine = loaded_boxes_[static_cast<std::size_t>(w_.rank_)];
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(w_.comm_, Guarded([&]() -> Status {
                                           QUARRY_ASSIGN_OR_RETURN(views_, source_.Load(mine));
                                           changes_.assign(
                                               static_cast<std::size_t>(chunk.grid().patch_count()), 0);
                                           return wider_ ? Round(chunk, mine) : Status::Ok();
                                         })));
    // Parts of a patch may have been rounded on several ranks.
    return wider_ ? MaxOverRanks(w_.comm_, changes_) : Status::Ok();
  }

  /// Replaces the loaded samples by rounded ones. Local.
  Status Round(const Chunk& chunk, const std::vector<Box>& boxes) {
    std::size_t samples = 0;
    for (const Box& box : boxes) samples += static_cast<std::size_t>(box.volume());
    rounded_.resize(samples);
    Float32Rounding rounding(field_, wider_->fill);
    const Index3& origin = chunk.samples().begin;
    std::span<float> left(rounded_);
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      Box box = boxes[b];
      for (std::size_t a = 0; a < 3; ++a) {
        box.begin[a] -= origin[a];
        box.end[a] -= origin[a];
      }
      const std::span<float> part = left.first(static_cast<std::size_t>(box.volume()));
      QUARRY_RETURN_IF_ERROR(rounding.Round(views_[b], box, chunk.grid(), origin, changes_, part));
      views_[b] = BoxView::Dense(part.data(), box, sizeof(float));
      left = left.subspan(part.size());
    }
    source_scan_.Add(rounding.scan());
    return Status::Ok();
  }

  Status EncodeChunk(const Chunk& chunk, Progress* progress) {
    {
      const PhaseTimer timer(&w_.seconds_, Phase::kRead);
      QUARRY_RETURN_IF_ERROR(Load(chunk));
      // The same numbers and the same answer on every rank.
      QUARRY_RETURN_IF_ERROR(CheckChanges(field_, chunk.grid(), chunk.samples().begin, changes_, tolerance_));
    }
    std::vector<PatchSamples> patches;
    {
      const PhaseTimer timer(&w_.seconds_, Phase::kExchange);
      const distribution::Ownership owned = distribution::CutToRegion(loaded_boxes_, chunk.samples());
      const distribution::Placement placement = Place(chunk, owned);
      QUARRY_ASSIGN_OR_RETURN(patches, TryExchangePatches(w_.comm_, chunk.grid(), field_.type, owned,
                                                          placement, views_, w_.options_.exchange));
      loaded_ = nullptr;
    }
    for (PatchSamples& patch : patches) patch.change = changes_[static_cast<std::size_t>(patch.patch_index)];
    const PhaseTimer timer(&w_.seconds_, Phase::kEncode);
    const std::size_t before = own_.size();
    const EncodeSettings settings{field_.coder, field_.type, w_.dataset_.levels, tolerance_,
                                  field_.fill_bits()};
    return AgreeOnStatus(
        w_.comm_, Guarded([&]() -> Status {
          QUARRY_ASSIGN_OR_RETURN(auto encoded,
                                  EncodePatches(chunk.grid(), settings, std::move(patches), w_.threads_,
                                                [&](std::size_t done) { progress->Update(before + done); }));
          for (EncodedPatchOfGrid& patch : encoded) {
            patch.patch_index = chunk.IndexInWhole(patch.patch_index);
            QUARRY_RETURN_IF_ERROR(own_.Add(patch, w_.grid_->PatchBox(patch.patch_index).volume()));
            patch.encoded = EncodedPatch();
          }
          return Status::Ok();
        }));
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
  std::optional<FieldSource::Wider> wider_;
  std::vector<Chunk> chunks_;
  double tolerance_ = 0;
  const Chunk* loaded_ = nullptr;  ///< the chunk whose samples are loaded
  distribution::Ownership loaded_boxes_;
  std::vector<BoxView> views_;
  std::vector<float> rounded_;   ///< what views_ show, if the source is wider
  std::vector<double> changes_;  ///< by rounding, of each patch of the loaded chunk, over all ranks
  SampleScan source_scan_;       ///< of the loaded part of a wider source
  distribution::Placement placement_;
};

DatasetWriter::DatasetWriter(MPI_Comm comm, const PipelineOptions& options)
    : comm_(comm), options_(options), rank_(Rank(comm)), ranks_(Size(comm)) {}

DatasetWriter::~DatasetWriter() = default;

Result<std::unique_ptr<DatasetWriter>> DatasetWriter::Open(MPI_Comm comm, const std::string& path,
                                                           OpenMode mode, const PipelineOptions& options) {
  std::unique_ptr<DatasetWriter> writer(new DatasetWriter(comm, options));
  QUARRY_ASSIGN_OR_RETURN(const int neighbours, RanksOnThisNode(comm));
  // Ranks usually fill the machine; a single one may use all of it, unless mpirun has bound it to a part.
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  writer->threads_ = std::clamp(processors / neighbours, 1, tbb::info::default_concurrency());
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

Result<std::set<std::string>> DatasetWriter::PublishedFields(std::uint64_t step) {
  std::string names;
  QUARRY_RETURN_IF_ERROR(OnRoot(comm_, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(const std::set<std::string> fields, root_->publisher.PublishedFields(step));
    for (const std::string& field : fields) names += field + '\n';
    return Status::Ok();
  }));
  QUARRY_ASSIGN_OR_RETURN(names, BroadcastText(comm_, names));
  std::set<std::string> fields;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = names.find('\n', begin);
    fields.insert(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return fields;
}

Status DatasetWriter::Declare(const DatasetDescription& dataset) {
  QUARRY_ASSIGN_OR_RETURN(PatchGrid grid, PatchGrid::Create(dataset.grid.dims, dataset.patch));
  dataset_ = dataset;
  grid_.emplace(std::move(grid));
  morton_order_ = grid_->MortonOrder();
  files_ = ChooseFileCount(options_.files, *grid_, ranks_);
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
  FieldRun run(this, field, source, &own);
  QUARRY_RETURN_IF_ERROR(run.Encode(source_name));

  const FileSetting setting{comm_,
                            dataset_,
                            *grid_,
                            morton_order_,
                            files_,
                            options_.aggregation,
                            root() ? &root_->publisher : nullptr,
                            &transfers_,
                            &seconds_};
  QUARRY_ASSIGN_OR_RETURN(const FieldFiles files, FieldFiles::Create(setting, own, run.placement()));
  QUARRY_ASSIGN_OR_RETURN(FieldMask mask, files.WriteMask());
  QUARRY_ASSIGN_OR_RETURN(const std::vector<SubfileSummary> summaries,
                          files.WriteSamples(folder, HeaderOf(step, number, mask.name)));
  FieldOutcome outcome;
  FieldStepDescription& d = outcome.description;
  QUARRY_ASSIGN_OR_RETURN(d.min, MinOverRanks(comm_, own.min()));
  QUARRY_ASSIGN_OR_RETURN(d.max, MaxOverRanks(comm_, own.max()));
  outcome.new_mask_bytes = mask.new_bytes;
  outcome.stored_bytes = files.stored_bytes();
  if (!root()) return outcome;
  d.name = field.name;
  d.source = ToUtf8(source_name);
  d.raw_bytes = run.raw_bytes();
  d.patches = outcome.stored_bytes.size();
  d.tolerance = run.tolerance();
  if (mask.name != 0) d.mask = std::move(mask.description);
  EnterSummaries(summaries, dataset_.levels, &d);
  return outcome;
}

format::SubfileHeader DatasetWriter::HeaderOf(std::uint64_t step, std::size_t number,
                                              std::uint64_t mask) const {
  const FieldDescription& field = dataset_.fields[number];
  format::SubfileHeader header;
  header.step = step;
  header.field_number = static_cast<std::uint32_t>(number);
  header.dims = dataset_.grid.dims;
  header.patch = dataset_.patch;
  header.levels = dataset_.levels;
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
  Status status = OnRoot(comm_, [&] { return root_->publisher.PublishStep(dataset_, description); });
  if (!status.ok()) Abandon();
  return status;
}

void DatasetWriter::Abandon() {
  written_.clear();
  if (root_) root_->publisher.Abandon();
}

}  // namespace quarry::writer
