#include "writer/pipeline/dataset_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <sstream>

#include "quarry/base/missing.h"
#include "quarry/base/split.h"
#include "quarry/base/utf8.h"
#include "quarry/dataset/table_locator.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/invariants.h"
#include "quarry/format/manifest.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/declare.h"
#include "writer/pipeline/field_files.h"
#include "writer/pipeline/field_run.h"
#include "writer/pipeline/own_patches.h"
#include "writer/pipeline/place.h"
#include "writer/pipeline/publish.h"

namespace quarry::writer {

namespace {

/// Whether rank 0 finds that something is so, on every rank. @collective
template <typename Work>
Result<bool> AskRoot(MPI_Comm comm, Work work) {
  const auto ask = [&]() -> Result<std::string> {
    QUARRY_ASSIGN_OR_RETURN(const bool is_so, work());
    return std::string(is_so ? "yes" : "");
  };
  QUARRY_ASSIGN_OR_RETURN(const std::string text, TextOfRoot(comm, ask));
  return !text.empty();
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
  if (const auto* pointwise = std::get_if<PointwiseBound>(&field.bound)) return {pointwise->tolerance};
  const double range = min <= max ? max - min : 0;
  std::vector<double> tolerances = field.rougher;
  if (field.rougher_relative) {
    for (double& tolerance : tolerances) tolerance *= range;
  }
  const double unit = std::holds_alternative<RelativeBound>(field.bound) ? range : 1;
  tolerances.push_back(ToleranceOf(field.bound) * unit);
  return tolerances;
}

DatasetWriter::DatasetWriter(MPI_Comm comm, const PipelineOptions& options)
    : comm_(comm), options_(options), rank_(Rank(comm)), ranks_(Size(comm)) {}

Result<std::unique_ptr<DatasetWriter>> DatasetWriter::Open(MPI_Comm comm, const std::string& path,
                                                           OpenMode mode, const PipelineOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const WritableLocation place,
                          OnEveryRank(comm, [&] { return PlaceOf(path, options.allow_http); }));
  return Open(comm, place, mode, options);
}

Result<std::unique_ptr<DatasetWriter>> DatasetWriter::Open(MPI_Comm comm, const WritableLocation& place,
                                                           OpenMode mode, const PipelineOptions& options) {
  std::unique_ptr<DatasetWriter> writer(new DatasetWriter(comm, options));
  writer->place_ = place;
  QUARRY_ASSIGN_OR_RETURN(writer->threads_, ThreadsOfRank(comm));
  const auto open = [&]() -> Result<std::string> {
    QUARRY_ASSIGN_OR_RETURN(const bool exists, DatasetExists(place));
    const bool append = mode == OpenMode::kAppend || (mode == OpenMode::kResume && exists);
    QUARRY_ASSIGN_OR_RETURN(writer->publisher_, Publisher::Open(place, append, options.break_lock));
    writer->published_.emplace(place.root);
    const std::optional<DatasetDescription>& found = writer->publisher_->existing();
    return found ? format::EncodeManifest(*found) : std::string();
  };
  QUARRY_ASSIGN_OR_RETURN(const std::string existing, TextOfRoot(comm, open));
  if (!existing.empty()) {
    QUARRY_ASSIGN_OR_RETURN(writer->existing_, format::DecodeDatasetManifest(existing));
  }
  return writer;
}

Result<PublishedStep> DatasetWriter::Published(std::uint64_t step) {
  const auto find = [&]() -> Result<std::string> {
    QUARRY_ASSIGN_OR_RETURN(const PublishedStep published, publisher_->Published(step));
    std::string text;
    // Neither names nor numbers have a zero byte.
    const auto add = [&](const std::string& part) { text.append(part).push_back('\0'); };
    add(published.time ? fmt::format("{}", *published.time) : "");
    for (const auto& [field, source] : published.sources) {
      add(field);
      add(source);
    }
    return text;
  };
  QUARRY_ASSIGN_OR_RETURN(const std::string text, TextOfRoot(comm_, find));
  PublishedStep published;
  const std::vector<std::string_view> parts = Split(text, '\0');  // empty behind the last zero byte
  if (!parts[0].empty()) published.time = std::stod(std::string(parts[0]));
  for (std::size_t i = 1; i + 1 < parts.size(); i += 2)
    published.sources[std::string(parts[i])] = parts[i + 1];
  return published;
}

Result<std::optional<std::uint64_t>> DatasetWriter::LastStep(const std::string& field) {
  const auto find = [&]() -> Result<std::string> {
    QUARRY_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> last, Publisher::LastStep(place_.root, field));
    return last ? std::to_string(*last) : std::string();
  };
  QUARRY_ASSIGN_OR_RETURN(const std::string text, TextOfRoot(comm_, find));
  return text.empty() ? std::nullopt : std::optional<std::uint64_t>(std::stoull(text));
}

