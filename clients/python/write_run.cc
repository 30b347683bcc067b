#include "clients/python/write_run.h"

#include <mpi.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "clients/python/background.h"
#include "clients/python/translate.h"
#include "quarry/calendar.h"
#include "quarry/format/attribute_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/version.h"
#include "writer/pipeline/publish.h"
#include "writer/pipeline/replace.h"

namespace nb = nanobind;

namespace quarry::python {
namespace {

using writer::BoxView;
using writer::DatasetWriter;

/// Ends the writing from the side of Python.
struct Interruption {
  CancelToken cancel = CancelToken::Create();
  std::exception_ptr raised;  ///< by `load`
};

/// One field of one step, box by box from a callable. Its calls come from a thread that does not hold
/// Python's lock.
class ArraySource final : public writer::FieldSource {
 public:
  ArraySource(const Loader& load, std::size_t step, std::size_t field, DataType type,
              Interruption* interruption)
      : load_(load), step_(step), field_(field), type_(type), interruption_(*interruption) {}
  ~ArraySource() override { Drop(); }

  std::unique_ptr<distribution::RankBoxes> Owned(const Box& region) const override {
    return std::make_unique<distribution::ListedBoxes>(distribution::Ownership{{region}});
  }

  Result<std::vector<BoxView>> Load(const std::vector<Box>& boxes) override {
    Drop();
    std::vector<BoxView> views;
    for (const Box& box : boxes) {
      if (interruption_.cancel.cancelled())
        return Status(StatusCode::kCancelled, "the writing was interrupted");
      QUARRY_ASSIGN_OR_RETURN(const BoxView view, LoadBox(box));
      views.push_back(view);
    }
    return views;
  }
  void Release() override { Drop(); }

 private:
  using Array = nb::ndarray<nb::ro, nb::ndim<3>, nb::device::cpu>;

  Result<BoxView> LoadBox(const Box& box) {
    const nb::gil_scoped_acquire lock;
    try {
      arrays_.push_back(nb::cast<Array>(load_(step_, field_, ToZyx(box))));
    } catch (...) {
      interruption_.raised = std::current_exception();
      return Status(StatusCode::kCancelled, "an exception was raised");
    }
    const Array& array = arrays_.back();
    const auto size = static_cast<std::int64_t>(SizeOf(type_));
    const Index3 shape = box.shape();
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (static_cast<std::int64_t>(array.shape(2 - axis)) == shape[axis]) continue;
      return InvalidArgument("the callback returned an array of {1} x {2} x {3} (z, y, x) for the box {0}",
                             ToString(box), array.shape(0), array.shape(1), array.shape(2));
    }
    if (static_cast<std::int64_t>(array.itemsize()) != size)
      return InvalidArgument("{} was declared, and an array with {} bytes a sample came", Name(type_),
                             array.itemsize());
    return BoxView{static_cast<const std::byte*>(array.data()),
                   {array.stride(2) * size, array.stride(1) * size, array.stride(0) * size}};
  }

  void Drop() {
    if (arrays_.empty()) return;
    const nb::gil_scoped_acquire lock;
    arrays_.clear();
  }

  const Loader& load_;
  const std::size_t step_;
  const std::size_t field_;
  const DataType type_;
  Interruption& interruption_;
  std::vector<Array> arrays_;  ///< behind the views
};

/// The description of a dataset after this writing.
/// @param grids  of the fields
/// @param other_texts  gets the names of coordinates of text that the dataset has otherwise, and keeps so
Result<DatasetDescription> Describe(const std::vector<Grid>& grids, std::vector<writer::FieldRequest> fields,
                                    const WriteSettings& settings, const TimeAxis& time,
                                    const std::optional<DatasetDescription>& existing,
                                    std::vector<std::string>* other_texts) {
  DatasetDescription dataset = existing ? *existing : writer::DescribeDataset({});
  if (!existing) {
    dataset.created_by = fmt::format("quarry-python {}", kVersion);
    dataset.order = settings.order.value_or(dataset.order);
    dataset.attributes = settings.attributes;
    dataset.time_name = time.name;
    dataset.time_attributes = time.attributes;
  }
  std::vector<std::size_t> numbers;  // numbers of the fields' grids
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const writer::LayoutRequest layout{{}, {}, grids[f].patch, grids[f].levels, settings.order};
    QUARRY_ASSIGN_OR_RETURN(
        const std::size_t grid,
        writer::ChooseGrid(grids[f].source, layout, fields[f].name,
                           "write another dataset, or leave the positions out to continue this one", &dataset)
            .Annotate(fmt::format("field \"{}\"", fields[f].name)));
    const std::optional<std::size_t> known = dataset.FindField(fields[f].name);
    if (known) fields[f] = writer::ContinueField(std::move(fields[f]), dataset.fields[*known]);
    QUARRY_ASSIGN_OR_RETURN(FieldDescription wanted, writer::DescribeField(fields[f]));
    wanted.grid = grid;
    numbers.push_back(grid);
    QUARRY_RETURN_IF_ERROR(writer::TakeField(std::move(wanted), &dataset));
  }
  for (Text text : settings.texts) {
    if (text.field) text.said.grid = numbers.at(*text.field);
    if (!writer::TakeText(text.said, &dataset)) other_texts->push_back(text.said.name);
  }
  return dataset;
}

