#include "quarry/insitu.h"

#include <set>
#include <utility>

#include "quarry/base/checksum.h"
#include "writer/insitu/collective_dataset.h"
#include "writer/insitu/declaration.h"
#include "writer/insitu/memory_source.h"
#include "writer/insitu/setup.h"
#include "writer/pipeline/dataset_writer.h"
#include "writer/pipeline/declare.h"

namespace quarry::insitu {

namespace {

struct Step : OpenStep {
  std::set<std::string> published;  ///< fields that were there before
  bool written = false;             ///< whether anything is staged
};

class Run final : public CollectiveDataset<Dataset, Step> {
 public:
  using CollectiveDataset::CollectiveDataset;
  ~Run() override { CloseIfOpen(); }

  Status Start(const Status& found);
  Status BeginStep(std::int64_t step, std::optional<double> time) override;
  Status PutViews(const std::string& field, DataType type, std::span<const BoxView> views) override;
  Status Close() override;
  std::vector<std::string> TakeWarnings() override;
  const writer::PhaseSeconds& seconds() const override { return writer_ ? writer_->seconds() : seconds_; }

 private:
  Status Finish(const Step& step) override;
  void Drop() override { writer_->Abandon(); }
  void Release() override;
  /// Whether a field of the open step may be put. @errors kAlreadyExists: it is published
  Status CheckNew(const std::string& field) const;
  Status WriteViews(std::size_t field, std::vector<BoxView> views);

  std::optional<distribution::ListedBoxes> owned_;
  std::unique_ptr<writer::DatasetWriter> writer_;
  writer::PhaseSeconds seconds_{};     ///< when closed
  std::vector<std::string> warnings_;  ///< when closed
};

Status Run::Start(const Status& found) {
  // Wrong declarations are found before anything is touched.
  const Status local = Guarded([&]() -> Status {
    QUARRY_RETURN_IF_ERROR(found);
    return CheckSetup(setup_, boxes_);
  });
  const Bytes setup = EncodeSetup(setup_);
  QUARRY_RETURN_IF_ERROR(Agree(Call::kOpen, local, ChecksumText(Checksum(setup))));
  QUARRY_ASSIGN_OR_RETURN(const distribution::Ownership owned,
                          ShareBoxes(comm_, setup_.declaration.dims, boxes_));
  QUARRY_RETURN_IF_ERROR(writer::OnEveryRank(comm_, [&] {
    owned_.emplace(owned);
    return Status::Ok();
  }));
  QUARRY_ASSIGN_OR_RETURN(writer_,
                          writer::DatasetWriter::Open(comm_, setup_.path, setup_.mode, setup_.pipeline));
  QUARRY_ASSIGN_OR_RETURN(const TimeUnit unit, writer_->ChooseTimeUnit(setup_.declaration.time_unit));
  return writer::OnEveryRank(comm_, [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(DatasetDescription dataset, Describe(setup_.declaration, writer_->existing()));
    dataset.time_unit = unit;
    return writer_->Declare(dataset);
  });
}

Status Run::BeginStep(std::int64_t step, std::optional<double> time) {
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
      return AlreadyExists(
          "step {} of \"{}\" has all declared fields already; choose another step, or open the dataset "
          "to resume, which skips what is there",
          step, setup_.path);
    }
    step_ = std::move(next);
    return Status::Ok();
  }));
}

Status Run::CheckNew(const std::string& field) const {
  if (!step_->published.contains(field) || setup_.mode == OpenMode::kResume) return Status::Ok();
  return AlreadyExists("step {} of \"{}\" has the field \"{}\" already; choose another step", step_->number,
                       setup_.path, field);
}

Status Run::PutViews(const std::string& field, DataType type, std::span<const BoxView> views) {
  return agreement_.Keep(Guarded([&]() -> Status {
    Status local = CheckPut(setup_.declaration, boxes_, open(), field, type, views);
    if (local.ok()) local = CheckNew(field);
    QUARRY_RETURN_IF_ERROR(Agree(Call::kPut, local, field));
    step_->put.push_back(FieldNumber(setup_.declaration, field));
    if (step_->published.contains(field)) return Status::Ok();
    return WriteViews(*writer_->dataset().FindField(field), {views.begin(), views.end()});
  }));
}

Status Run::WriteViews(std::size_t field, std::vector<BoxView> views) {
  std::vector<Box> mine;
  for (const OwnedBox& owned : boxes_) mine.push_back(owned.box);
  MemorySource source(*owned_, std::move(mine), std::move(views));
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

Status Run::Finish(const Step& step) {
  return step.written ? writer_->PublishStep(step.number, step.time) : Status::Ok();
}

Status Run::Close() {
  return Guarded([&]() -> Status {
    Status status = Agree(Call::kClose, CheckClose(open(), setup_.path));
    Release();
    return status;
  });
}

std::vector<std::string> Run::TakeWarnings() {
  return writer_ ? writer_->TakeWarnings() : std::exchange(warnings_, {});
}

void Run::Release() {
  if (comm_ == MPI_COMM_NULL) return;
  if (writer_) {
    writer_->Abandon();
    seconds_ = writer_->seconds();
    warnings_ = writer_->TakeWarnings();
  }
  writer_.reset();
  step_.reset();
  agreement_.Free(&comm_);
}

}  // namespace

Result<std::unique_ptr<Dataset>> Dataset::Open(MPI_Comm comm, const Setup& setup,
                                               const std::vector<OwnedBox>& boxes, const Status& found) {
  QUARRY_RETURN_IF_ERROR(CheckCommunicator(comm));
  return OpenCollectively<Dataset, Run>(
      comm, [&](MPI_Comm own) { return std::make_unique<Run>(own, setup, boxes); },
      [&](Run* run) { return run->Start(found); });
}

}  // namespace quarry::insitu
