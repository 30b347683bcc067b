#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "quarry/bytes.h"
#include "quarry/intransit_consumer.h"
#include "quarry/redistribute.h"
#include "writer/insitu/declaration.h"

namespace quarry::intransit::internal {

/// Brings the steps of one dataset to the consumers: from the boxes of its group, which each rank receives,
/// to the boxes that its consumer needs. One redistribution for each field that any rank needs.
class Delivery {
 public:
  /// Asks the consumers for their needs, and allocates all memory.
  /// @param comm      of the caller; outlives this; of the ranks in Serve
  /// @param owned     boxes that this rank receives
  /// @param consumer  outlives this
  /// @errors one for all ranks: those of a consumer, see ConsumerStatus; kInvalidArgument: needs of an
  /// unknown
  ///         field, or outside the grid
  /// @collective
  static Result<std::unique_ptr<Delivery>> Prepare(MPI_Comm comm, const insitu::Setup& setup,
                                                   const std::vector<insitu::OwnedBox>& owned,
                                                   const Consumer& consumer);

  /// Fills the needed boxes with a field that every rank has received.
  /// @param owned  one view for each owned box
  /// @errors the same on all ranks @collective
  Status Deliver(std::size_t field, std::span<const redistribute::BoxView> owned);

  /// Calls the consumers with the fields that were delivered since the last call.
  /// @errors one for all ranks, as a consumer brings it @collective
  Status Consume(std::uint64_t step, std::optional<double> time);

  /// Memory of this rank for needed boxes.
  std::uint64_t bytes() const { return bytes_; }

 private:
  /// A field that some rank needs.
  struct Target {
    std::optional<redistribute::Redistribution> redistribution;  ///< nothing where no rank needs the field
    std::optional<std::size_t> need;                             ///< need of this rank
    std::vector<Box> boxes;
    std::vector<redistribute::MutableBoxView> views;
    std::vector<std::span<const std::byte>> samples;
    Bytes memory;
    bool delivered = false;
  };

  Delivery(MPI_Comm comm, const insitu::Setup& setup, const Consumer& consumer)
      : comm_(comm), setup_(setup), consumer_(consumer) {}

  Status AskForNeeds();
  Status Connect(const std::vector<insitu::OwnedBox>& owned);

  MPI_Comm comm_;
  const insitu::Setup setup_;
  const Consumer& consumer_;
  std::vector<Need> needs_;
  std::vector<Target> targets_;  ///< by field of the declaration
  std::uint64_t bytes_ = 0;
};

/// The error of a consumer as all ranks get it: which one, and what it was doing. Exceptions of any kind
/// become one too. kAborted, by which Serve means that its ranks cannot agree, becomes kInternal.
/// @param doing  for the message: "in step 7"
Status ConsumerStatus(int rank, const std::string& doing, const std::function<Status()>& work);

}  // namespace quarry::intransit::internal
