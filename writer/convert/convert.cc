#include "writer/convert/convert.h"

#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "quarry/base/output.h"
#include "quarry/base/units.h"
#include "quarry/format/manifest.h"
#include "writer/convert/describe.h"
#include "writer/convert/dry_run.h"
#include "writer/convert/file_source.h"
#include "writer/convert/jobs.h"
#include "writer/convert/step_order.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/place.h"
#include "writer/pipeline/publish.h"
#include "writer/upkeep/dataset_files.h"

namespace quarry::writer {
namespace {

/// One conversion over one communicator.
class Run {
 public:
  Run(MPI_Comm comm, const WriteOptions& options, WriteReport* report)
      : comm_(comm), options_(options), report_(report), ranks_(Size(comm)), root_(Rank(comm) == 0) {}

  Status Execute() {
    const double begin = MPI_Wtime();
    QUARRY_ASSIGN_OR_RETURN(jobs_, OnEveryRank(comm_, [&] { return ListJobs(options_); }));
    for (const std::string& warning : ListWarnings(options_, jobs_)) Warn(warning);
    if (options_.dry_run) return OnRoot(comm_, [&] { return DryRun(); });
    PipelineOptions pipeline = options_.pipeline;
    pipeline.placement = PlacementOf(options_);
    QUARRY_ASSIGN_OR_RETURN(writer_, DatasetWriter::Open(comm_, options_.output, options_.mode, pipeline));
    Status status = Declare();
    if (status.ok()) status = WriteSteps();
    if (!status.ok()) writer_->Abandon();
    QUARRY_RETURN_IF_ERROR(status);
    return FinishReport(MPI_Wtime() - begin);
  }

 private:
  /// Takes no lock and changes nothing.
  Status DryRun() const {
    QUARRY_ASSIGN_OR_RETURN(const WritableLocation place,
                            PlaceOf(options_.output, options_.pipeline.allow_http));
    QUARRY_ASSIGN_OR_RETURN(const bool exists, DatasetExists(place));
    std::optional<DatasetDescription> existing;
    if (options_.mode == OpenMode::kAppend || (options_.mode == OpenMode::kResume && exists)) {
      QUARRY_ASSIGN_OR_RETURN(existing, ReadDescription(place.root));
    } else if (exists) {
      return AlreadyExists(
          "\"{}\" exists already; append to it (--append), or choose another name (--output)",
          options_.output);
    }
    Jobs jobs = jobs_;
    if (existing) {
      std::set<std::string> known;
      for (const std::string& field : FieldsOf(jobs, true)) {
        QUARRY_ASSIGN_OR_RETURN(const bool holds, Publisher::Holds(place.root, field));
        if (holds) known.insert(field);
      }
      LeaveOutCoordinates(known, &jobs);
    }
    TimeUnit unit = TimeUnitOf(options_, jobs);
    if (existing) {
      QUARRY_ASSIGN_OR_RETURN(const bool has_times, Publisher::HasTimes(place.root));
      QUARRY_ASSIGN_OR_RETURN(unit, ContinueTimeUnit(unit, existing->time_unit, has_times));
    }
    QUARRY_ASSIGN_OR_RETURN(const DatasetDescription dataset, DescribeResult(options_, jobs, existing, unit));
    QUARRY_ASSIGN_OR_RETURN(const std::string text, DescribeRun(options_, jobs, dataset, ranks_));
    PrintOut("{}", text);
    return Status::Ok();
  }

  Status Declare() {
    QUARRY_ASSIGN_OR_RETURN(unit_, writer_->ChooseTimeUnit(TimeUnitOf(options_, jobs_)));
    QUARRY_RETURN_IF_ERROR(LeaveOutKnown());
    QUARRY_RETURN_IF_ERROR(GoOn());
    QUARRY_RETURN_IF_ERROR(LeaveOutPublished());
    QUARRY_RETURN_IF_ERROR(OnEveryRank(comm_, [&]() -> Status {
      QUARRY_ASSIGN_OR_RETURN(const DatasetDescription dataset,
                              DescribeResult(options_, jobs_, writer_->existing(), unit_));
      return writer_->Declare(dataset);
    }));
    for (const std::string& warning : ListOtherWords(jobs_, writer_->dataset())) Warn(warning);
    if (root_) Announce();
    return Status::Ok();
  }

  /// Coordinates that the dataset has stand for all steps.
  Status LeaveOutKnown() {
    if (!writer_->existing()) return Status::Ok();
    std::set<std::string> known;
    for (const std::string& field : FieldsOf(jobs_, true)) {
      QUARRY_ASSIGN_OR_RETURN(const bool holds, writer_->Holds(field));
      if (holds) known.insert(field);
    }
    const std::set<std::string> left = LeaveOutCoordinates(known, &jobs_);
    if (!left.empty() && options_.mode == OpenMode::kAppend)
      Warn(fmt::format("the dataset keeps its coordinates {}; they are not compared with those of the files",
                       fmt::join(left, ", ")));
    return Status::Ok();
  }

