#include "writer/insitu/insitu.h"

#include <algorithm>

#include "quarry/base/checksum.h"
#include "writer/insitu/memory_source.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::insitu {
namespace {

using writer::Guarded;  // here also for whole calls: no exception reaches the host

}  // namespace

Dataset::Dataset(MPI_Comm own, const Setup& setup, const std::vector<OwnedBox>& boxes)
    : comm_(own), rank_(writer::Rank(own)), setup_(setup), boxes_(boxes), agreement_(own, setup.path) {
  setup_.pipeline.progress = false;
}

Result<std::unique_ptr<Dataset>> Dataset::Open(MPI_Comm comm, const Setup& setup,
                                               const std::vector<OwnedBox>& boxes, const Status& found) {
  QUARRY_RETURN_IF_ERROR(CheckCommunicator(comm));
  QUARRY_ASSIGN_OR_RETURN(MPI_Comm own, redistribute::DuplicateQuietly(comm));
  std::unique_ptr<Dataset> dataset;
  const Status status = Guarded([&] {
    dataset.reset(new Dataset(own, setup, boxes));
    return dataset->Start(found);
  });
  if (status.ok()) return dataset;
  if (dataset) {
    (void)dataset->agreement_.Keep(status);
    dataset->Release();
  } else {
    MPI_Comm_free(&own);
  }
  return status;
}

Status Dataset::Start(const Status& found) {
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

Dataset::~Dataset() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (comm_ == MPI_COMM_NULL || finalized != 0) return;
  const Status status = Close();
  (void)status;  // callers that need the status call Close
}

Status Dataset::Agree(Call call, const Status& local, const std::string& arguments) {
  if (comm_ == MPI_COMM_NULL) return FailedPrecondition("the dataset is closed; open it again");
  return agreement_.Reach(call, local, arguments);
}

Status Dataset::BeginStep(std::int64_t step, std::optional<double> time) {
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

Status Dataset::CheckNew(const std::string& field) const {
  if (!step_->published.contains(field) || setup_.mode == OpenMode::kResume) return Status::Ok();
  return {StatusCode::kAlreadyExists,
          fmt::format("step {} of \"{}\" has the field \"{}\" already; choose another step", step_->number,
                      setup_.path, field)};
}

Status Dataset::Put(const std::string& field, DataType type, std::span<const void* const> address) {
  return Guarded([&] { return PutViews(field, type, ViewsOf(boxes_, type, address)); });
}

Status Dataset::PutViews(const std::string& field, DataType type, std::span<const BoxView> views) {
  return agreement_.Keep(Guarded([&]() -> Status {
    Status local = CheckPut(setup_.declaration, boxes_, open(), field, type, views);
    if (local.ok()) local = CheckNew(field);
    QUARRY_RETURN_IF_ERROR(Agree(Call::kPut, local, field));
    step_->put.push_back(FieldNumber(setup_.declaration, field));
    if (step_->published.contains(field)) return Status::Ok();
    return WriteViews(*writer_->dataset().FindField(field), {views.begin(), views.end()});
  }));
}

Status Dataset::WriteViews(std::size_t field, std::vector<BoxView> views) {
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

Status Dataset::EndStep() {
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

Status Dataset::AbandonStep() {
  return Guarded([&]() -> Status {
    QUARRY_RETURN_IF_ERROR(Agree(Call::kAbandonStep, CheckAbandon(open())));
    step_.reset();
    writer_->Abandon();
    return Status::Ok();
  });
}

Status Dataset::Close() {
  return Guarded([&]() -> Status {
    Status status = Agree(Call::kClose, CheckClose(open(), setup_.path));
    Release();
    return status;
  });
}

void Dataset::Release() {
  if (comm_ == MPI_COMM_NULL) return;
  if (writer_) {
    writer_->Abandon();
    seconds_ = writer_->seconds();
  }
  writer_.reset();
  step_.reset();
  agreement_.Free(&comm_);
}

}  // namespace quarry::insitu
