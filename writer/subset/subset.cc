#include "writer/subset/subset.h"

#include <mpi.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "quarry/base/checksum.h"
#include "quarry/calendar.h"
#include "quarry/codec/coder.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/invariants.h"
#include "quarry/query/question_rules.h"
#include "quarry/version.h"
#include "writer/pipeline/dataset_writer.h"
#include "writer/pipeline/declare.h"
#include "writer/subset/cut.h"

namespace quarry::writer {
namespace {

constexpr const char* kSourceAttribute = "quarry_source";
/// Between the name of the source, which may change, and the samples.
constexpr std::string_view kBehindName = ": ";

/// The samples of one field of one step, read from the source box by box.
class SubsetSource final : public FieldSource {
 public:
  /// @param read  the question but for its box
  SubsetSource(const client::Dataset& from, query::ReadRequest read, const Cut& cut, std::size_t sample_size,
               std::function<void(std::uint64_t)> count)
      : from_(from), read_(std::move(read)), cut_(cut), sample_size_(sample_size), count_(std::move(count)) {}

  std::unique_ptr<distribution::RankBoxes> Owned(const Box& region) const override {
    return std::make_unique<distribution::ListedBoxes>(distribution::Ownership{{region}});
  }

  Result<std::vector<BoxView>> Load(const std::vector<Box>& boxes) override {
    buffers_.resize(std::max(buffers_.size(), boxes.size()));
    std::vector<BoxView> views;
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      QUARRY_RETURN_IF_ERROR(LoadBox(boxes[b], &buffers_[b]));
      views.push_back(BoxView::Dense(buffers_[b].data(), boxes[b], sample_size_));
      count_(static_cast<std::uint64_t>(boxes[b].volume()));
    }
    return views;
  }
  void Release() override { buffers_.clear(); }

 private:
  Status LoadBox(const Box& box, Bytes* buffer) {
    buffer->resize(static_cast<std::size_t>(box.volume()) * sample_size_);
    query::ReadRequest request = read_;
    request.box = cut_.Source(box);
    client::CallOptions call;
    call.buffer = [&](const client::LevelSamples& level, std::size_t bytes) -> Result<std::span<std::byte>> {
      if (level.extent.shape() == box.shape() && bytes == buffer->size())
        return std::span<std::byte>(*buffer);
      return InternalError("{} samples came for the box {}", ToString(level.extent.shape()), ToString(box));
    };
    return from_.Read(request, call).status();
  }

  const client::Dataset& from_;
  const query::ReadRequest read_;
  const Cut cut_;
  const std::size_t sample_size_;
  const std::function<void(std::uint64_t)> count_;
  std::vector<Bytes> buffers_;  ///< behind the views
};

/// The bound of a field whose samples may get this error on top of their own.
void SetBound(const FieldDescription& source, const query::Recode& recode, FieldRequest* field) {
  const double more = recode.factor - 1;
  const double tolerance = ToleranceOf(source.bound);
  const bool is_exact = IsWideInteger(source.type) || source.given == GivenType::kBool;
  if (recode.error > 0 && !is_exact) {
    field->tolerance = recode.error;
  } else if (more <= 0 || source.lossless() || is_exact) {
    field->lossless = true;
  } else if (std::holds_alternative<RelativeBound>(source.bound)) {
    // The range of stored samples is at most 1 + 2 tolerance times the original one.
    field->relative = more * tolerance / (1 + 2 * tolerance);
  } else if (std::holds_alternative<PointwiseBound>(source.bound)) {
    // A stored sample is at most 1 + tolerance times the original.
    field->pointwise_relative = more * tolerance / (1 + tolerance);
  } else {
    field->tolerance = more * tolerance;
  }
}

/// A coder with the guarantees of a field's own, for another bound; nothing: the default has them.
std::optional<CoderId> CoderThatKeeps(const FieldDescription& source, const FieldRequest& field) {
  // A pointwise bound keeps zeros and signs.
  if (std::holds_alternative<PointwiseBound>(source.bound))
    return field.tolerance ? std::optional(CoderId::kInterpolateSigns) : std::nullopt;
  if (FindCoder(source.coder)->traits().has_safeguards) return source.coder;
  return std::nullopt;
}

/// Whether samples of two grids have the same places.
bool IsSameGrid(const GridDescription& a, const GridDescription& b) {
  if (a.dims != b.dims || a.has_axis != b.has_axis || a.axis_names != b.axis_names) return false;
  return IsSameAxis(a, 0, b, 0) && IsSameAxis(a, 1, b, 1) && IsSameAxis(a, 2, b, 2);
}

class CopyingSubset {
 public:
  CopyingSubset(const client::Dataset& from, std::string to, const SubsetOptions& options)
      : from_(from), source_(from.description()), to_(std::move(to)), options_(options) {}

