#include "writer/writer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "quarry/base/progress.h"
#include "quarry/base/units.h"
#include "quarry/base/utf8.h"
#include "quarry/format/manifest.h"
#include "writer/comm.h"
#include "writer/distribution/decomposition.h"
#include "writer/dry_run.h"
#include "writer/encode.h"
#include "writer/exchange.h"
#include "writer/plan.h"
#include "writer/publish.h"
#include "writer/subfile_writer.h"

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
    owned_ = distribution::ReadingBoxes(dataset_.grid.dims, ranks_);
    placement_ = distribution::PlacePatches(*grid_, owned_, options_.placement);
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
      for (const Input& input : inputs) {
        if (!published.contains(input.field)) continue;
        return Status(
            StatusCode::kAlreadyExists,
            fmt::format("step {} of \"{}\" has the field \"{}\" already; choose another --step or --field",
                        step, options_.output, input.field));
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
      description.time = options_.time;
      for (const Input& input : inputs) {
        Result<FieldStepDescription> field = WriteField(step, input);
        if (!field.ok())
          return std::move(field).status().Annotate(fmt::format("step {}, field \"{}\"", step, input.field));
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
      report_->fields.push_back({step.step,
                                 field.name,
                                 field.raw_bytes,
                                 field.stored_bytes,
                                 field.tolerance,
                                 field.max_error,
                                 field.psnr,
                                 {}});
      for (const SubfileDescription& subfile : field.subfiles)
        report_->fields.back().bytes_per_file.push_back(subfile.bytes);
      fmt::print("step {}: {} published, {} -> {}\n", step.step, field.name, FormatBytes(field.raw_bytes),
                 FormatBytes(field.stored_bytes));
    }
    std::fflush(stdout);
  }

  Result<FieldStepDescription> WriteField(std::uint64_t step, const Input& input) {
    const std::size_t number = *dataset_.FindField(input.field);
    const FieldDescription& field = dataset_.fields[number];
    FieldStepDescription description;
    description.name = field.name;
    description.source = ToUtf8(fs::path(input.path).filename().string());
    description.raw_bytes = static_cast<std::uint64_t>(Volume(input.dims)) * SizeOf(input.type);
    description.patches = static_cast<std::uint64_t>(grid_->patch_count());

    Bytes samples;
    QUARRY_RETURN_IF_ERROR(Read(input, &samples, &description));
    description.tolerance = AbsoluteTolerance(field, description.min, description.max);
    if (!std::isfinite(description.tolerance)) {
      return InvalidArgument(
          "the value range [{}, {}] of \"{}\" is too large for --relative; give --tolerance", description.min,
          description.max, input.path);
    }
    std::vector<PatchSamples> patches;
    {
      const PhaseTimer timer(&seconds_, Phase::kExchange);
      patches = ExchangePatches(comm_, *grid_, input.type, owned_, placement_, samples);
      samples = Bytes();
    }
    std::vector<EncodedPatchOfGrid> encoded;
    QUARRY_RETURN_IF_ERROR(Encode(field, description.tolerance, std::move(patches), &encoded));
    std::vector<PackedPatch> received;
    const std::vector<FileContents> files = AssignAndTransfer(std::move(encoded), &received);
    Bytes summaries;
    QUARRY_RETURN_IF_ERROR(WriteFiles(step, number, files, &received, &summaries));
    Describe(GatherBytes(comm_, summaries), &description);
    return description;
  }

  /// This rank's part of the file; range and finiteness of the whole.
  Status Read(const Input& input, Bytes* samples, FieldStepDescription* description) {
    const PhaseTimer timer(&seconds_, Phase::kRead);
    const Box& mine = owned_[static_cast<std::size_t>(rank_)];
    SampleScan scan;
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm_, Guarded([&]() -> Status {
                                           QUARRY_ASSIGN_OR_RETURN(*samples, ReadBox(input, mine));
                                           scan = ScanSamples(input.type, *samples, mine, input.dims);
                                           return Status::Ok();
                                         })));
    const std::int64_t bad = MinOverRanks(comm_, scan.first_not_finite);
    if (bad != SampleScan::kNone) {
      return InvalidArgument(
          "\"{}\" has a NaN or infinite sample at x {}, y {}, z {} (the first of them); this version codes "
          "finite "
          "samples only: replace them before converting",
          input.path, bad % input.dims[0], bad / input.dims[0] % input.dims[1],
          bad / input.dims[0] / input.dims[1]);
    }
    description->min = MinOverRanks(comm_, scan.min);
    description->max = MaxOverRanks(comm_, scan.max);
    return Status::Ok();
  }

  Status Encode(const FieldDescription& field, double tolerance, std::vector<PatchSamples> patches,
                std::vector<EncodedPatchOfGrid>* encoded) {
    const PhaseTimer timer(&seconds_, Phase::kEncode);
    Progress progress(fmt::format("encode {}", field.name), patches.size(), root());
    return AgreeOnStatus(
        comm_, Guarded([&]() -> Status {
          QUARRY_ASSIGN_OR_RETURN(
              *encoded,
              EncodePatches(*grid_, *FindCoder(field.coder), field.type, dataset_.levels, tolerance,
                            std::move(patches), threads_, [&](std::size_t done) { progress.Update(done); }));
          return Status::Ok();
        }));
  }

  /// A subfile that this rank writes: its number, and where its patches begin and end among those received.
  struct FileContents {
    std::size_t number;
    std::size_t begin;
    std::size_t end;
  };

  /// Every rank learns all patch sizes, computes the same assignment, and sends its patches to their
  /// aggregators.
  std::vector<FileContents> AssignAndTransfer(std::vector<EncodedPatchOfGrid> encoded,
                                              std::vector<PackedPatch>* received) {
    distribution::Assignment assignment;
    std::vector<std::uint64_t> packed_size(morton_order_.size());  // by patch index
    {
      const PhaseTimer timer(&seconds_, Phase::kAssign);
      std::vector<std::uint64_t> mine;
      for (const EncodedPatchOfGrid& patch : encoded) {
        mine.push_back(static_cast<std::uint64_t>(patch.patch_index));
        mine.push_back(PackedPatch::PackedSize(patch.encoded));
      }
      const std::vector<std::uint64_t> all = GatherEverywhere(comm_, mine);
      for (std::size_t i = 0; i < all.size(); i += 2) packed_size[all[i]] = all[i + 1];
      std::vector<std::uint64_t> in_order;
      for (const std::int64_t patch : morton_order_)
        in_order.push_back(packed_size[static_cast<std::size_t>(patch)]);
      assignment = distribution::AssignPatches(in_order, files_, options_.aggregation);
    }
    const PhaseTimer timer(&seconds_, Phase::kTransfer);
    return Transfer(assignment, packed_size, std::move(encoded), received);
  }

  std::vector<FileContents> Transfer(const distribution::Assignment& assignment,
                                     const std::vector<std::uint64_t>& packed_size,
                                     std::vector<EncodedPatchOfGrid> encoded,
                                     std::vector<PackedPatch>* received) {
    std::map<std::int64_t, PackedPatch> mine;
    for (EncodedPatchOfGrid& patch : encoded) {
      mine.emplace(patch.patch_index, PackedPatch::Pack(patch));
      patch.encoded = EncodedPatch();
    }
    // Sender and receiver both walk files and patches in order, so that messages match in the order of
    // posting.
    constexpr int kTag = 1;
    std::vector<FileContents> files;
    std::vector<MPI_Request> requests;
    for (std::size_t f = 0; f < files_; ++f) {
      const int aggregator = distribution::AggregatorRank(f, files_, ranks_);
      if (aggregator == rank_)
        files.push_back({f, received->size(), received->size() + assignment[f + 1] - assignment[f]});
      for (std::size_t i = assignment[f]; i < assignment[f + 1]; ++i) {
        const std::int64_t patch = morton_order_[i];
        const int encoder = placement_[static_cast<std::size_t>(patch)];
        if (aggregator == rank_) {
          received->emplace_back();
          if (encoder == rank_) {
            received->back() = std::move(mine.at(patch));
          } else {
            Bytes& bytes = received->back().bytes;
            bytes.resize(packed_size[static_cast<std::size_t>(patch)]);
            requests.emplace_back();
            MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, encoder, kTag, comm_,
                      &requests.back());
          }
        } else if (encoder == rank_) {
          const Bytes& bytes = mine.at(patch).bytes;
          requests.emplace_back();
          MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, aggregator, kTag, comm_,
                    &requests.back());
        }
      }
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    return files;
  }

  Status WriteFiles(std::uint64_t step, std::size_t field_number, const std::vector<FileContents>& files,
                    std::vector<PackedPatch>* received, Bytes* summaries) {
    const PhaseTimer timer(&seconds_, Phase::kWrite);
    const FieldDescription& field = dataset_.fields[field_number];
    std::string folder;
    QUARRY_RETURN_IF_ERROR(BroadcastStatus(
        comm_, !root() ? Status::Ok() : Guarded([&]() -> Status {
          QUARRY_ASSIGN_OR_RETURN(const fs::path path, publisher_->StageField(step, field.name));
          folder = path.string();
          return Status::Ok();
        })));
    folder = BroadcastText(comm_, folder);
    return AgreeOnStatus(
        comm_, Guarded([&]() -> Status {
          for (const FileContents& file : files) {
            std::vector<PackedPatch> patches(
                std::make_move_iterator(received->begin() + static_cast<std::ptrdiff_t>(file.begin)),
                std::make_move_iterator(received->begin() + static_cast<std::ptrdiff_t>(file.end)));
            format::SubfileHeader header;
            header.step = step;
            header.field_number = static_cast<std::uint32_t>(field_number);
            header.subfile_number = static_cast<std::uint32_t>(file.number);
            header.dims = dataset_.grid.dims;
            header.patch = dataset_.patch;
            header.levels = dataset_.levels;
            header.type = field.type;
            header.coder = field.coder;
            header.order = dataset_.order;
            header.patch_count = patches.size();
            header.field_name = field.name;
            QUARRY_ASSIGN_OR_RETURN(
                const SubfileSummary summary,
                WriteSubfile(fs::path(folder) / format::SubfileName(file.number), header, *grid_, patches));
            summary.EncodeTo(summaries);
          }
          return Status::Ok();
        }));
  }

  /// Rank 0: subfile summaries, in file order because aggregators ascend with the files, into the field's
  /// record.
  void Describe(const Bytes& summaries, FieldStepDescription* field) const {
    if (!root()) return;
    LittleEndianReader reader(summaries.data());
    std::vector<double> squares(static_cast<std::size_t>(dataset_.levels), 0);
    field->levels.resize(squares.size());
    for (std::size_t f = 0; f < files_; ++f) {
      const SubfileSummary summary = SubfileSummary::DecodeFrom(&reader, dataset_.levels);
      field->subfiles.push_back(
          {format::SubfileName(f), summary.bytes, summary.patches, summary.bounds, summary.table_checksum});
      field->stored_bytes += summary.bytes;
      for (std::size_t l = 0; l < squares.size(); ++l) {
        field->levels[l].max_error = std::max(field->levels[l].max_error, summary.levels[l].max_error);
        field->levels[l].bytes += summary.levels[l].bytes;
        squares[l] += summary.levels[l].sum_of_squares;
      }
    }
    const double samples = static_cast<double>(Volume(dataset_.grid.dims));
    for (std::size_t l = 0; l < squares.size(); ++l) field->levels[l].rmse = std::sqrt(squares[l] / samples);
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
  std::vector<Box> owned_;
  distribution::Placement placement_;
};

}  // namespace

Status WriteDataset(MPI_Comm comm, const WriteOptions& options, WriteReport* report) {
  return Run(comm, options, report).Execute();
}

}  // namespace quarry::writer