/// Which fields are to stand still and are in the dataset already. Where nothing changes that is appended,
/// and it is there, the caller goes on with the next step.
/// @errors kInvalidArgument: one changes in the dataset
Result<std::vector<bool>> FindWritten(writer::OpenMode mode,
                                      const std::optional<DatasetDescription>& existing,
                                      std::vector<Request>* requests) {
  const auto changes = [](const Request& request) { return !request.field.still; };
  const bool goes_on = mode == writer::OpenMode::kAppend && std::ranges::none_of(*requests, changes);
  std::vector<bool> written;
  for (Request& request : *requests) {
    writer::FieldRequest& field = request.field;
    const auto known = existing ? existing->FindField(field.name) : std::nullopt;
    if (known && goes_on && request.moves) field.still = false;
    if (known && field.still && !existing->fields[*known].still)
      return InvalidArgument(
          "field \"{}\" has no steps here, and changes with time in the dataset; write it by itself, which "
          "adds a step, or leave it out",
          field.name);
    written.push_back(known && field.still);
  }
  return written;
}

/// One call of `quarry.write`, on a thread without Python's lock.
class Run {
 public:
  Run(std::vector<Request> requests, std::vector<Step> steps, const Loader& load, Interruption* interruption)
      : requests_(std::move(requests)), steps_(std::move(steps)), load_(load), interruption_(*interruption) {}

  Result<WriteOutcome> Execute(const std::string& path, const WriteSettings& settings,
                               const std::vector<Grid>& grids, const TimeAxis& time) {
    writer::PipelineOptions options;
    options.memory_per_rank = settings.memory;
    options.files = settings.files;
    options.break_lock = settings.break_lock;
    options.accept_range = settings.accept_range;
    options.range_words = {"fill=", "tolerance=", "accept_range=True"};
    goes_on_ = settings.goes_on && settings.mode == writer::OpenMode::kAppend;
    mode_ = settings.mode;
    QUARRY_ASSIGN_OR_RETURN(writer_, DatasetWriter::Open(MPI_COMM_WORLD, path, settings.mode, options));
    Status status = Write(path, grids, settings, time);
    if (!status.ok()) writer_->Abandon();
    if (!status.ok()) return status;
    return std::move(outcome_);
  }

