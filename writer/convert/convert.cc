#include "writer/convert/convert.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "quarry/base/utf8.h"
#include "quarry/format/manifest.h"
#include "quarry/format/mask.h"
#include "writer/pipeline/comm.h"
#include "writer/distribution/decomposition.h"
#include "writer/convert/dry_run.h"
#include "writer/pipeline/encode.h"
#include "writer/pipeline/exchange.h"
#include "writer/convert/plan.h"
#include "writer/pipeline/publish.h"
#include "writer/pipeline/subfile_writer.h"
#include "writer/pipeline/transfer.h"

namespace quarry::writer {
namespace {

namespace fs = std::filesystem;

/// Adds the time of a scope to a phase.
class PhaseTimer {
 public:
  PhaseTimer(std::array<double, kPhases>* seconds, Phase phase)
      : seconds_(seconds), phase_(phase), begin_(MPI_Wtime()) {}
  ~PhaseTimer() { (*seconds_)[static_cast<std::size_t>(phase_)] += MPI_Wtime() - begin_; }

 private:
  std::array<double, kPhases>* seconds_;
  Phase phase_;
  double begin_;
};

/// Runs the local part of a phase. Out of memory becomes a Status, so that this rank reaches the agreement
/// too.
template <typename Work>
Status Guarded(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return InternalError("out of memory; use more ranks or nodes");
  } catch (const std::exception& error) {
    return InternalError("{}", error.what());
  }
}

/// One run over one communicator.
class Run {
 public:
  Run(MPI_Comm comm, const WriteOptions& options, WriteReport* report)
      : comm_(comm), options_(options), report_(report), rank_(Rank(comm)), ranks_(Size(comm)) {
    // Ranks usually fill the machine; a single one may use all of it.
    const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    threads_ = std::max(1, processors / RanksOnThisNode(comm));
  }

  Status Execute() {
    const double begin = MPI_Wtime();
    Status status = Prepare();
    if (status.ok() && !options_.dry_run) status = WriteSteps();
    if (!status.ok() && publisher_) publisher_->Abandon();
    QUARRY_RETURN_IF_ERROR(status);
    FinishReport(MPI_Wtime() - begin);
    return Status::Ok();
  }

 private:
  bool root() const { return rank_ == 0; }

