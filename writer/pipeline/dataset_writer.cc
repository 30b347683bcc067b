#include "writer/pipeline/dataset_writer.h"

#include <tbb/info.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "quarry/base/progress.h"
#include "quarry/base/utf8.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "writer/pipeline/chunks.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/encode.h"
#include "writer/pipeline/publish.h"
#include "writer/pipeline/transfer.h"

namespace quarry::writer {

namespace fs = std::filesystem;

/// What rank 0 alone has.
struct DatasetWriter::Root {
  Publisher publisher;
};

namespace {

/// A field may be held twice, as it was read and as whole patches, beside its payload.
constexpr std::uint64_t kSampleShare = 4;   // of the memory: one part in so many is a chunk of samples
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

std::size_t PlanFiles(std::optional<int> wanted, const PatchGrid& grid, int ranks) {
  return distribution::UsableFiles(static_cast<std::size_t>(grid.patch_count()),
                                   static_cast<std::size_t>(wanted.value_or(std::max(1, ranks / 8))));
}

double AbsoluteTolerance(const FieldDescription& field, double min, double max) {
  if (field.lossless) return 0;
  if (field.tolerance) return *field.tolerance;
  return min <= max ? field.relative_tolerance.value_or(0) * (max - min) : 0;
}

/// One field of one step on its way through the pipeline.
class DatasetWriter::FieldRun {
 public:
  FieldRun(DatasetWriter* writer, const FieldDescription& field, FieldSource* source)
      : w_(*writer), field_(field), source_(*source), placement_(w_.morton_order_.size(), 0) {
    w_.patches_per_rank_.assign(static_cast<std::size_t>(w_.ranks_), 0);
  }

  Result<FieldOutcome> Execute(std::uint64_t step, std::size_t number, const std::string& source_name) {
    QUARRY_RETURN_IF_ERROR(MakeChunks());
    QUARRY_RETURN_IF_ERROR(OpenStore(step));
    QUARRY_RETURN_IF_ERROR(FindTolerance(source_name));
    {
      Progress progress(fmt::format("encode {}", field_.name), ExpectedPatches(), w_.options_.progress && w_.root());
      for (const Chunk& chunk : chunks_) QUARRY_RETURN_IF_ERROR(EncodeChunk(chunk, &progress));
    }
    source_.Release();
    SortOwn();
    return Write(step, number, source_name);
  }

 private:
  std::uint64_t ExpectedPatches() const { return w_.morton_order_.size() / static_cast<std::size_t>(w_.ranks_); }

  Status MakeChunks() {
    const std::uint64_t bytes = w_.options_.memory_per_rank
                                    ? *w_.options_.memory_per_rank / kSampleShare * static_cast<std::uint64_t>(w_.ranks_)
                                    : UINT64_MAX;
    for (const Box& patches : CutToChunks(*w_.grid_, SizeOf(field_.type), bytes, source_.unit())) {
      QUARRY_ASSIGN_OR_RETURN(Chunk chunk, Chunk::Create(*w_.grid_, patches));
      chunks_.push_back(std::move(chunk));
    }
    return Status::Ok();
  }

  Status OpenStore(std::uint64_t step) {
    std::string folder;
    QUARRY_RETURN_IF_ERROR(w_.OnRoot([&]() -> Status {
      QUARRY_ASSIGN_OR_RETURN(const fs::path path, w_.root_->publisher.StageField(step, field_.name));
      folder = path.string();
      return Status::Ok();
    }));
    folder_ = BroadcastText(w_.comm_, folder);
    store_.emplace(folder_, w_.options_.memory_per_rank.value_or(UINT64_MAX) / kPayloadShare);
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
      const std::vector<Box>& boxes = loaded_boxes_[static_cast<std::size_t>(w_.rank_)];
      for (std::size_t b = 0; b < boxes.size(); ++b)
        scan.Add(ScanView(field_.type, views_[b], boxes[b], field_.fill_bits()));
    }
    scan.min = MinOverRanks(w_.comm_, scan.min);
    scan.max = MaxOverRanks(w_.comm_, scan.max);
    tolerance_ = AbsoluteTolerance(field_, scan.min, scan.max);
    if (std::isfinite(tolerance_)) return Status::Ok();
    return InvalidArgument("the value range [{}, {}] of \"{}\" is too large for --relative; give --tolerance",
                           scan.min, scan.max, source_name);
  }