Result<bool> DatasetWriter::Holds(const std::string& field) {
  return AskRoot(comm_, [&] { return Publisher::Holds(place_.root, field); });
}

Result<TimeUnit> DatasetWriter::ChooseTimeUnit(const TimeUnit& here) {
  QUARRY_RETURN_IF_ERROR(CheckTimeUnit(here));
  if (!existing_) return here;
  bool has_times = false;
  if (!here.units.empty() && existing_->time_unit.units.empty()) {
    QUARRY_ASSIGN_OR_RETURN(has_times, AskRoot(comm_, [&] { return Publisher::HasTimes(place_.root); }));
  }
  return ContinueTimeUnit(here, existing_->time_unit, has_times);
}

Status DatasetWriter::Declare(const DatasetDescription& dataset) {
  QUARRY_RETURN_IF_ERROR(format::CheckDataset(dataset));
  QUARRY_RETURN_IF_ERROR(format::CheckManifestSize(dataset));
  grids_.clear();
  for (const GridDescription& grid : dataset.grids) {
    QUARRY_ASSIGN_OR_RETURN(const PatchGrid patches, PatchesOf(grid));
    grids_.push_back({patches, ChooseFileCount(options_.files, patches, ranks_)});
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
  const GridPlan& grid = PlanOf(field);
  const PatchParts parts{dataset_.GridOf(field).levels, field.layers()};
  QUARRY_RETURN_IF_ERROR(FieldFiles::CheckCount(grid.files, parts));
  const std::uint64_t memory = options_.memory_per_rank.value_or(UINT64_MAX);
  QUARRY_ASSIGN_OR_RETURN(const std::string folder,
                          TextOfRoot(comm_, [&] { return publisher_->StageField(step, field.name); }));
  QUARRY_ASSIGN_OR_RETURN(const std::filesystem::path temporary,
                          OnEveryRank(comm_, [&] { return place_.storage->TemporaryFolder(folder); }));
  OwnPatches own(grid.patches, parts, temporary, memory / kPayloadShare);
  QUARRY_ASSIGN_OR_RETURN(EarlierPatches * earlier, BeginEarlier(step, number));
  FieldRun run(this, field, source, &own, earlier);
  QUARRY_RETURN_IF_ERROR(run.Encode(source_name));

  const FileSetting setting{comm_,  dataset_, field.grid,       grid.files,  options_.aggregation,
                            memory, place_,   publisher_.get(), &exchanges_, &seconds_};
  const FieldFiles files(setting, own);
  QUARRY_ASSIGN_OR_RETURN(FieldMask mask, files.WriteMask());
  QUARRY_ASSIGN_OR_RETURN(const std::vector<SubfileSummary> summaries,
                          files.WriteSamples(folder, FieldHeader(dataset_, step, number, mask.name)));
  FieldOutcome outcome;
  outcome.outlying = run.outlying();
  FieldStepDescription& d = outcome.description;
  QUARRY_ASSIGN_OR_RETURN(d.min, MinOverRanks(comm_, own.min()));
  QUARRY_ASSIGN_OR_RETURN(d.max, MaxOverRanks(comm_, own.max()));
  QUARRY_ASSIGN_OR_RETURN(const double refers, MaxOverRanks(comm_, own.any_refers() ? 1.0 : 0.0));
  if (refers != 0) d.references = earlier->references();
  outcome.new_mask_bytes = mask.new_bytes;
  if (keep_patch_sizes_) {
    QUARRY_ASSIGN_OR_RETURN(outcome.stored_bytes, files.StoredBytes());
  }
  if (!root()) return outcome;
  d.name = field.name;
  d.source = ToUtf8(source_name);
  d.raw_bytes = run.raw_bytes();
  d.patches = static_cast<std::uint64_t>(grid.patches.patch_count());
  d.tolerance = run.tolerances().back();
  // The largest sample has the largest error.
  if (std::holds_alternative<PointwiseBound>(field.bound))
    d.tolerance *= d.min <= d.max ? std::max(std::abs(d.min), std::abs(d.max)) : 0;
  for (std::size_t k = 0; k + 1 < run.tolerances().size(); ++k)
    d.rougher.push_back({run.tolerances()[k], {}});
  if (mask.name != 0) d.mask = std::move(mask.description);
  EnterSummaries(summaries, parts, &d);
  return outcome;
}

Result<EarlierPatches*> DatasetWriter::BeginEarlier(std::uint64_t step, std::size_t number) {
  const FieldDescription& field = dataset_.fields[number];
  if (field.keyframe <= 1) return static_cast<EarlierPatches*>(nullptr);
  const auto planned =
      std::find_if(plan_.begin(), plan_.end(), [&](const auto& entry) { return entry.first == step; });
  const auto choose = [&]() -> Result<std::string> {
    QUARRY_ASSIGN_OR_RETURN(
        const std::vector<std::uint64_t> references,
        ChooseReferences(place_.root, step, field, planned != plan_.end() ? &planned->second : nullptr,
                         &*published_));
    return fmt::format("{}", fmt::join(references, " "));
  };
  QUARRY_ASSIGN_OR_RETURN(const std::string chosen, TextOfRoot(comm_, choose));
  std::istringstream words(chosen);
  const std::vector<std::uint64_t> references{std::istream_iterator<std::uint64_t>(words), {}};
  std::set<std::uint64_t> later;
  if (planned == plan_.end()) later = {step};
  for (auto next = planned; next != plan_.end(); ++next) {
    if (next != planned) later.insert(next->second.begin(), next->second.end());
  }
  const std::uint64_t most = options_.memory_per_rank.value_or(UINT64_MAX) / kEarlierShare;
  EarlierPatches& earlier =
      earlier_.try_emplace(number, place_.root, field.name, field.type, most).first->second;
  earlier.Begin(step, references, later);
  return &earlier;
}

Status DatasetWriter::PublishStep(std::uint64_t step, std::optional<double> time) {
  const Timer timer(&seconds_, Phase::kWrite);
  StepDescription description{step, time, std::move(written_)};
  written_.clear();
  Status status = OnRoot(comm_, [&]() -> Status {
    QUARRY_RETURN_IF_ERROR(CheckTime(time));
    Status published = publisher_->PublishStep(dataset_, description);
    if (std::string warning = publisher_->TakeWarning(); !warning.empty())
      warnings_.push_back(std::move(warning));
    if (published.ok()) {
      published_->Add(step);
    } else {
      published_.emplace(place_.root);  // it may be visible all the same
    }
    return published;
  });
  if (!status.ok()) Abandon();
  return status;
}

void DatasetWriter::Abandon() {
  written_.clear();
  if (publisher_) publisher_->Abandon();
}

}  // namespace quarry::writer
