#pragma once

#include <mpi.h>

#include <span>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/redistribute.h"
#include "writer/redistribute/messages.h"

namespace quarry::reproduction {

/// The exchange without derived datatypes: a contiguous buffer for each pair of ranks, packed and unpacked by
/// hand, one message each. A contender of the exchange study; the writer does not use it.
/// @source Robinson et al., Investigating Data Movement Strategies, section 3.2.2
class PackedExchange {
 public:
  /// Plans and allocates.
  /// @param schedule  must outlive this object
  /// @errors kInvalidArgument: more than 2^31 - 1 samples for one rank. Local
  static Result<PackedExchange> Plan(MPI_Comm comm, const redistribute::RankSchedule& schedule,
                                     std::size_t sample_bytes);

  /// Posts all receives, packs every buffer, and only then sends, as the paper describes; then copies what
  /// stays and unpacks. The paper's timer stops before the unpacking; here the patches must be whole.
  /// @param owned   one view for each owned box of the schedule
  /// @param needed  one view for each needed box
  /// @errors kInternal: MPI, on this rank; all messages are posted even then
  /// @collective over the communicator
  Status Run(std::span<const redistribute::BoxView> owned,
             std::span<const redistribute::MutableBoxView> needed);

  /// Seconds of this rank in the last run.
  double seconds() const { return seconds_; }

 private:
  struct Buffer {
    redistribute::Message message;
    Bytes samples;  ///< part after part, each x fastest
  };

  PackedExchange(MPI_Comm comm, const redistribute::RankSchedule& schedule, std::size_t sample_bytes,
                 redistribute::Datatype sample)
      : comm_(comm), schedule_(&schedule), sample_bytes_(sample_bytes), sample_(std::move(sample)) {}

  Result<std::vector<Buffer>> Allocate(const std::vector<redistribute::Part>& parts,
                                       int redistribute::Part::*peer) const;
  void Pack(std::span<const redistribute::BoxView> owned, Buffer* buffer) const;
  void Unpack(const Buffer& buffer, std::span<const redistribute::MutableBoxView> needed) const;

  MPI_Comm comm_;
  const redistribute::RankSchedule* schedule_;
  std::size_t sample_bytes_;
  redistribute::Datatype sample_;
  std::vector<Buffer> sends_;
  std::vector<Buffer> receives_;
  double seconds_ = 0;
};

}  // namespace quarry::reproduction