  /// The samples of a chunk, unless they are there: a field in one chunk is read once.
  Status Load(const Chunk& chunk) {
    if (loaded_ == &chunk) return Status::Ok();
    loaded_boxes_ = source_.Owned(chunk.samples());
    loaded_ = &chunk;
    return AgreeOnStatus(w_.comm_, Guarded([&]() -> Status {
                           QUARRY_ASSIGN_OR_RETURN(
                               views_, source_.Load(loaded_boxes_[static_cast<std::size_t>(w_.rank_)]));
                           return Status::Ok();
                         }));
  }

  Status EncodeChunk(const Chunk& chunk, Progress* progress) {
    {
      const PhaseTimer timer(&w_.seconds_, Phase::kRead);
      QUARRY_RETURN_IF_ERROR(Load(chunk));
    }
    std::vector<PatchSamples> patches;
    {
      const PhaseTimer timer(&w_.seconds_, Phase::kExchange);
      const distribution::Ownership owned = distribution::CutToRegion(loaded_boxes_, chunk.samples());
      const distribution::Placement placement = Place(chunk, owned);
      patches = ExchangePatches(w_.comm_, chunk.grid(), field_.type, owned, placement, views_, w_.options_.exchange);
      loaded_ = nullptr;
    }
    const PhaseTimer timer(&w_.seconds_, Phase::kEncode);
    const std::size_t before = own_.size();
    const EncodeSettings settings{field_.coder, field_.type, w_.dataset_.levels, tolerance_, field_.fill_bits()};
    return AgreeOnStatus(w_.comm_, Guarded([&]() -> Status {
                           QUARRY_ASSIGN_OR_RETURN(
                               auto encoded,
                               EncodePatches(chunk.grid(), settings, std::move(patches), w_.threads_,
                                             [&](std::size_t done) { progress->Update(before + done); }));
                           for (EncodedPatchOfGrid& patch : encoded) {
                             patch.patch_index = chunk.IndexInWhole(patch.patch_index);
                             QUARRY_RETURN_IF_ERROR(Keep(std::move(patch.encoded), patch.patch_index));
                           }
                           return Status::Ok();
                         }));
  }

  /// Over all chunks together every rank has its even share of the patches.
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

  /// What a rank keeps of a patch beside its payload.
  struct Own {
    OutgoingPatch samples;
    OutgoingPatch mask;
    bool masked = false;
  };

  Status Keep(EncodedPatch encoded, std::int64_t index) {
    const EncodedPatchOfGrid patch{index, std::move(encoded)};
    Own own;
    own.samples.row = SampleRow(patch);
    own.mask.row = MaskRow(patch, w_.grid_->PatchBox(index).volume());
    own.masked = !patch.encoded.mask_levels.empty();
    QUARRY_ASSIGN_OR_RETURN(own.samples.position, Store(patch.encoded.levels));
    QUARRY_ASSIGN_OR_RETURN(own.mask.position, Store(patch.encoded.mask_levels));
    if (patch.encoded.valid > 0) {
      min_ = std::min(min_, patch.encoded.min);
      max_ = std::max(max_, patch.encoded.max);
    }
    own_.push_back(std::move(own));
    return Status::Ok();
  }

