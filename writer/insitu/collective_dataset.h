#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "quarry/insitu.h"
#include "writer/insitu/collective.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::insitu {

using writer::Guarded;  // here also for whole calls: no exception reaches the host

/// The calls of a dataset as far as both kinds make them alike.
/// @tparam Kind  insitu::Dataset or intransit::Dataset
/// @tparam Step  the open step, an OpenStep
template <typename Kind, typename Step>
class CollectiveDataset : public Kind {
 public:
  /// @param own  freed when the dataset is closed
  CollectiveDataset(MPI_Comm own, const Setup& setup, const std::vector<OwnedBox>& boxes)
      : comm_(own), rank_(writer::Rank(own)), setup_(setup), boxes_(boxes), agreement_(own, setup.path) {
    setup_.pipeline.progress = false;
  }

  Status Put(const std::string& field, DataType type, std::span<const void* const> address) final {
    return Guarded([&] { return this->PutViews(field, type, ViewsOf(boxes_, type, address)); });
  }

  Status EndStep() final {
    return agreement_.Keep(Guarded([&]() -> Status {
      const Status status = Agree(Call::kEndStep, CheckEnd(open()));
      if (!agreement_.broken().ok() || !step_) return status;
      const Step step = std::move(*step_);
      step_.reset();
      if (!status.ok()) Drop();  // else its fields would go into the next step
      QUARRY_RETURN_IF_ERROR(status);
      return Finish(step);
    }));
  }

  Status AbandonStep() final {
    return Guarded([&]() -> Status {
      QUARRY_RETURN_IF_ERROR(Agree(Call::kAbandonStep, CheckAbandon(open())));
      step_.reset();
      Drop();
      return Status::Ok();
    });
  }

  /// Ends it after an error of its start.
  void GiveUp(const Status& status) {
    (void)agreement_.Keep(status);
    Release();
  }

 protected:
  /// For the destructor of each kind.
  void CloseIfOpen() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (comm_ == MPI_COMM_NULL || finalized != 0) return;
    const Status status = this->Close();
    (void)status;  // callers that need the status call Close
  }

  /// The start of every collective call: success if all ranks make it, with the same arguments, and accept
  /// it.
  Status Agree(Call call, const Status& local, const std::string& arguments = "") {
    if (comm_ == MPI_COMM_NULL) return FailedPrecondition("the dataset is closed; open it again");
    QUARRY_RETURN_IF_ERROR(broken_);
    return agreement_.Reach(call, local, arguments);
  }
  const OpenStep* open() const { return step_ ? &*step_ : nullptr; }

  /// Publishes a step, or hands it over.
  virtual Status Finish(const Step& step) = 0;
  /// Removes what is staged of a step that has ended without being finished.
  virtual void Drop() {}
  /// Frees everything, and the communicator; once more: nothing.
  virtual void Release() = 0;

  MPI_Comm comm_;  ///< ours; MPI_COMM_NULL when closed
  int rank_;
  Setup setup_;
  std::vector<OwnedBox> boxes_;
  CallAgreement agreement_;
  std::optional<Step> step_;
  Status broken_;  ///< samples or answers have not arrived: no more steps
};

/// Makes a dataset on a communicator of its own, and starts it.
/// @param make   from the communicator
/// @param start  its first calls
template <typename Kind, typename Run, typename Make, typename Start>
Result<std::unique_ptr<Kind>> OpenCollectively(MPI_Comm comm, Make make, Start start) {
  QUARRY_ASSIGN_OR_RETURN(MPI_Comm own, redistribute::DuplicateQuietly(comm));
  std::unique_ptr<Run> run;
  const Status status = Guarded([&]() -> Status {
    run = make(own);
    return start(run.get());
  });
  if (status.ok()) return std::unique_ptr<Kind>(std::move(run));
  if (run) {
    run->GiveUp(status);
  } else {
    MPI_Comm_free(&own);
  }
  return status;
}

}  // namespace quarry::insitu