  /// Without --step, appending continues after the last step of its field.
  Status GoOn() {
    if (options_.mode != OpenMode::kAppend || options_.first_step) return Status::Ok();
    FirstSteps first;
    std::map<std::string, PublishedStep> last;
    for (const std::string& field : FieldsOf(jobs_, false)) {
      QUARRY_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> step, writer_->LastStep(field));
      if (!step) continue;
      first[field] = *step + 1;
      QUARRY_ASSIGN_OR_RETURN(last[field], writer_->Published(*step));
    }
    QUARRY_ASSIGN_OR_RETURN(jobs_,
                            OnEveryRank(comm_, [&] { return Renumber(std::exchange(jobs_, {}), first); }));
    return WarnOfEarlierTimes(last);
  }

  /// The first of the appended steps of a field comes after those that are there.
  Status WarnOfEarlierTimes(const std::map<std::string, PublishedStep>& last) {
    std::set<std::string> checked;
    for (const auto& [step, jobs] : jobs_) {
      for (const Job& job : jobs) {
        const auto before = last.find(job.info.field);
        if (before == last.end() || !before->second.time || !checked.insert(job.info.field).second) continue;
        QUARRY_ASSIGN_OR_RETURN(const std::optional<double> time, TimeOf(options_, {job}, unit_));
        if (!time || *time > *before->second.time) continue;
        Warn(
            fmt::format("step {} of field \"{}\" has the time {}, which is not after {}, the last time of "
                        "the dataset; --resume skips published steps",
                        step, job.info.field, *time, *before->second.time));
      }
    }
    return Status::Ok();
  }

  /// Rank 0 tells the user, and the report.
  void Warn(const std::string& warning) {
    if (!root_) return;
    WriteError(fmt::format("quarry-write: warning: {}\n", warning));
    report_->warnings.push_back(warning);
  }

  /// A published field is an error, or with --resume already done.
  Status LeaveOutPublished() {
    if (!writer_->existing()) return Status::Ok();
    for (auto& [step, jobs] : jobs_) {
      QUARRY_ASSIGN_OR_RETURN(const PublishedStep published, writer_->Published(step));
      for (Job& job : jobs) {
        if (!published.has(job.info.field)) continue;
        if (options_.mode != OpenMode::kResume) {
          return AlreadyExists(
              "step {} of \"{}\" has the field \"{}\" already; leave --step out to go on "
              "after the last one, or choose another --field",
              step, options_.output, job.info.field);
        }
        QUARRY_ASSIGN_OR_RETURN(const std::optional<double> time, TimeOf(options_, {job}, unit_));
        QUARRY_RETURN_IF_ERROR(
            CheckSameInput(options_.output, step, published, job.info.field, job.info.source, time));
        job.done = true;
        ++left_out_;
      }
    }
    return Status::Ok();
  }

  /// A line for each grid that is written to.
  void Announce() const {
    const DatasetDescription& dataset = writer_->dataset();
    std::set<std::size_t> announced;
    for (const auto& [step, jobs] : jobs_) {
      for (const Job& job : jobs) {
        const FieldDescription& field = dataset.fields[*dataset.FindField(job.info.field)];
        if (announced.insert(field.grid).second) Announce(dataset.GridOf(field), writer_->PlanOf(field));
      }
    }
    if (left_out_ > 0)
      PrintOut("{} field{} published already, skipped\n", left_out_, left_out_ == 1 ? "" : "s");
    (void)FlushOutput();  // the end of the program reports the loss
  }

  void Announce(const GridDescription& grid, const DatasetWriter::GridPlan& plan) const {
    PrintOut("{}: grid {}, {} patches of {}, {} levels, {} step{}, {} rank{}, {} file{} per field and step\n",
             options_.output, ToString(grid.dims), plan.patches.patch_count(), ToString(grid.patch),
             grid.levels, jobs_.size(), jobs_.size() == 1 ? "" : "s", ranks_, ranks_ == 1 ? "" : "s",
             plan.files, plan.files == 1 ? "" : "s");
  }