  Status Prepare() {
    Jobs jobs;
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm_, Guarded([&]() -> Status {
                                           QUARRY_ASSIGN_OR_RETURN(jobs, PlanJobs(options_));
                                           return Status::Ok();
                                         })));
    jobs_ = std::move(jobs);
    QUARRY_RETURN_IF_ERROR(OpenOutput());
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(
        comm_, Guarded([&]() -> Status {
          QUARRY_ASSIGN_OR_RETURN(dataset_, PlanDescription(options_, jobs_, existing_));
          QUARRY_ASSIGN_OR_RETURN(PatchGrid grid, PatchGrid::Create(dataset_.grid.dims, dataset_.patch));
          grid_.emplace(std::move(grid));
          return Status::Ok();
        })));
    morton_order_ = grid_->MortonOrder();
    files_ = PlanFiles(options_, *grid_, ranks_);
    owned_ = distribution::ReadingOwnership(grid_->domain(), {1, 1, 1}, ranks_,
                                            distribution::ReadingOrder::kConsecutive);
    placement_ = distribution::PlacePatches(*grid_, owned_, options_.placement,
                                            distribution::TargetCounts(grid_->patch_count(), ranks_));
    QUARRY_RETURN_IF_ERROR(BroadcastStatus(comm_, root() ? CheckNotPublished() : Status::Ok()));
    return BroadcastStatus(comm_, root() ? Announce() : Status::Ok());
  }

  /// Rank 0 opens the output; every rank learns the description of an existing dataset.
  Status OpenOutput() {
    Status status;
    std::string existing;
    if (root()) {
      status = Guarded([&]() -> Status {
        if (options_.dry_run) return LookAtOutput(&existing);
        QUARRY_ASSIGN_OR_RETURN(Publisher publisher, Publisher::Open(options_.output, options_.append));
        publisher_.emplace(std::move(publisher));
        if (publisher_->existing()) existing = format::EncodeManifest(*publisher_->existing());
        return Status::Ok();
      });
    }
    QUARRY_RETURN_IF_ERROR(BroadcastStatus(comm_, status));
    existing = BroadcastText(comm_, existing);
    if (existing.empty()) return Status::Ok();
    QUARRY_ASSIGN_OR_RETURN(existing_, format::DecodeDatasetManifest(existing));
    return Status::Ok();
  }

  /// What a dry run needs to know of the output; it takes no lock and changes nothing.
  Status LookAtOutput(std::string* existing) const {
    std::error_code ignored;
    if (options_.append) {
      QUARRY_ASSIGN_OR_RETURN(const DatasetDescription dataset, Publisher::ReadDescription(options_.output));
      *existing = format::EncodeManifest(dataset);
    } else if (fs::exists(options_.output, ignored)) {
      return {StatusCode::kAlreadyExists,
              fmt::format("\"{}\" exists already; give --append to add to it, or choose another --output",
                          options_.output)};
    }
    return Status::Ok();
  }

  Status CheckNotPublished() {
    if (!publisher_) return Status::Ok();
    for (const auto& [step, inputs] : jobs_) {
      QUARRY_ASSIGN_OR_RETURN(const std::set<std::string> published, publisher_->PublishedFields(step));
      for (const Job& job : inputs) {
        if (!published.contains(job.info.field)) continue;
        return Status(
            StatusCode::kAlreadyExists,
            fmt::format("step {} of \"{}\" has the field \"{}\" already; choose another --step or --field",
                        step, options_.output, job.info.field));
      }
    }
    return Status::Ok();
  }

  Status Announce() {
    if (options_.dry_run) {
      QUARRY_ASSIGN_OR_RETURN(const std::string text, DescribeRun(options_, jobs_, dataset_, ranks_));
      fmt::print("{}", text);
      return Status::Ok();
    }
    fmt::print(
        "{}: grid {}, {} patches of {}, {} levels, {} step{}, {} rank{}, {} file{} per field and step\n",
        options_.output, ToString(dataset_.grid.dims), grid_->patch_count(), ToString(dataset_.patch),
        dataset_.levels, jobs_.size(), jobs_.size() == 1 ? "" : "s", ranks_, ranks_ == 1 ? "" : "s", files_,
        files_ == 1 ? "" : "s");
    std::fflush(stdout);
    return Status::Ok();
  }

  Status WriteSteps() {
    for (const auto& [step, inputs] : jobs_) {
      StepDescription description;
      description.step = step;
      description.time = PlanTime(options_, inputs);
      for (const Job& job : inputs) {
        Result<FieldStepDescription> field = WriteField(step, job);
        if (!field.ok())
          return std::move(field).status().Annotate(fmt::format("step {}, field \"{}\"", step, job.info.field));
        description.fields.push_back(*std::move(field));
      }
      const PhaseTimer timer(&seconds_, Phase::kWrite);
      QUARRY_RETURN_IF_ERROR(
          BroadcastStatus(comm_, root() ? publisher_->PublishStep(dataset_, description) : Status::Ok()));
      if (root()) ReportStep(description);
    }
    return Status::Ok();
  }

  void ReportStep(const StepDescription& step) {
    for (const FieldStepDescription& field : step.fields) {
      FieldReport report;
      report.step = step.step;
      report.field = field.name;
      report.bytes_in = field.raw_bytes;
      report.bytes_out = field.stored_bytes;
      for (const LevelRecord& level : field.levels) report.payload_bytes += level.bytes;
      // A mask counts for the first field that brings it; the others cost nothing more.
      if (const auto written = new_mask_bytes_.find(field.mask_name()); written != new_mask_bytes_.end()) {
        report.mask_bytes = written->second;
        report.bytes_out += written->second;
        new_mask_bytes_.erase(written);
      }
      report.lossless = dataset_.fields[*dataset_.FindField(field.name)].lossless;
      report.valid_fraction =
          static_cast<double>(field.valid) / static_cast<double>(Volume(dataset_.grid.dims));
      report.tolerance = field.tolerance;
      report.max_error = field.max_error;
      report.psnr = field.psnr;
      for (const SubfileDescription& subfile : field.subfiles) report.bytes_per_file.push_back(subfile.bytes);
      fmt::print("step {}: {} published, {} -> {}\n", step.step, field.name, FormatBytes(report.bytes_in),
                 FormatBytes(report.bytes_out));
      report_->fields.push_back(std::move(report));
    }
    std::fflush(stdout);
  }

  Result<FieldStepDescription> WriteField(std::uint64_t step, const Job& job) {
    const InputInfo& input = job.info;
    const std::size_t number = *dataset_.FindField(input.field);
    const FieldDescription& field = dataset_.fields[number];
    FieldStepDescription description;
    description.name = field.name;
    description.source = ToUtf8(input.source);
    description.raw_bytes = static_cast<std::uint64_t>(Volume(input.dims)) * SizeOf(input.type);
    description.patches = static_cast<std::uint64_t>(grid_->patch_count());

    Bytes samples;
    QUARRY_RETURN_IF_ERROR(Read(job, field.fill_bits(), &samples, &description));
    description.tolerance = AbsoluteTolerance(field, description.min, description.max);
    if (!std::isfinite(description.tolerance)) {
      return InvalidArgument(
          "the value range [{}, {}] of \"{}\" is too large for --relative; give --tolerance", description.min,
          description.max, input.path);
    }
    std::vector<PatchSamples> patches;
    {
      const PhaseTimer timer(&seconds_, Phase::kExchange);
      const auto& mine = owned_[static_cast<std::size_t>(rank_)];
      std::vector<BoxView> views;
      if (!mine.empty()) views.push_back(BoxView::Dense(samples.data(), mine[0], SizeOf(input.type)));
      patches = ExchangePatches(comm_, *grid_, input.type, owned_, placement_, views, kExchangePerPatch);
      samples = Bytes();
    }
    std::vector<EncodedPatchOfGrid> encoded;
    QUARRY_RETURN_IF_ERROR(Encode(field, description.tolerance, std::move(patches), &encoded));
    const Sizes sizes = ShareSizes(encoded);
    if (sizes.mask_name != 0) {
      QUARRY_ASSIGN_OR_RETURN(description.mask, WriteMask(sizes, encoded));
    }
    std::map<std::int64_t, PackedPatch> mine;
    for (EncodedPatchOfGrid& patch : encoded) {
      mine.emplace(patch.patch_index, PackedPatch::Pack(patch));
      patch.encoded = EncodedPatch();
    }
    ReceivedPatches received = AssignAndTransfer(sizes.packed, std::move(mine));
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
    header.mask = sizes.mask_name;
    const auto stage = [&] { return publisher_->StageField(step, field.name); };
    QUARRY_ASSIGN_OR_RETURN(const std::vector<SubfileSummary> summaries,
                            WriteFiles(stage, header, std::move(received)));
    Describe(summaries, &description);
    return description;
  }

  /// This rank's part of the file; range of the whole.
  Status Read(const Job& job, std::optional<std::uint64_t> fill, Bytes* samples,
              FieldStepDescription* description) {
    const PhaseTimer timer(&seconds_, Phase::kRead);
    const auto& boxes = owned_[static_cast<std::size_t>(rank_)];
    const Box mine = boxes.empty() ? Box{} : boxes[0];
    SampleScan scan;
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm_, Guarded([&]() -> Status {
                                           QUARRY_ASSIGN_OR_RETURN(const auto input, job.Open(options_.input));
                                           QUARRY_ASSIGN_OR_RETURN(*samples, ReadBox(*input, mine));
                                           scan = ScanSamples(job.info.type, *samples, fill);
                                           return Status::Ok();
                                         })));
    description->min = MinOverRanks(comm_, scan.min);
    description->max = MaxOverRanks(comm_, scan.max);
    return Status::Ok();
  }

  Status Encode(const FieldDescription& field, double tolerance, std::vector<PatchSamples> patches,
                std::vector<EncodedPatchOfGrid>* encoded) {
    const PhaseTimer timer(&seconds_, Phase::kEncode);
    Progress progress(fmt::format("encode {}", field.name), patches.size(), root());
    const EncodeSettings settings{field.coder, field.type, dataset_.levels, tolerance, field.fill_bits()};
    return AgreeOnStatus(comm_, Guarded([&]() -> Status {
                           QUARRY_ASSIGN_OR_RETURN(
                               *encoded, EncodePatches(*grid_, settings, std::move(patches), threads_,
                                                       [&](std::size_t done) { progress.Update(done); }));
                           return Status::Ok();
                         }));
  }

  /// What every rank has to know of all patches.
  struct Sizes {
    std::vector<std::uint64_t> packed;       ///< bytes of a packed patch, by patch index
    std::vector<std::uint64_t> packed_mask;  ///< the same of its mask
    std::uint64_t mask_name = 0;             ///< 0: no sample of the grid is missing
  };

  std::int64_t SamplesOf(std::int64_t patch) const { return grid_->PatchBox(patch).volume(); }

  Sizes ShareSizes(const std::vector<EncodedPatchOfGrid>& encoded) {
    const PhaseTimer timer(&seconds_, Phase::kAssign);
    constexpr std::size_t kNumbers = 5;
    std::vector<std::uint64_t> mine;
    for (const EncodedPatchOfGrid& patch : encoded) {
      mine.push_back(static_cast<std::uint64_t>(patch.patch_index));
      mine.push_back(PackedPatch::PackedSize(patch.encoded));
      mine.push_back(PackedPatch::PackedMaskSize(patch.encoded));
      mine.push_back(format::MaskDigest(MaskRow(patch, SamplesOf(patch.patch_index))));
      mine.push_back(patch.encoded.mask_levels.empty() ? 0 : 1);
    }
    const std::vector<std::uint64_t> all = GatherEverywhere(comm_, mine);
    Sizes sizes;
    sizes.packed.resize(morton_order_.size());
    sizes.packed_mask.resize(morton_order_.size());
    std::vector<std::uint64_t> digests(morton_order_.size());
    bool any_missing = false;
    for (std::size_t i = 0; i < all.size(); i += kNumbers) {
      sizes.packed[all[i]] = all[i + 1];
      sizes.packed_mask[all[i]] = all[i + 2];
      digests[all[i]] = all[i + 3];
      any_missing = any_missing || all[i + 4] != 0;
    }
    if (any_missing) sizes.mask_name = format::MaskName(InMortonOrder(digests));
    return sizes;
  }

  std::vector<std::uint64_t> InMortonOrder(const std::vector<std::uint64_t>& by_index) const {
    std::vector<std::uint64_t> in_order;
    for (const std::int64_t patch : morton_order_)
      in_order.push_back(by_index[static_cast<std::size_t>(patch)]);
    return in_order;
  }

  /// Writes the mask, unless a step or field before has written it. The description is complete on rank 0.
  Result<MaskDescription> WriteMask(const Sizes& sizes, const std::vector<EncodedPatchOfGrid>& encoded) {
    std::optional<MaskDescription> known;
    QUARRY_RETURN_IF_ERROR(BroadcastStatus(comm_, !root() ? Status::Ok() : Guarded([&]() -> Status {
                                             QUARRY_ASSIGN_OR_RETURN(known,
                                                                     publisher_->FindMask(sizes.mask_name));
                                             return Status::Ok();
                                           })));
    if (!BroadcastText(comm_, known ? "known" : "").empty()) return known.value_or(MaskDescription{});
    std::map<std::int64_t, PackedPatch> mine;
    for (const EncodedPatchOfGrid& patch : encoded)
      mine.emplace(patch.patch_index, PackedPatch::PackMask(patch, SamplesOf(patch.patch_index)));
    ReceivedPatches received = AssignAndTransfer(sizes.packed_mask, std::move(mine));
    const format::SubfileHeader header = format::MaskHeader(sizes.mask_name, dataset_.grid.dims,
                                                            dataset_.patch, dataset_.levels, dataset_.order);
    QUARRY_ASSIGN_OR_RETURN(
        const std::vector<SubfileSummary> summaries,
        WriteFiles([&] { return publisher_->StageMask(sizes.mask_name); }, header, std::move(received)));
    const MaskDescription mask{sizes.mask_name, SubfilesOf(summaries)};
    if (root()) {
      publisher_->AddMask(mask);
      new_mask_bytes_[mask.name] = mask.bytes();
    }
    return mask;
  }

  /// Every rank computes the same assignment and sends its patches to their aggregators.
  /// @param packed_size  by patch index
  ReceivedPatches AssignAndTransfer(const std::vector<std::uint64_t>& packed_size,
                                    std::map<std::int64_t, PackedPatch> mine) {
    distribution::Assignment assignment;
    {
      const PhaseTimer timer(&seconds_, Phase::kAssign);
      assignment = distribution::AssignPatches(InMortonOrder(packed_size), files_, options_.aggregation);
    }
    const PhaseTimer timer(&seconds_, Phase::kTransfer);
    return TransferPatches(comm_, morton_order_, placement_, packed_size, assignment, std::move(mine));
  }

  /// Writes the subfiles of which this rank has the patches.
  /// @param stage   called on rank 0: makes the folder for them
  /// @param header  of the first; number and count are filled in
  /// @returns       the summaries of all of them, in file order, on rank 0
  template <typename Stage>
  Result<std::vector<SubfileSummary>> WriteFiles(Stage stage, format::SubfileHeader header,
                                                 ReceivedPatches received) {
    const PhaseTimer timer(&seconds_, Phase::kWrite);
    std::string folder;
    QUARRY_RETURN_IF_ERROR(BroadcastStatus(comm_, !root() ? Status::Ok() : Guarded([&]() -> Status {
                                             QUARRY_ASSIGN_OR_RETURN(const fs::path path, stage());
                                             folder = path.string();
                                             return Status::Ok();
                                           })));
    folder = BroadcastText(comm_, folder);
    Bytes mine;
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(
        comm_, Guarded([&]() -> Status {
          for (const FileContents& file : received.files) {
            const auto first = received.patches.begin();
            const std::vector<PackedPatch> patches(
                std::make_move_iterator(first + static_cast<std::ptrdiff_t>(file.begin)),
                std::make_move_iterator(first + static_cast<std::ptrdiff_t>(file.end)));
            header.subfile_number = static_cast<std::uint32_t>(file.number);
            header.patch_count = patches.size();
            QUARRY_ASSIGN_OR_RETURN(
                const SubfileSummary summary,
                WriteSubfile(fs::path(folder) / format::SubfileName(file.number), header, *grid_, patches));
            summary.EncodeTo(&mine);
          }
          return Status::Ok();
        })));
    const Bytes all = GatherBytes(comm_, mine);
    std::vector<SubfileSummary> summaries;
    if (!root()) return summaries;
    // Aggregators ascend with the files, so that the order of the ranks is that of the files.
    LittleEndianReader reader(all.data());
    for (std::size_t f = 0; f < files_; ++f)
      summaries.push_back(SubfileSummary::DecodeFrom(&reader, dataset_.levels));
    return summaries;
  }

  static std::vector<SubfileDescription> SubfilesOf(const std::vector<SubfileSummary>& summaries) {
    std::vector<SubfileDescription> subfiles;
    for (const SubfileSummary& summary : summaries) {
      subfiles.push_back({format::SubfileName(subfiles.size()), summary.bytes, summary.patches,
                          summary.bounds, summary.table_checksum});
    }
    return subfiles;
  }

  /// Rank 0: subfile summaries into the field's record.
  void Describe(const std::vector<SubfileSummary>& summaries, FieldStepDescription* field) const {
    if (!root()) return;
    field->subfiles = SubfilesOf(summaries);
    const auto levels = static_cast<std::size_t>(dataset_.levels);
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

  void FinishReport(double seconds) {
    report_->ranks = ranks_;
    for (std::size_t p = 0; p < kPhases; ++p) report_->seconds[p] = MaxOverRanks(comm_, seconds_[p]);
    report_->total_seconds = MaxOverRanks(comm_, seconds);
    for (const std::int64_t count : distribution::CountPerRank(placement_, ranks_))
      report_->patches_per_rank.push_back(static_cast<std::uint64_t>(count));
  }

  MPI_Comm comm_;
  const WriteOptions& options_;
  WriteReport* report_;
  const int rank_;
  const int ranks_;
  int threads_ = 1;
  std::array<double, kPhases> seconds_{};

  Jobs jobs_;
  std::optional<Publisher> publisher_;  // rank 0 only
  std::optional<DatasetDescription> existing_;
  DatasetDescription dataset_;
  std::optional<PatchGrid> grid_;
  std::vector<std::int64_t> morton_order_;
  std::size_t files_ = 1;
  distribution::Ownership owned_;
  distribution::Placement placement_;
  /// Masks that this run has written and not reported yet, on rank 0.
  std::map<std::uint64_t, std::uint64_t> new_mask_bytes_;
};

}  // namespace

Status WriteDataset(MPI_Comm comm, const WriteOptions& options, WriteReport* report) {
  return Run(comm, options, report).Execute();
}

}  // namespace quarry::writer
