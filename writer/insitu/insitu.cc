#include "quarry/insitu.h"

#include <set>
#include <utility>

#include "quarry/base/checksum.h"
#include "writer/insitu/collective.h"
#include "writer/insitu/declaration.h"
#include "writer/insitu/memory_source.h"
#include "writer/insitu/setup.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/dataset_writer.h"
#include "writer/pipeline/declare.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::insitu {

using writer::Guarded;  // here also for whole calls: no exception reaches the host

class Dataset::Run {
 public:
  /// @param own  freed when the run ends
  Run(MPI_Comm own, const Setup& setup, const std::vector<OwnedBox>& boxes)
      : comm_(own), rank_(writer::Rank(own)), setup_(setup), boxes_(boxes), agreement_(own, setup.path) {
    setup_.pipeline.progress = false;
  }
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Status Start(const Status& found);
  /// Ends it after an error of Start.
  void GiveUp(const Status& status);
  Status BeginStep(std::int64_t step, std::optional<double> time);
  Status Put(const std::string& field, DataType type, std::span<const void* const> address);
  Status PutViews(const std::string& field, DataType type, std::span<const BoxView> views);
  Status EndStep();
  Status AbandonStep();
  Status Close();

  const writer::PhaseSeconds& seconds() const { return writer_ ? writer_->seconds() : seconds_; }

 private:
  struct Step : OpenStep {
    std::set<std::string> published;  ///< fields that were there before
    bool written = false;             ///< whether anything is staged
  };

  /// The start of every collective call: success if all ranks make it, with the same arguments, and accept
  /// it.
  Status Agree(Call call, const Status& local, const std::string& arguments = "");
  const OpenStep* open() const { return step_ ? &*step_ : nullptr; }
  /// Whether a field of the open step may be put. @errors kAlreadyExists: it is published
  Status CheckNew(const std::string& field) const;
  Status WriteViews(std::size_t field, std::vector<BoxView> views);
  void Release();

  MPI_Comm comm_;  ///< ours; MPI_COMM_NULL when closed
  int rank_;
  Setup setup_;
  std::vector<OwnedBox> boxes_;
  CallAgreement agreement_;
  distribution::Ownership owned_;
  std::unique_ptr<writer::DatasetWriter> writer_;
  writer::PhaseSeconds seconds_{};  ///< when closed
  std::optional<Step> step_;
};

Status Dataset::Run::Start(const Status& found) {
  // Wrong declarations are found before anything is touched.
  const Status local = Guarded([&]() -> Status {
    QUARRY_RETURN_IF_ERROR(found);
    return CheckSetup(setup_, boxes_);
  });
  const Bytes setup = EncodeSetup(setup_);
  QUARRY_RETURN_IF_ERROR(Agree(Call::kOpen, local, ChecksumText(Checksum(setup))));
  QUARRY_ASSIGN_OR_RETURN(owned_, ShareBoxes(comm_, setup_.declaration.dims, boxes_));
  QUARRY_ASSIGN_OR_RETURN(writer_,
                          writer::DatasetWriter::Open(comm_, setup_.path, setup_.mode, setup_.pipeline));
  QUARRY_ASSIGN_OR_RETURN(const TimeUnit unit, writer_->ChooseTimeUnit(setup_.declaration.time_unit));
  return writer::AgreeOnStatus(comm_, Guarded([&]() -> Status {
                                 QUARRY_ASSIGN_OR_RETURN(DatasetDescription dataset,
                                                         Describe(setup_.declaration, writer_->existing()));
                                 dataset.time_unit = unit;
                                 return writer_->Declare(dataset);
                               }));
}

Dataset::Run::~Run() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (comm_ == MPI_COMM_NULL || finalized != 0) return;
  const Status status = Close();
  (void)status;  // callers that need the status call Close
}

Status Dataset::Run::Agree(Call call, const Status& local, const std::string& arguments) {
  if (comm_ == MPI_COMM_NULL) return FailedPrecondition("the dataset is closed; open it again");
  return agreement_.Reach(call, local, arguments);
}

Status Dataset::Run::BeginStep(std::int64_t step, std::optional<double> time) {
  return agreement_.Keep(Guarded([&]() -> Status {
    QUARRY_RETURN_IF_ERROR(
        Agree(Call::kBeginStep, CheckBegin(step, time, open()), BeginArguments(step, time)));
    Step next;
    next.number = static_cast<std::uint64_t>(step);
    QUARRY_ASSIGN_OR_RETURN(
        next.time, writer::TimeInUnit(time, setup_.declaration.time_unit, writer_->dataset().time_unit));
    QUARRY_ASSIGN_OR_RETURN(const writer::PublishedStep published, writer_->Published(next.number));
    for (const auto& [field, source] : published.sources) next.published.insert(field);
    bool complete = true;
    for (const Field& field : setup_.declaration.fields)
      complete = complete && next.published.contains(field.name);
    if (complete && setup_.mode != OpenMode::kResume) {
      return {
          StatusCode::kAlreadyExists,
          fmt::format(
              "step {} of \"{}\" has all declared fields already; choose another step, or open the dataset "
              "to resume, which skips what is there",
              step, setup_.path)};
    }
    step_ = std::move(next);
    return Status::Ok();
  }));
}