  Result<std::uint64_t> Store(const std::vector<Bytes>& levels) {
    std::size_t size = 0;
    for (const Bytes& level : levels) size += level.size();
    Bytes whole;
    whole.reserve(size);
    for (std::size_t l = levels.size(); l-- > 0;) {
      const std::size_t end = whole.size();
      whole.resize(end + levels[l].size());
      std::copy(levels[l].begin(), levels[l].end(), whole.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return store_->Append(whole);
  }

  void SortOwn() {
    std::sort(own_.begin(), own_.end(),
              [](const Own& a, const Own& b) { return a.samples.row.patch_index < b.samples.row.patch_index; });
  }

  /// What every rank has to know of all patches.
  struct Sizes {
    std::vector<std::uint64_t> samples;  ///< stored bytes, by patch index
    std::vector<std::uint64_t> masks;    ///< the same of the mask
    std::uint64_t mask_name = 0;         ///< 0: no sample of the grid is missing
  };

  Sizes ShareSizes() {
    const PhaseTimer timer(&w_.seconds_, Phase::kAssign);
    constexpr std::size_t kNumbers = 5;
    std::vector<std::uint64_t> mine;
    for (const Own& own : own_) {
      mine.push_back(own.samples.row.patch_index);
      mine.push_back(StoredBytes(own.samples.row));
      mine.push_back(StoredBytes(own.mask.row));
      mine.push_back(format::MaskDigest(own.mask.row));
      mine.push_back(own.masked ? 1 : 0);
    }
    const std::vector<std::uint64_t> all = GatherEverywhere(w_.comm_, mine);
    Sizes sizes;
    sizes.samples.resize(w_.morton_order_.size());
    sizes.masks.resize(w_.morton_order_.size());
    std::vector<std::uint64_t> digests(w_.morton_order_.size());
    bool any_missing = false;
    for (std::size_t i = 0; i < all.size(); i += kNumbers) {
      sizes.samples[all[i]] = all[i + 1];
      sizes.masks[all[i]] = all[i + 2];
      digests[all[i]] = all[i + 3];
      any_missing = any_missing || all[i + 4] != 0;
    }
    if (any_missing) sizes.mask_name = format::MaskName(InMortonOrder(digests));
    return sizes;
  }

  std::vector<std::uint64_t> InMortonOrder(const std::vector<std::uint64_t>& by_index) const {
    std::vector<std::uint64_t> in_order;
    in_order.reserve(by_index.size());
    for (const std::int64_t patch : w_.morton_order_) in_order.push_back(by_index[static_cast<std::size_t>(patch)]);
    return in_order;
  }

  Result<FieldOutcome> Write(std::uint64_t step, std::size_t number, const std::string& source_name) {
    FieldOutcome outcome;
    Sizes sizes = ShareSizes();
    if (sizes.mask_name != 0) QUARRY_RETURN_IF_ERROR(WriteMask(sizes, &outcome));
    format::SubfileHeader header;
    header.step = step;
    header.field_number = static_cast<std::uint32_t>(number);
    header.dims = w_.dataset_.grid.dims;
    header.patch = w_.dataset_.patch;
    header.levels = w_.dataset_.levels;
    header.type = field_.type;
    header.coder = field_.coder;
    header.order = w_.dataset_.order;
    header.field_name = field_.name;
    header.mask = sizes.mask_name;
    QUARRY_ASSIGN_OR_RETURN(const std::vector<SubfileSummary> summaries,
                            WriteFiles(sizes.samples, folder_, header, &Own::samples));
    const double min = MinOverRanks(w_.comm_, min_);
    const double max = MaxOverRanks(w_.comm_, max_);
    if (w_.root()) {
      FieldStepDescription& d = outcome.description;
      d.name = field_.name;
      d.source = ToUtf8(source_name);
      d.raw_bytes = static_cast<std::uint64_t>(Volume(w_.dataset_.grid.dims)) * SizeOf(field_.type);
      d.patches = sizes.samples.size();
      d.tolerance = tolerance_;
      d.min = min;
      d.max = max;
      Describe(summaries, &d);
    }
    outcome.stored_bytes = std::move(sizes.samples);
    return outcome;
  }

  /// Every rank computes the same assignment and sends its patches to their aggregators.
  Result<std::vector<SubfileSummary>> WriteFiles(const std::vector<std::uint64_t>& stored_bytes,
                                                 const fs::path& folder, const format::SubfileHeader& header,
                                                 OutgoingPatch Own::*part) {
    FilePlan plan{&w_.morton_order_, &placement_, &stored_bytes, {}};
    std::vector<OutgoingPatch> mine;
    {
      const PhaseTimer timer(&w_.seconds_, Phase::kAssign);
      plan.assignment =
          distribution::AssignPatches(InMortonOrder(stored_bytes), w_.files_, w_.options_.aggregation);
      for (const Own& own : own_) mine.push_back(own.*part);
    }
    return TransferAndWrite(w_.comm_, plan, *w_.grid_, folder, header, mine, *store_, &w_.seconds_);
  }

  /// Writes the mask, unless a step or field before has written it. The description is complete on rank 0.
  Status WriteMask(const Sizes& sizes, FieldOutcome* outcome) {
    std::optional<MaskDescription> known;
    std::string folder;
    QUARRY_RETURN_IF_ERROR(w_.OnRoot([&]() -> Status {
      Publisher& publisher = w_.root_->publisher;
      QUARRY_ASSIGN_OR_RETURN(known, publisher.FindMask(sizes.mask_name));
      if (known) return Status::Ok();
      QUARRY_ASSIGN_OR_RETURN(const fs::path path, publisher.StageMask(sizes.mask_name));
      folder = path.string();
      return Status::Ok();
    }));
    folder = BroadcastText(w_.comm_, folder);
    outcome->description.mask = known.value_or(MaskDescription{sizes.mask_name, {}});
    if (folder.empty()) return Status::Ok();
    const format::SubfileHeader header =
        format::MaskHeader(sizes.mask_name, w_.dataset_.grid.dims, w_.dataset_.patch, w_.dataset_.levels,
                           w_.dataset_.order);
    QUARRY_ASSIGN_OR_RETURN(const std::vector<SubfileSummary> summaries,
                            WriteFiles(sizes.masks, folder, header, &Own::mask));
    MaskDescription& mask = *outcome->description.mask;
    mask.subfiles = SubfilesOf(summaries);
    outcome->new_mask_bytes = mask.bytes();
    if (w_.root()) w_.root_->publisher.AddMask(mask);
    return Status::Ok();
  }

  static std::vector<SubfileDescription> SubfilesOf(const std::vector<SubfileSummary>& summaries) {
    std::vector<SubfileDescription> subfiles;
    for (const SubfileSummary& summary : summaries) {
      subfiles.push_back({format::SubfileName(subfiles.size()), summary.bytes, summary.patches,
                          summary.bounds, summary.table_checksum});
    }
    return subfiles;
  }

  /// Subfile summaries into the field's record.
  void Describe(const std::vector<SubfileSummary>& summaries, FieldStepDescription* field) const {
    field->subfiles = SubfilesOf(summaries);
    const auto levels = static_cast<std::size_t>(w_.dataset_.levels);
    std::vector<double> squares(levels, 0);
    std::vector<double> covered(levels, 0);
    field->levels.resize(levels);
    for (const SubfileSummary& summary : summaries) {
      field->stored_bytes += summary.bytes;
      field->valid += summary.valid;
      for (std::size_t l = 0; l < levels; ++l) {
        field->levels[l].max_error = std::max(field->levels[l].max_error, summary.levels[l].max_error);
        field->levels[l].bytes += summary.levels[l].bytes;
        squares[l] += summary.levels[l].sum_of_squares;
        covered[l] += summary.levels[l].covered;
      }
    }
    for (std::size_t l = 0; l < levels; ++l) {
      field->levels[l].rmse = covered[l] > 0 ? std::sqrt(squares[l] / covered[l]) : 0;
      field->levels[l].coverage = field->valid > 0 ? covered[l] / static_cast<double>(field->valid) : 1;
    }
    field->max_error = field->levels[0].max_error;
    field->rmse = field->levels[0].rmse;
    field->psnr = Psnr(field->min, field->max, field->rmse);
  }

  DatasetWriter& w_;
  const FieldDescription& field_;
  FieldSource& source_;
  std::vector<Chunk> chunks_;
  fs::path folder_;
  std::optional<PayloadStore> store_;
  double tolerance_ = 0;
  const Chunk* loaded_ = nullptr;  ///< the chunk whose samples are there
  distribution::Ownership loaded_boxes_;
  std::vector<BoxView> views_;
  distribution::Placement placement_;  ///< of all patches of the grid, as chunks are placed
  std::vector<Own> own_;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
};

DatasetWriter::DatasetWriter(MPI_Comm comm, const PipelineOptions& options)
    : comm_(comm), options_(options), rank_(Rank(comm)), ranks_(Size(comm)) {
  // Ranks usually fill the machine; a single one may use all of it, unless mpirun has bound it to a part.
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  threads_ = std::clamp(processors / RanksOnThisNode(comm), 1, tbb::info::default_concurrency());
}

DatasetWriter::~DatasetWriter() = default;

template <typename Work>
Status DatasetWriter::OnRoot(Work work) {
  return BroadcastStatus(comm_, root() ? Guarded(work) : Status::Ok());
}

Result<std::unique_ptr<DatasetWriter>> DatasetWriter::Open(MPI_Comm comm, const std::string& path, OpenMode mode,
                                                           const PipelineOptions& options) {
  std::unique_ptr<DatasetWriter> writer(new DatasetWriter(comm, options));
  std::string existing;
  QUARRY_RETURN_IF_ERROR(writer->OnRoot([&]() -> Status {
    std::error_code ignored;
    const bool append = mode == OpenMode::kAppend || (mode == OpenMode::kResume && fs::exists(path, ignored));
    QUARRY_ASSIGN_OR_RETURN(Publisher publisher, Publisher::Open(path, append));
    if (publisher.existing()) existing = format::EncodeManifest(*publisher.existing());
    writer->root_ = std::make_unique<Root>(Root{std::move(publisher)});
    return Status::Ok();
  }));
  existing = BroadcastText(comm, existing);
  if (!existing.empty()) {
    QUARRY_ASSIGN_OR_RETURN(writer->existing_, format::DecodeDatasetManifest(existing));
  }
  return writer;
}

Result<std::set<std::string>> DatasetWriter::PublishedFields(std::uint64_t step) {
  std::string names;
  QUARRY_RETURN_IF_ERROR(OnRoot([&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(const std::set<std::string> fields, root_->publisher.PublishedFields(step));
    for (const std::string& field : fields) names += field + '\n';
    return Status::Ok();
  }));
  names = BroadcastText(comm_, names);
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
  files_ = PlanFiles(options_.files, *grid_, ranks_);
  return Status::Ok();
}

Result<FieldOutcome> DatasetWriter::WriteField(std::uint64_t step, std::size_t field,
                                               const std::string& source_name, FieldSource* source) {
  Result<FieldOutcome> outcome =
      FieldRun(this, dataset_.fields[field], source).Execute(step, field, source_name);
  if (!outcome.ok()) {
    Abandon();
    return std::move(outcome).status().Annotate(
        fmt::format("step {}, field \"{}\"", step, dataset_.fields[field].name));
  }
  if (root()) written_.push_back(outcome->description);
  return outcome;
}

Status DatasetWriter::PublishStep(std::uint64_t step, std::optional<double> time) {
  const PhaseTimer timer(&seconds_, Phase::kWrite);
  StepDescription description{step, time, std::move(written_)};
  written_.clear();
  Status status = OnRoot([&] { return root_->publisher.PublishStep(dataset_, description); });
  if (!status.ok()) Abandon();
  return status;
}

void DatasetWriter::Abandon() {
  written_.clear();
  if (root_) root_->publisher.Abandon();
}

}  // namespace quarry::writer