  Result<SubsetReport> Run() {
    QUARRY_RETURN_IF_ERROR(ChooseFields());
    QUARRY_RETURN_IF_ERROR(ChooseSteps());
    QUARRY_RETURN_IF_ERROR(CutGrids());
    if (options_.dry_run) return Foresee();
    PipelineOptions pipeline;
    pipeline.memory_per_rank = options_.memory;
    pipeline.break_lock = options_.break_lock;
    pipeline.allow_http = options_.allow_http;
    // The source was accepted with this range.
    pipeline.accept_range = true;
    QUARRY_ASSIGN_OR_RETURN(writer_, DatasetWriter::Open(MPI_COMM_WORLD, to_, OpenMode::kResume, pipeline));
    Status status = Write().Annotate(fmt::format("\"{}\"", to_));
    if (!status.ok()) writer_->Abandon();
    if (!status.ok()) return status;
    return std::move(report_);
  }

 private:
  Status ChooseFields() {
    for (const std::string& name : options_.fields) {
      const std::optional<std::size_t> field = source_.FindField(name);
      if (!field)
        return NotFound("\"{}\" has no field \"{}\"; run \"quarry info\" for those that it has",
                        options_.source_name, name);
      fields_.push_back(*field);
    }
    for (std::size_t f = 0; options_.fields.empty() && f < source_.fields.size(); ++f) fields_.push_back(f);
    std::ranges::sort(fields_);
    fields_.erase(std::unique(fields_.begin(), fields_.end()), fields_.end());
    std::set<std::string_view> names;
    for (const std::size_t f : fields_) names.insert(source_.fields[f].name);
    return format::CheckChosenFields(source_, names);
  }

  Status CheckLevel() const {
    int levels = 1;
    for (const std::size_t f : fields_) levels = std::max(levels, source_.GridOf(f).levels);
    if (options_.level < levels) return Status::Ok();
    return InvalidArgument("there is no level {}; the fields have levels 0 (full resolution) to {}",
                           options_.level, levels - 1);
  }

  Status CutGrids() {
    QUARRY_RETURN_IF_ERROR(CheckLevel());
    const std::size_t reference = options_.box_grid;
    if (options_.box) QUARRY_RETURN_IF_ERROR(CheckBox(*options_.box, source_.grids[reference].dims));
    for (const std::size_t f : fields_) {
      const FieldDescription& field = source_.fields[f];
      if (cuts_.contains(field.grid)) continue;
      QUARRY_ASSIGN_OR_RETURN(const Cut cut,
                              CutOf(source_, field.grid, reference, options_.box, options_.level)
                                  .Annotate(fmt::format("field \"{}\"", field.name)));
      cuts_.emplace(field.grid, cut);
    }
    return Status::Ok();
  }

