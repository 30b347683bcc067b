#include "writer/insitu/insitu.h"

#include <algorithm>

#include "quarry/base/checksum.h"
#include "writer/insitu/memory_source.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/mapping.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::insitu {
namespace {

Status FailedPrecondition(std::string message) {
  return {StatusCode::kFailedPrecondition, std::move(message)};
}

Status CheckCommunicator(MPI_Comm comm) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0)
    return FailedPrecondition("MPI is not running; open datasets between MPI_Init and MPI_Finalize");
  if (comm == MPI_COMM_NULL)
    return InvalidArgument("the communicator is MPI_COMM_NULL; give that of the ranks that own data");
  int inter = 0;
  MPI_Comm_test_inter(comm, &inter);
  if (inter != 0)
    return InvalidArgument("the communicator is an inter-communicator; give an intra-communicator");
  return Status::Ok();
}

using writer::Guarded;  // here also for whole calls: no exception reaches the host

std::vector<std::uint64_t> ToNumbers(const std::vector<Box>& boxes, int rank) {
  std::vector<std::uint64_t> numbers;
  for (const Box& box : boxes) {
    numbers.push_back(static_cast<std::uint64_t>(rank));
    for (const Index3& corner : {box.begin, box.end}) {
      for (const std::int64_t c : corner) numbers.push_back(static_cast<std::uint64_t>(c));
    }
  }
  return numbers;
}

distribution::Ownership ToOwnership(const std::vector<std::uint64_t>& numbers, int ranks) {
  constexpr std::size_t kPerBox = 7;
  distribution::Ownership owned(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < numbers.size(); i += kPerBox) {
    const auto at = [&](std::size_t n) { return static_cast<std::int64_t>(numbers[i + n]); };
    owned[numbers[i]].push_back({{at(1), at(2), at(3)}, {at(4), at(5), at(6)}});
  }
  return owned;
}

}  // namespace

Dataset::Dataset(MPI_Comm own, const Setup& setup, const std::vector<OwnedBox>& boxes)
    : comm_(own), rank_(writer::Rank(own)), setup_(setup), boxes_(boxes) {
  setup_.pipeline.progress = false;
}

Result<std::unique_ptr<Dataset>> Dataset::Open(MPI_Comm comm, const Setup& setup,
                                               const std::vector<OwnedBox>& boxes, const Status& found) {
  QUARRY_RETURN_IF_ERROR(CheckCommunicator(comm));
  MPI_Comm own = MPI_COMM_NULL;
  if (MPI_Comm_dup(comm, &own) != MPI_SUCCESS)
    return InternalError(
        "MPI cannot duplicate the communicator; free communicators that are not used any more");
  // Errors of MPI must not end the host, whatever it has chosen for its own communicator.
  MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
  std::unique_ptr<Dataset> dataset;
  const Status status = Guarded([&] {
    dataset.reset(new Dataset(own, setup, boxes));
    return dataset->Start(found);
  });
  if (status.ok()) return dataset;
  if (dataset) {
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
    if (setup_.path.empty())
      return InvalidArgument("there is no path; give that of the dataset, NAME.quarry");
    if (setup_.pipeline.files && *setup_.pipeline.files < 1)
      return InvalidArgument("{} subfiles make no sense; give at least 1", *setup_.pipeline.files);
    QUARRY_RETURN_IF_ERROR(quarry::internal::ToStatus(Describe(setup_.declaration, std::nullopt)));
    return CheckStorage(boxes_);
  });
  const Bytes setup = EncodeSetup(setup_);
  QUARRY_RETURN_IF_ERROR(Agree(Call::kOpen, local, ChecksumText(Checksum(setup))));
  QUARRY_RETURN_IF_ERROR(ShareBoxes());
  QUARRY_ASSIGN_OR_RETURN(writer_,
                          writer::DatasetWriter::Open(comm_, setup_.path, setup_.mode, setup_.pipeline));
  return writer::AgreeOnStatus(comm_, Guarded([&]() -> Status {
                                 QUARRY_ASSIGN_OR_RETURN(const DatasetDescription dataset,
                                                         Describe(setup_.declaration, writer_->existing()));
                                 return writer_->Declare(dataset);
                               }));
}

