#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quarry/base/endian.h"
#include "writer/insitu/declaration.h"

namespace quarry::intransit::internal {

using redistribute::BoxView;

/// Calls visit(offset, size) for each message that `bytes` samples travel in; the same on both sides.
template <typename Visit>
Status ForEachMessage(std::uint64_t bytes, std::uint64_t most, Visit visit) {
  for (std::uint64_t offset = 0; offset < bytes; offset += most)
    QUARRY_RETURN_IF_ERROR(visit(offset, static_cast<int>(std::min(most, bytes - offset))));
  return Status::Ok();
}

/// Steps of one rank between the simulation's memory and the writers: a ring of places, each with room for
/// all fields of a step.
class Staging {
 public:
  /// Allocates all its memory.
  Staging(const insitu::Declaration& declaration, const std::vector<insitu::OwnedBox>& boxes, int places);

  std::size_t places() const { return places_.size(); }
  std::uint64_t bytes() const { return memory_.size(); }

  /// Copies a field: its boxes one after the other, dense, x fastest.
  /// @param views  one for each box
  void Copy(std::size_t place, std::size_t field, std::span<const BoxView> views);

  /// Starts to send a step to a writer: the fields in this order, in messages of at most `message_bytes`.
  Status Send(std::size_t place, std::span<const std::size_t> fields, std::uint64_t message_bytes,
              MPI_Comm comm, int writer, int tag);
  /// The same for a command, which is kept until it is sent.
  Status SendCommand(std::size_t place, std::string command, MPI_Comm comm, int writer, int tag);
  /// Waits until all messages of a place are sent.
  Status Wait(std::size_t place);

 private:
  struct Place {
    std::vector<MPI_Request> requests;
    std::string command;
  };

  std::byte* At(std::size_t place, std::size_t field) {
    return memory_.data() + place * step_bytes_ + offsets_[field];
  }

  std::vector<Box> boxes_;
  std::vector<std::size_t> sample_bytes_;  ///< by field
  std::vector<std::size_t> offsets_;       ///< offset of each field in a place, and the end of the last one
  std::size_t step_bytes_ = 0;
  std::vector<Place> places_;
  Bytes memory_;
};

}  // namespace quarry::intransit::internal