  /// A field that does not change goes with the first step.
  Status ChooseSteps() {
    QUARRY_ASSIGN_OR_RETURN(std::vector<StepSummary> all, from_.Steps());
    const auto has = [&](const StepSummary& step, std::size_t f) {
      return step.FindField(source_.fields[f].name) != nullptr;
    };
    // A field that no step has yet is declared alone.
    std::erase_if(fields_, [&](std::size_t f) {
      return std::ranges::none_of(all, [&](const StepSummary& step) { return has(step, f); });
    });
    const bool moves = std::ranges::any_of(fields_, [&](std::size_t f) { return !source_.fields[f].still; });
    for (StepSummary& step : all) {
      // Fields that do not change are those of every step.
      const bool has_any = std::ranges::any_of(
          fields_, [&](std::size_t f) { return has(step, f) || (!moves && source_.fields[f].still); });
      if (has_any && (!options_.steps || options_.steps->Contains(step.step)))
        steps_.push_back(std::move(step));
    }
    if (!moves && !steps_.empty()) {
      const auto owner =
          std::ranges::find_if(steps_, [&](const StepSummary& step) { return has(step, fields_.front()); });
      steps_ = {owner != steps_.end() ? *owner : steps_.front()};
    }
    if (steps_.empty())
      return NotFound("\"{}\" has no such step with these fields; run \"quarry info\" for those that it has",
                      options_.source_name);
    // No step of the copy would ever have the others.
    std::erase_if(fields_, [&](std::size_t f) {
      return !source_.fields[f].still &&
             std::ranges::none_of(steps_, [&](const StepSummary& step) { return has(step, f); });
    });
    report_.steps = steps_.size();
    return Status::Ok();
  }

  bool IsInStep(std::size_t number, std::size_t f) const {
    const FieldDescription& field = source_.fields[f];
    if (field.still) return number == 0;
    return steps_[number].FindField(field.name) != nullptr;
  }

  const Cut& CutOfField(std::size_t f) const { return cuts_.at(source_.fields[f].grid); }
  std::uint64_t SamplesOf(std::size_t f) const {
    return static_cast<std::uint64_t>(CutOfField(f).extent.volume());
  }

  /// Looks at the target as any reader does.
  Result<SubsetReport> Foresee() {
    client::Options reading;
    reading.allow_http = options_.allow_http;
    const auto there = client::Dataset::Open(to_, reading);
    std::vector<StepSummary> steps;
    if (there.ok()) {
      QUARRY_RETURN_IF_ERROR(Describe((*there)->description()).status().Annotate(fmt::format("\"{}\"", to_)));
      QUARRY_ASSIGN_OR_RETURN(steps, (*there)->Steps());
    }
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const auto known = std::ranges::find(steps, steps_[s].step, &StepSummary::step);
      bool is_there = true;
      for (const std::size_t f : fields_) {
        if (!IsInStep(s, f)) continue;
        if (known != steps.end() && known->FindField(source_.fields[f].name) != nullptr) continue;
        is_there = false;
        Count(f);
      }
      report_.there += is_there ? 1 : 0;
    }
    return std::move(report_);
  }

  void Count(std::size_t f) {
    report_.samples += SamplesOf(f);
    report_.sample_bytes += SamplesOf(f) * SizeOf(source_.fields[f].type);
  }

