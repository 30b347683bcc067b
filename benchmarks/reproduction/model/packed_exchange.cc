#include "benchmarks/reproduction/model/packed_exchange.h"

#include <limits>

#include "writer/redistribute/copy_part.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::reproduction {

using redistribute::BoxView;
using redistribute::MpiStatus;
using redistribute::MutableBoxView;
using redistribute::Part;

Result<PackedExchange> PackedExchange::Plan(MPI_Comm comm, const redistribute::RankSchedule& schedule,
                                            std::size_t sample_bytes) {
  QUARRY_ASSIGN_OR_RETURN(redistribute::Datatype sample, redistribute::Datatype::Sample(sample_bytes));
  PackedExchange exchange(comm, schedule, sample_bytes, std::move(sample));
  QUARRY_ASSIGN_OR_RETURN(exchange.sends_, exchange.Allocate(schedule.sends, &Part::target));
  QUARRY_ASSIGN_OR_RETURN(exchange.receives_, exchange.Allocate(schedule.receives, &Part::source));
  return exchange;
}

Result<std::vector<PackedExchange::Buffer>> PackedExchange::Allocate(const std::vector<Part>& parts,
                                                                     int Part::*peer) const {
  std::vector<Buffer> buffers;
  for (const redistribute::Message& message :
       redistribute::GroupByPeer(parts, peer, redistribute::kOnePerRankPair)) {
    std::int64_t samples = 0;
    for (std::size_t p = message.first; p < message.last; ++p) samples += parts[p].box.volume();
    if (samples > std::numeric_limits<int>::max()) {
      return InvalidArgument(
          "{} samples for rank {} do not fit into one packed message; use more ranks, or smaller --dims",
          samples, message.peer);
    }
    buffers.push_back({message, Bytes(static_cast<std::size_t>(samples) * sample_bytes_)});
  }
  return buffers;
}

void PackedExchange::Pack(std::span<const BoxView> owned, Buffer* buffer) const {
  std::byte* to = buffer->samples.data();
  for (std::size_t p = buffer->message.first; p < buffer->message.last; ++p) {
    const Part& part = schedule_->sends[p];
    redistribute::CopyPart(owned[part.owned_box], schedule_->owned[part.owned_box],
                           MutableBoxView::Dense(to, part.box, sample_bytes_), part.box, part.box,
                           sample_bytes_);
    to += static_cast<std::size_t>(part.box.volume()) * sample_bytes_;
  }
}

void PackedExchange::Unpack(const Buffer& buffer, std::span<const MutableBoxView> needed) const {
  const std::byte* from = buffer.samples.data();
  for (std::size_t p = buffer.message.first; p < buffer.message.last; ++p) {
    const Part& part = schedule_->receives[p];
    redistribute::CopyPart(BoxView::Dense(from, part.box, sample_bytes_), part.box, needed[part.needed_box],
                           schedule_->needed[part.needed_box], part.box, sample_bytes_);
    from += static_cast<std::size_t>(part.box.volume()) * sample_bytes_;
  }
}

Status PackedExchange::Run(std::span<const BoxView> owned, std::span<const MutableBoxView> needed) {
  constexpr int kTag = 0;
  const double start = MPI_Wtime();
  std::vector<MPI_Request> requests;
  Status first_error;
  const auto note = [&](Status status) {
    if (first_error.ok()) first_error = std::move(status);
  };
  const auto count = [&](const Buffer& buffer) {
    return static_cast<int>(buffer.samples.size() / sample_bytes_);
  };
  for (Buffer& buffer : receives_) {
    note(MpiStatus(MPI_Irecv(buffer.samples.data(), count(buffer), sample_.get(), buffer.message.peer, kTag,
                             comm_, &requests.emplace_back(MPI_REQUEST_NULL)),
                   "MPI_Irecv"));
  }
  for (Buffer& buffer : sends_) Pack(owned, &buffer);
  for (const Buffer& buffer : sends_) {
    note(MpiStatus(MPI_Isend(buffer.samples.data(), count(buffer), sample_.get(), buffer.message.peer, kTag,
                             comm_, &requests.emplace_back(MPI_REQUEST_NULL)),
                   "MPI_Isend"));
  }
  for (const Part& part : schedule_->copies)
    redistribute::CopyPart(owned[part.owned_box], schedule_->owned[part.owned_box], needed[part.needed_box],
                           schedule_->needed[part.needed_box], part.box, sample_bytes_);
  note(redistribute::WaitForAll(requests));
  if (first_error.ok()) {
    for (const Buffer& buffer : receives_) Unpack(buffer, needed);
  }
  seconds_ = MPI_Wtime() - start;
  return first_error;
}

}  // namespace quarry::reproduction