 private:
  Status Write(const std::string& path, const std::vector<Grid>& grids, const WriteSettings& settings,
               const TimeAxis& axis) {
    const TimeUnit& unit = axis.unit;
    QUARRY_ASSIGN_OR_RETURN(there_, FindWritten(mode_, writer_->existing(), &requests_));
    for (std::size_t f = 0; f < requests_.size(); ++f) {
      fields_.push_back(requests_[f].field);
      if (there_[f] && mode_ == writer::OpenMode::kAppend) outcome_.there.push_back(fields_[f].name);
    }
    QUARRY_ASSIGN_OR_RETURN(DatasetDescription dataset, Describe(grids, fields_, settings, axis,
                                                                 writer_->existing(), &outcome_.other_texts));
    QUARRY_ASSIGN_OR_RETURN(dataset.time_unit, writer_->ChooseTimeUnit(unit));
    for (auto& [step, time] : steps_) {
      QUARRY_RETURN_IF_ERROR(CheckTime(time).Annotate(fmt::format("step {}", step)));
      QUARRY_ASSIGN_OR_RETURN(time, writer::TimeInUnit(time, unit, dataset.time_unit));
    }
    QUARRY_RETURN_IF_ERROR(writer_->Declare(dataset));
    ListOthers(settings);
    if (goes_on_) QUARRY_RETURN_IF_ERROR(GoOn());
    std::vector<writer::PublishedStep> published(steps_.size());
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      if (!writer_->existing()) break;
      QUARRY_ASSIGN_OR_RETURN(published[s], writer_->Published(steps_[s].first));
      QUARRY_RETURN_IF_ERROR(CheckNew(path, s, published[s]));
    }
    for (std::size_t s = 0; s < steps_.size(); ++s) QUARRY_RETURN_IF_ERROR(WriteStep(s, published[s]));
    return Status::Ok();
  }

  void ListOthers(const WriteSettings& settings) {
    const DatasetDescription& dataset = writer_->dataset();
    const auto add = [&](const std::string& owner, const Attributes& said, const Attributes& kept) {
      std::vector<std::string> names = OtherAttributes(said, kept);
      if (!names.empty()) outcome_.others.emplace_back(owner, std::move(names));
    };
    add("", settings.attributes, dataset.attributes);
    for (const Text& text : settings.texts) {
      const auto kept = std::ranges::find(dataset.texts, text.said.name, &TextCoordinate::name);
      if (kept != dataset.texts.end()) add(text.said.name, text.said.attributes, kept->attributes);
    }
    for (const writer::FieldRequest& field : fields_)
      add(field.name, field.attributes, dataset.fields[*dataset.FindField(field.name)].attributes);
  }

  /// The steps come after the last one that has any of the fields.
  Status GoOn() {
    std::uint64_t first = 0;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (there_[f]) continue;
      QUARRY_ASSIGN_OR_RETURN(const std::optional<std::uint64_t> last, writer_->LastStep(fields_[f].name));
      if (last) first = std::max(first, *last + 1);
    }
    for (auto& [step, time] : steps_) step += first;
    return Status::Ok();
  }

  /// Before anything is written.
  Status CheckNew(const std::string& path, std::size_t number, const writer::PublishedStep& published) const {
    const Step& step = steps_[number];
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const writer::FieldRequest& field = fields_[f];
      if (!IsWritten(number, f) || !published.has(field.name)) continue;
      if (mode_ == writer::OpenMode::kResume) {
        QUARRY_RETURN_IF_ERROR(
            CheckSameInput(path, step.first, published, field.name, kSourceName, step.second));
        continue;
      }
      return AlreadyExists(
          "step {} of \"{}\" has the field \"{}\" already; leave the step out to go on after the "
          "last one, or choose another field",
          step.first, path, field.name);
    }
    return Status::Ok();
  }

  /// Whether a step gets a field: the first one gets those that stand still.
  bool IsWritten(std::size_t number, std::size_t field) const {
    return !there_[field] && (number == 0 || !fields_[field].still);
  }

  Status WriteStep(std::size_t number, const writer::PublishedStep& published) {
    const auto& [step, time] = steps_[number];
    std::vector<Written> written;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (!IsWritten(number, f) || published.has(fields_[f].name)) continue;
      ArraySource source(load_, number, f, fields_[f].type, &interruption_);
      QUARRY_ASSIGN_OR_RETURN(
          writer::FieldOutcome outcome,
          writer_->WriteField(step, *writer_->dataset().FindField(fields_[f].name), kSourceName, &source));
      outcome.description.stored_bytes += outcome.new_mask_bytes;
      written.emplace_back(step, SummaryOf(outcome.description));
    }
    if (written.empty()) return Status::Ok();
    QUARRY_RETURN_IF_ERROR(writer_->PublishStep(step, time));
    for (std::string& warning : writer_->TakeWarnings()) outcome_.warnings.push_back(std::move(warning));
    outcome_.written.insert(outcome_.written.end(), written.begin(), written.end());
    return Status::Ok();
  }

  std::vector<Request> requests_;
  std::vector<writer::FieldRequest> fields_;  ///< requests as they are written
  std::vector<Step> steps_;
  std::vector<bool> there_;  ///< for each field, whether it is still and in the dataset already
  const Loader& load_;
  Interruption& interruption_;
  static constexpr const char* kSourceName = "array";
  writer::OpenMode mode_ = writer::OpenMode::kCreate;
  bool goes_on_ = false;
  std::unique_ptr<DatasetWriter> writer_;
  WriteOutcome outcome_;
};

}  // namespace

WriteOutcome Write(const std::string& path, const WriteSettings& settings, const std::vector<Grid>& grids,
                   const std::vector<Request>& requests, const std::vector<Step>& steps, const TimeAxis& time,
                   const Loader& load) {
  Interruption interruption;
  auto outcome = RunInBackground(interruption.cancel, false, [&]() -> Result<WriteOutcome> {
    return Run(requests, steps, load, &interruption).Execute(path, settings, grids, time);
  });
  if (interruption.raised) std::rethrow_exception(interruption.raised);
  return Take(std::move(outcome));
}

}  // namespace quarry::python