  Status Write() {
    QUARRY_ASSIGN_OR_RETURN(DatasetDescription wanted, Describe(writer_->existing()));
    QUARRY_ASSIGN_OR_RETURN(wanted.time_unit, writer_->ChooseTimeUnit(source_.time_unit));
    if (wanted.time_unit != source_.time_unit)
      return FailedPrecondition(
          "its times are in \"{}\", those of the source in \"{}\"; copy to another name",
          ToString(wanted.time_unit), ToString(source_.time_unit));
    QUARRY_RETURN_IF_ERROR(writer_->Declare(wanted));
    std::vector<std::vector<std::size_t>> missing(steps_.size());
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      QUARRY_ASSIGN_OR_RETURN(missing[s], MissingIn(s));
      for (const std::size_t f : missing[s]) expected_ += SamplesOf(f);
      report_.there += missing[s].empty() ? 1 : 0;
    }
    for (std::size_t s = 0; s < steps_.size(); ++s) QUARRY_RETURN_IF_ERROR(WriteStep(s, missing[s]));
    return Status::Ok();
  }

  /// The fields of a step that the target lacks.
  Result<std::vector<std::size_t>> MissingIn(std::size_t number) const {
    const StepSummary& step = steps_[number];
    PublishedStep published;
    if (writer_->existing()) {
      QUARRY_ASSIGN_OR_RETURN(published, writer_->Published(step.step));
    }
    std::vector<std::size_t> missing;
    for (const std::size_t f : fields_) {
      const FieldDescription& field = source_.fields[f];
      if (!IsInStep(number, f)) continue;
      if (published.has(field.name)) {
        const bool is_same = published.sources.at(field.name) == SourceOf(step, field);
        if (published.time == step.time && (is_same || field.still)) continue;
        return FailedPrecondition("field \"{}\" of step {} has other samples there; copy to another name",
                                  field.name, step.step);
      }
      if (field.still && writer_->existing()) {
        QUARRY_ASSIGN_OR_RETURN(const bool is_there, writer_->Holds(field.name));
        if (is_there) continue;
      }
      missing.push_back(f);
    }
    return missing;
  }

  /// The name of the source's own source, and a number that follows from the record of the samples: so other
  /// samples of the same step and field are told apart, wherever the source lies.
  std::string SourceOf(const StepSummary& step, const FieldDescription& field) const {
    const FieldSummary* const record = step.FindField(field.name);
    if (record == nullptr) return options_.source_name;
    const std::string facts =
        fmt::format("{} {} {} {} {} {} {} {}", record->tolerance, record->min, record->max, record->max_error,
                    record->rmse, record->stored_bytes, record->patches, record->valid);
    return fmt::format("{} ({})", record->source, ChecksumText(Checksum(std::as_bytes(std::span(facts)))));
  }

  Status WriteStep(std::size_t number, const std::vector<std::size_t>& fields) {
    if (fields.empty()) return Status::Ok();
    const StepSummary& step = steps_[number];
    for (const std::size_t f : fields) {
      const FieldDescription& field = source_.fields[f];
      query::ReadRequest read;
      read.field = field.name;
      if (!field.still) read.step = step.step;
      read.target = CutOfField(f).target;
      SubsetSource source(from_, read, CutOfField(f), SizeOf(field.type), [&](std::uint64_t samples) {
        done_ += samples;
        if (options_.progress) options_.progress(done_, expected_);
      });
      QUARRY_ASSIGN_OR_RETURN(const FieldOutcome outcome,
                              writer_->WriteField(step.step, *writer_->dataset().FindField(field.name),
                                                  SourceOf(step, field), &source));
      Count(f);
      report_.bytes += outcome.description.stored_bytes + outcome.new_mask_bytes;
    }
    QUARRY_RETURN_IF_ERROR(writer_->PublishStep(step.step, step.time));
    std::ranges::move(writer_->TakeWarnings(), std::back_inserter(report_.warnings));
    return Status::Ok();
  }

  Result<DatasetDescription> Describe(const std::optional<DatasetDescription>& existing) {
    DatasetDescription dataset = existing ? *existing : DescribeDataset({});
    if (!existing) {
      dataset.created_by = fmt::format("quarry cp {}", kVersion);
      dataset.order = source_.order;
      dataset.attributes = source_.attributes;
      dataset.time_name = source_.time_name;
      dataset.time_attributes = source_.time_attributes;
    }
    std::map<std::size_t, std::size_t> grids;  // by the number of the source's
    for (const std::size_t f : fields_) {
      const std::size_t number = source_.fields[f].grid;
      if (!grids.contains(number)) {
        QUARRY_ASSIGN_OR_RETURN(grids[number], GridIn(number, &dataset));
      }
      QUARRY_ASSIGN_OR_RETURN(FieldDescription field, DescribeCopy(source_.fields[f]));
      field.grid = grids[number];
      QUARRY_RETURN_IF_ERROR(TakeCopy(std::move(field), &dataset));
    }
    for (const TextCoordinate& text : source_.texts) {
      const auto grid = grids.find(text.grid);
      if (grid == grids.end()) continue;
      TextCoordinate left = CutText(text, cuts_.at(text.grid));
      left.grid = grid->second;
      if (!TakeText(left, &dataset))
        return FailedPrecondition("its texts \"{}\" are others; copy to another name", text.name);
    }
    return dataset;
  }

  Result<std::size_t> GridIn(std::size_t number, DatasetDescription* dataset) const {
    GridDescription grid = CutGrid(source_.grids[number], cuts_.at(number));
    const auto same = std::ranges::find_if(
        dataset->grids, [&](const GridDescription& other) { return IsSameGrid(grid, other); });
    if (same != dataset->grids.end()) return static_cast<std::size_t>(same - dataset->grids.begin());
    LayoutRequest layout;
    layout.patch = grid.patch;
    const bool continues = !dataset->fields.empty();
    Result<std::size_t> added = AddGrid(std::move(grid), layout, dataset);
    if (added.ok() || !continues) return added;
    return FailedPrecondition("its grids are others: {}; copy to another name", added.status().message());
  }

  Result<FieldDescription> DescribeCopy(const FieldDescription& source) const {
    FieldRequest field;
    field.name = source.name;
    field.type = source.type;
    field.units = source.units;
    field.fill = source.fill;
    field.given = source.given;
    field.attributes = source.attributes;
    field.still = source.still;
    field.coordinate = source.coordinate;
    field.complex = source.complex;
    SetBound(source, options_.recode, &field);
    if (!field.lossless) field.coder = CoderThatKeeps(source, field);
    std::string text = fmt::format("\"{}\"{}level {} of {}, stored {}", options_.source_name, kBehindName,
                                   options_.level, ToString(cuts_.at(source.grid).box), BoundText(source));
    const auto known = std::ranges::find(field.attributes, kSourceAttribute, &Attribute::name);
    if (known != field.attributes.end()) {
      text += "; that was " + ValueText(*known);
      field.attributes.erase(known);
    }
    field.attributes.push_back({kSourceAttribute, std::move(text)});
    return DescribeField(field,
                         {.tolerance = "--recode", .relative = "--recode", .pointwise_relative = "--recode"});
  }

  /// A field of the target came from the same samples.
  Status TakeCopy(FieldDescription field, DatasetDescription* dataset) const {
    const std::optional<std::size_t> known = dataset->FindField(field.name);
    if (known) {
      const FieldDescription& there = dataset->fields[*known];
      const std::string samples = SamplesText(there);
      if (samples != SamplesText(field))
        return FailedPrecondition("its field \"{}\" has other samples, {}; copy to another name", field.name,
                                  samples.empty() ? "not copied ones" : samples);
      if (there.grid != field.grid)
        return FailedPrecondition("its field \"{}\" lies elsewhere; copy to another name", field.name);
      if (there.bound != field.bound || there.coder != field.coder)
        return FailedPrecondition(
            "its field \"{}\" was copied with another --recode; give the same one, or copy to another name",
            field.name);
    }
    return TakeField(std::move(field), dataset);
  }

  /// Which samples of a source a field has; empty: it was not copied.
  static std::string SamplesText(const FieldDescription& field) {
    const Attribute* const said = FindAttribute(field.attributes, kSourceAttribute);
    if (said == nullptr) return "";
    const std::string text = ValueText(*said);
    const std::size_t behind = text.find(kBehindName);
    return behind == std::string::npos ? text : text.substr(behind + kBehindName.size());
  }

  const client::Dataset& from_;
  const DatasetDescription& source_;
  const std::string to_;
  const SubsetOptions& options_;
  std::vector<std::size_t> fields_;  ///< positions in the source
  std::map<std::size_t, Cut> cuts_;  ///< by grid
  std::vector<StepSummary> steps_;   ///< that are copied
  std::unique_ptr<DatasetWriter> writer_;
  std::uint64_t done_ = 0;      ///< samples
  std::uint64_t expected_ = 0;  ///< samples
  SubsetReport report_;
};

}  // namespace

Result<SubsetReport> CopySubset(const client::Dataset& from, const std::string& to,
                                const SubsetOptions& options) {
  return CopyingSubset(from, to, options).Run();
}

}  // namespace quarry::writer