Status Dataset::Run::CheckNew(const std::string& field) const {
  if (!step_->published.contains(field) || setup_.mode == OpenMode::kResume) return Status::Ok();
  return {StatusCode::kAlreadyExists,
          fmt::format("step {} of \"{}\" has the field \"{}\" already; choose another step", step_->number,
                      setup_.path, field)};
}

Status Dataset::Run::Put(const std::string& field, DataType type, std::span<const void* const> address) {
  return Guarded([&] { return PutViews(field, type, ViewsOf(boxes_, type, address)); });
}

Status Dataset::Run::PutViews(const std::string& field, DataType type, std::span<const BoxView> views) {
  return agreement_.Keep(Guarded([&]() -> Status {
    Status local = CheckPut(setup_.declaration, boxes_, open(), field, type, views);
    if (local.ok()) local = CheckNew(field);
    QUARRY_RETURN_IF_ERROR(Agree(Call::kPut, local, field));
    step_->put.push_back(FieldNumber(setup_.declaration, field));
    if (step_->published.contains(field)) return Status::Ok();
    return WriteViews(*writer_->dataset().FindField(field), {views.begin(), views.end()});
  }));
}

Status Dataset::Run::WriteViews(std::size_t field, std::vector<BoxView> views) {
  MemorySource source(owned_, rank_, std::move(views));
  const Result<writer::FieldOutcome> outcome = writer_->WriteField(step_->number, field, "in situ", &source);
  if (outcome.ok()) {
    step_->written = true;
    return Status::Ok();
  }
  step_.reset();
  // Not the codes of refused calls: those change nothing, and here the step is gone.
  StatusCode code = outcome.status().code();
  if (code == StatusCode::kInvalidArgument) code = StatusCode::kOutOfRange;  // samples
  if (code == StatusCode::kAlreadyExists) code = StatusCode::kUnavailable;   // made by others since Open
  return {code, outcome.status().message()};
}

Status Dataset::Run::EndStep() {
  return agreement_.Keep(Guarded([&]() -> Status {
    const Status status = Agree(Call::kEndStep, CheckEnd(open()));
    if (!agreement_.broken().ok() || !step_) return status;
    const Step step = std::move(*step_);
    step_.reset();
    if (!status.ok()) writer_->Abandon();  // else its fields would go into the next step
    if (!status.ok() || !step.written) return status;
    return writer_->PublishStep(step.number, step.time);
  }));
}

Status Dataset::Run::AbandonStep() {
  return Guarded([&]() -> Status {
    QUARRY_RETURN_IF_ERROR(Agree(Call::kAbandonStep, CheckAbandon(open())));
    step_.reset();
    writer_->Abandon();
    return Status::Ok();
  });
}

Status Dataset::Run::Close() {
  return Guarded([&]() -> Status {
    Status status = Agree(Call::kClose, CheckClose(open(), setup_.path));
    Release();
    return status;
  });
}

void Dataset::Run::Release() {
  if (comm_ == MPI_COMM_NULL) return;
  if (writer_) {
    writer_->Abandon();
    seconds_ = writer_->seconds();
  }
  writer_.reset();
  step_.reset();
  agreement_.Free(&comm_);
}

void Dataset::Run::GiveUp(const Status& status) {
  (void)agreement_.Keep(status);
  Release();
}

Dataset::Dataset() = default;
Dataset::~Dataset() = default;

Result<std::unique_ptr<Dataset>> Dataset::Open(MPI_Comm comm, const Setup& setup,
                                               const std::vector<OwnedBox>& boxes, const Status& found) {
  QUARRY_RETURN_IF_ERROR(CheckCommunicator(comm));
  QUARRY_ASSIGN_OR_RETURN(MPI_Comm own, redistribute::DuplicateQuietly(comm));
  std::unique_ptr<Dataset> dataset;
  const Status status = Guarded([&] {
    dataset.reset(new Dataset);
    dataset->run_ = std::make_unique<Run>(own, setup, boxes);
    return dataset->run_->Start(found);
  });
  if (status.ok()) return dataset;
  if (dataset && dataset->run_) {
    dataset->run_->GiveUp(status);
  } else {
    MPI_Comm_free(&own);
  }
  return status;
}

Status Dataset::BeginStep(std::int64_t step, std::optional<double> time) {
  return run_->BeginStep(step, time);
}
Status Dataset::Put(const std::string& field, DataType type, std::span<const void* const> address) {
  return run_->Put(field, type, address);
}
Status Dataset::PutViews(const std::string& field, DataType type, std::span<const BoxView> views) {
  return run_->PutViews(field, type, views);
}
Status Dataset::EndStep() { return run_->EndStep(); }
Status Dataset::AbandonStep() { return run_->AbandonStep(); }
Status Dataset::Close() { return run_->Close(); }
const writer::PhaseSeconds& Dataset::seconds() const { return run_->seconds(); }

}  // namespace quarry::insitu
