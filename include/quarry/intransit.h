#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "quarry/insitu.h"
#include "quarry/insitu_setup.h"
#include "quarry/intransit_roles.h"
#include "quarry/intransit_serve.h"
#include "quarry/result.h"

/// A running simulation hands its steps over to ranks that only write, and continues meanwhile.
/// @source Marrinan et al., Automated Dynamic Data Redistribution, section IV.B
namespace quarry::intransit {

using insitu::BoxView;
using insitu::OwnedBox;
using insitu::Setup;

/// How steps travel; changes no byte of the dataset.
struct Transport {
  /// Steps handed over and not yet published, at most. A rank holds copies of so many steps, and waits while
  /// all of them are in flight.
  int steps_in_flight = 2;
  std::uint64_t message_bytes = std::uint64_t{64} << 20;  ///< largest message of samples; 1 to 2^31 - 1
  /// Called on every rank before it waits in BeginStep; for logging and tests. If it throws, BeginStep fails
  /// with that error and does not wait.
  std::function<void(std::uint64_t step)> on_wait;
};

/// Seconds that a rank of the simulation has spent on writing.
struct SimulationSeconds {
  double opening = 0;
  double copying = 0;  ///< to the staging memory, in Put
  double waiting = 0;  ///< in BeginStep, for writers that are behind
  double closing = 0;  ///< in Close, until the last step was published
};

/// A dataset that a simulation writes through other ranks. Calls and bytes are those of insitu::Dataset, with
/// the differences below.
///
/// BeginStep waits while Transport::steps_in_flight steps are in flight. Put copies; the samples are not
/// needed after it. EndStep starts to send the step and returns; only MPI can fail then (kInternal).
/// AbandonStep drops a step of which the writers never hear. Close returns when all steps are published or
/// known to be lost, and the writers have closed the dataset.
///
/// An error of the writers in a step, such as a full disk, comes with the next BeginStep that knows of it, at
/// the latest with Close. The step of that BeginStep has not begun, and the call may be repeated. The failed
/// step is lost, published steps stay as they are. An error of a consumer (see ServeOptions) ends everything:
/// BeginStep and Close return it from then on, the same that Serve returns. A step is published with all that
/// was put, or lost as a whole, also if the dataset already has one of its fields.
///
/// Some networks need the sender's help: messages move whenever the simulation calls MPI for any reason.
/// @threads one caller at a time; the thread may call MPI
class Dataset : public insitu::AnyDataset {
 public:
  /// Waits until the writers have opened or created the dataset.
  /// @param roles  of a job whose writers are in Serve, or will be
  /// @param comm   of the ranks that own data: roles.comm() or a part of it
  /// @param found  an earlier error of this rank: then all ranks get it
  /// @errors as insitu::Dataset::Open; kInvalidArgument: `comm` has writer ranks; kFailedPrecondition: this
  ///         rank is one
  static Result<std::unique_ptr<Dataset>> Open(const Roles& roles, MPI_Comm comm, const Setup& setup,
                                               const std::vector<OwnedBox>& boxes,
                                               const Transport& transport = {},
                                               const Status& found = Status::Ok());

  /// Steps that were handed over and are known to be lost, for any reason, in this order. The same on every
  /// rank.
  virtual const std::vector<std::uint64_t>& lost_steps() const = 0;

  /// Seconds of this rank; also after Close.
  virtual const SimulationSeconds& seconds() const = 0;
  /// How often BeginStep had to wait.
  virtual std::uint64_t waits() const = 0;
  /// Most steps that were handed over and not known to be published at a time: at most
  /// Transport::steps_in_flight.
  virtual std::uint64_t most_in_flight() const = 0;
  /// Memory of this rank for the copies.
  virtual std::uint64_t staging_bytes() const = 0;
};

}  // namespace quarry::intransit