Status Dataset::ShareBoxes() {
  std::vector<Box> mine;
  for (const OwnedBox& box : boxes_) mine.push_back(box.box);
  const int ranks = writer::Size(comm_);
  owned_ = ToOwnership(writer::GatherEverywhere(comm_, ToNumbers(mine, rank_)), ranks);
  const redistribute::Layout layout{setup_.declaration.dims, owned_,
                                    distribution::Ownership(static_cast<std::size_t>(ranks))};
  // These messages name the ranks themselves.
  QUARRY_RETURN_IF_ERROR(redistribute::AgreeOnStatus(
      comm_, Guarded([&] { return redistribute::CheckBoxesOfRank(layout, rank_); })));
  return redistribute::AgreeOnStatus(comm_, Guarded([&] { return redistribute::CheckComplete(layout); }));
}

Dataset::~Dataset() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (comm_ == MPI_COMM_NULL || finalized != 0) return;
  const Status status = Close();
  (void)status;  // who wants to know calls Close
}

Status Dataset::Agree(Call call, const Status& local, const std::string& arguments) {
  if (comm_ == MPI_COMM_NULL) return FailedPrecondition("the dataset is closed; open it again");
  QUARRY_RETURN_IF_ERROR(broken_);
  const auto number = static_cast<std::uint64_t>(call);
  const std::uint64_t digest = Checksum(std::as_bytes(std::span(arguments)));
  // The least of a number and the least of its complement belong together only where all ranks have the same
  // one.
  const std::uint64_t mine[4] = {number, ~number, digest, ~digest};
  std::uint64_t least[4] = {};
  QUARRY_MPI(MPI_Allreduce, mine, least, 4, MPI_UINT64_T, MPI_MIN, comm_);
  if (least[0] != ~least[1]) {
    broken_ = FailedPrecondition(fmt::format(
        "the ranks make different calls on \"{}\", and wait for each other no more; begin, put, end and "
        "close on all ranks in the same order",
        setup_.path));
    return broken_;
  }
  QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(comm_, local));
  if (least[2] == ~least[3]) return Status::Ok();
  // In the words of rank 0: the path may be what differs.
  return redistribute::AgreeOnStatus(
      comm_,
      InvalidArgument("the ranks make the same call on \"{}\" with different arguments; declarations, steps, "
                      "times and fields are the same on every rank, only boxes and addresses differ",
                      setup_.path));
}

Status Dataset::BeginStep(std::int64_t step, std::optional<double> time) {
  return Guarded([&]() -> Status {
    Status local;
    if (step < 0) local = InvalidArgument("step {} makes no sense; steps are numbered from 0", step);
    if (step_) {
      local = FailedPrecondition(
          fmt::format("step {} is open; end it before step {} begins", step_->number, step));
    }
    const std::string arguments = fmt::format("{} {}", step, time ? fmt::format("{}", *time) : "-");
    QUARRY_RETURN_IF_ERROR(Agree(Call::kBeginStep, local, arguments));
    Step next{static_cast<std::uint64_t>(step), time, {}, {}, false};
    QUARRY_ASSIGN_OR_RETURN(next.published, writer_->PublishedFields(next.number));
    bool complete = true;
    for (const Field& field : setup_.declaration.fields)
      complete = complete && next.published.contains(field.name);
    if (complete && setup_.mode != OpenMode::kResume) {
      return {
          StatusCode::kAlreadyExists,
          fmt::format(
              "step {} of \"{}\" has all declared fields already; choose another step, or open the dataset "
              "to resume, which leaves out what is there",
              step, setup_.path)};
    }
    step_ = std::move(next);
    return Status::Ok();
  });
}