  Status WriteSteps() {
    std::vector<std::uint64_t> steps;
    for (const auto& [step, jobs] : jobs_) steps.push_back(step);
    int keyframe = 0;
    for (const FieldDescription& field : writer_->dataset().fields)
      keyframe = std::max(keyframe, field.keyframe);
    const auto order = OrderSteps(steps, keyframe);
    // A single step is one more of a chain.
    if (steps.size() > 1) writer_->PlanReferences(order);
    for (const auto& [step, references] : order) {
      const std::vector<Job>& jobs = jobs_.at(step);
      std::vector<FieldReport> reports;
      for (const Job& job : jobs) {
        if (job.done) continue;
        QUARRY_ASSIGN_OR_RETURN(const FieldOutcome outcome, WriteField(step, job));
        if (root_) reports.push_back(ReportOf(step, outcome));
      }
      if (jobs.end() == std::find_if(jobs.begin(), jobs.end(), [](const Job& job) { return !job.done; }))
        continue;
      QUARRY_ASSIGN_OR_RETURN(const std::optional<double> time,
                              TimeOf(options_, jobs, writer_->dataset().time_unit));
      QUARRY_RETURN_IF_ERROR(writer_->PublishStep(step, time));
      for (const std::string& warning : writer_->TakeWarnings()) Warn(warning);
      for (FieldReport& report : reports) {
        PrintOut("step {}: {} published, {} -> {}\n", step, report.field, FormatBytes(report.bytes_in),
                 FormatBytes(report.bytes_out));
        report_->fields.push_back(std::move(report));
      }
      (void)FlushOutput();  // the end of the program reports the loss
    }
    return Status::Ok();
  }

  Result<FieldOutcome> WriteField(std::uint64_t step, const Job& job) {
    std::unique_ptr<input::Input> input;
    {
      const Timer timer(writer_->mutable_seconds(), Phase::kRead);
      QUARRY_ASSIGN_OR_RETURN(input, OnEveryRank(comm_, [&] { return job.Open(options_); }));
    }
    const DatasetDescription& dataset = writer_->dataset();
    const std::size_t field = *dataset.FindField(job.info.field);
    QUARRY_ASSIGN_OR_RETURN(const std::optional<FieldSource::Wider> wider,
                            FindWider(job.OptionsIn(options_), input->info(), dataset.fields[field]));
    FileSource source(*input, ranks_, options_.reading, dataset.GridOf(field).patch, wider);
    if (!first_written_) first_written_ = step;
    writer_->KeepPatchSizes(options_.patch_sizes && step == *first_written_);
    QUARRY_ASSIGN_OR_RETURN(FieldOutcome outcome, writer_->WriteField(step, field, job.info.source, &source));
    const std::uint64_t images = input->images_read();
    QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> of_ranks,
                            GatherEverywhere(comm_, std::span(&images, 1)));
    images_read_ = std::accumulate(of_ranks.begin(), of_ranks.end(), std::uint64_t{0});
    return outcome;
  }

  FieldReport ReportOf(std::uint64_t step, const FieldOutcome& outcome) {
    const FieldStepDescription& field = outcome.description;
    FieldReport report;
    report.step = step;
    report.field = field.name;
    report.bytes_in = field.raw_bytes;
    // A mask counts for the first field that has it; it costs the others nothing more.
    report.mask_bytes = outcome.new_mask_bytes;
    report.bytes_out = field.stored_bytes + outcome.new_mask_bytes;
    for (const LevelRecord& level : field.levels) report.payload_bytes += level.bytes;
    const DatasetDescription& dataset = writer_->dataset();
    const std::size_t number = *dataset.FindField(field.name);
    report.lossless = dataset.fields[number].lossless();
    report.valid_fraction =
        static_cast<double>(field.valid) / static_cast<double>(dataset.GridOf(number).samples());
    report.tolerance = field.tolerance;
    report.max_error = field.max_error;
    report.psnr = field.psnr;
    report.outlying = outcome.outlying.has_value();
    if (outcome.outlying) {
      Warn(fmt::format("step {}: the range of field \"{}\" comes from a few outliers: {}", step, field.name,
                       ToString(*outcome.outlying)));
    }
    for (const SubfileDescription& subfile : field.subfiles) report.bytes_per_file.push_back(subfile.bytes);
    report.images_read = images_read_;
    if (!outcome.stored_bytes.empty())
      report_->AddToSizeGrid(writer_->PlanOf(dataset.fields[number]).patches.patches(), outcome.stored_bytes);
    return report;
  }

  Status FinishReport(double seconds) {
    report_->ranks = ranks_;
    report_->seconds = writer_->seconds();
    report_->total_seconds = seconds;
    QUARRY_RETURN_IF_ERROR(MaxOverRanks(comm_, report_->seconds));
    QUARRY_RETURN_IF_ERROR(MaxOverRanks(comm_, std::span(&report_->total_seconds, 1)));
    for (const std::int64_t count : writer_->patches_per_rank())
      report_->patches_per_rank.push_back(static_cast<std::uint64_t>(count));
    return Status::Ok();
  }

  MPI_Comm comm_;
  const WriteOptions& options_;
  WriteReport* report_;
  const int ranks_;
  const bool root_;
  Jobs jobs_;
  TimeUnit unit_;  ///< unit of the dataset's times
  std::size_t left_out_ = 0;
  std::optional<std::uint64_t> first_written_;  ///< step
  std::uint64_t images_read_ = 0;               ///< for the field written last
  std::unique_ptr<DatasetWriter> writer_;
};

}  // namespace

Status WriteDataset(MPI_Comm comm, const WriteOptions& options, WriteReport* report) {
  return Run(comm, options, report).Execute();
}

}  // namespace quarry::writer