Status Dataset::CheckPut(const std::string& field, DataType type, std::span<const BoxView> views) const {
  if (!step_) return FailedPrecondition(fmt::format("field \"{}\" has no step to go to; begin one", field));
  const std::vector<Field>& fields = setup_.declaration.fields;
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == field; });
  if (found == fields.end())
    return InvalidArgument("there is no field \"{}\" in the declaration; declare it when opening the dataset",
                           field);
  if (found->type != type) {
    return InvalidArgument("field \"{}\" is declared {}, not {}; give samples of the declared type", field,
                           Name(found->type), Name(type));
  }
  if (step_->put.contains(field))
    return InvalidArgument("field \"{}\" of step {} was put before; put each field once", field,
                           step_->number);
  if (views.size() != boxes_.size()) {
    return InvalidArgument("field \"{}\" comes with {} arrays for {} owned boxes; give one for each box",
                           field, views.size(), boxes_.size());
  }
  for (std::size_t b = 0; b < views.size(); ++b) {
    if (views[b].data != nullptr || boxes_[b].box.empty()) continue;
    return InvalidArgument("field \"{}\" has no array for owned box {} {}; give its address", field, b,
                           ToString(boxes_[b].box));
  }
  if (step_->published.contains(field) && setup_.mode != OpenMode::kResume) {
    return {StatusCode::kAlreadyExists,
            fmt::format("step {} of \"{}\" has the field \"{}\" already; choose another step", step_->number,
                        setup_.path, field)};
  }
  return Status::Ok();
}

Status Dataset::Put(const std::string& field, DataType type, std::span<const void* const> address) {
  return Guarded([&]() -> Status {
    std::vector<BoxView> views(address.size());
    for (std::size_t b = 0; b < std::min(address.size(), boxes_.size()); ++b) {
      if (address[b] != nullptr) views[b] = boxes_[b].At(address[b], SizeOf(type));
    }
    return PutViews(field, type, views);
  });
}

Status Dataset::PutViews(const std::string& field, DataType type, std::span<const BoxView> views) {
  return Guarded([&]() -> Status {
    const Status local = CheckPut(field, type, views);
    QUARRY_RETURN_IF_ERROR(Agree(Call::kPut, local, field));
    step_->put.insert(field);
    if (step_->published.contains(field)) return Status::Ok();
    return WriteViews(*writer_->dataset().FindField(field), {views.begin(), views.end()});
  });
}

Status Dataset::WriteViews(std::size_t field, std::vector<BoxView> views) {
  MemorySource source(owned_, rank_, std::move(views));
  const Result<writer::FieldOutcome> outcome = writer_->WriteField(step_->number, field, "in situ", &source);
  if (outcome.ok()) {
    step_->written = true;
    return Status::Ok();
  }
  step_.reset();
  // Not an argument: what kInvalidArgument stands for changes nothing, and here the step is gone.
  const bool samples = outcome.status().code() == StatusCode::kInvalidArgument;
  return {samples ? StatusCode::kOutOfRange : outcome.status().code(), outcome.status().message()};
}

Status Dataset::EndStep() {
  return Guarded([&]() -> Status {
    Status local;
    if (!step_) {
      local = FailedPrecondition("no step is open; begin one before ending it");
    } else if (step_->put.empty()) {
      local = FailedPrecondition(fmt::format(
          "step {} has no field and is left out; put at least one before ending it", step_->number));
    }
    const Status status = Agree(Call::kEndStep, local);
    if (!broken_.ok() || !step_) return status;
    const Step step = std::move(*step_);
    step_.reset();
    if (!status.ok() || !step.written) return status;
    return writer_->PublishStep(step.number, step.time);
  });
}

Status Dataset::AbandonStep() {
  return Guarded([&]() -> Status {
    Status local;
    if (!step_) local = FailedPrecondition("no step is open; begin one before abandoning it");
    QUARRY_RETURN_IF_ERROR(Agree(Call::kAbandonStep, local));
    step_.reset();
    writer_->Abandon();
    return Status::Ok();
  });
}

Status Dataset::Close() {
  return Guarded([&]() -> Status {
    Status local;
    if (step_) {
      local = FailedPrecondition(
          fmt::format("step {} was begun and not ended; it is not in \"{}\"", step_->number, setup_.path));
    }
    Status status = Agree(Call::kClose, local);
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
  MPI_Comm_free(&comm_);
}

}  // namespace quarry::insitu
