#include "writer/intransit/staging.h"

#include "writer/redistribute/copy_part.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::intransit::internal {

Staging::Staging(const insitu::Declaration& declaration, const std::vector<insitu::OwnedBox>& boxes,
                 int places)
    : offsets_{0}, places_(static_cast<std::size_t>(places)) {
  std::size_t samples = 0;
  for (const insitu::OwnedBox& box : boxes) {
    boxes_.push_back(box.box);
    samples += static_cast<std::size_t>(box.box.volume());
  }
  for (const insitu::Field& field : declaration.fields) {
    sample_bytes_.push_back(SizeOf(field.type));
    offsets_.push_back(offsets_.back() + samples * sample_bytes_.back());
  }
  step_bytes_ = offsets_.back();
  memory_.resize(step_bytes_ * places_.size());
}

void Staging::Copy(std::size_t place, std::size_t field, std::span<const BoxView> views) {
  std::byte* to = At(place, field);
  const std::size_t size = sample_bytes_[field];
  for (std::size_t b = 0; b < boxes_.size(); ++b) {
    const Box& box = boxes_[b];
    if (box.empty()) continue;
    redistribute::CopyPart(views[b], box, redistribute::MutableBoxView::Dense(to, box, size), box, box, size);
    to += static_cast<std::size_t>(box.volume()) * size;
  }
}

Status Staging::Send(std::size_t place, std::span<const std::size_t> fields, std::uint64_t message_bytes,
                     MPI_Comm comm, int writer, int tag) {
  for (const std::size_t field : fields) {
    const auto send = [&](std::uint64_t offset, int size) -> Status {
      MPI_Request request = MPI_REQUEST_NULL;
      QUARRY_MPI(MPI_Isend, At(place, field) + offset, size, MPI_BYTE, writer, tag, comm, &request);
      places_[place].requests.push_back(request);
      return Status::Ok();
    };
    QUARRY_RETURN_IF_ERROR(ForEachMessage(offsets_[field + 1] - offsets_[field], message_bytes, send));
  }
  return Status::Ok();
}

Status Staging::SendCommand(std::size_t place, std::string command, MPI_Comm comm, int writer, int tag) {
  std::string& kept = places_[place].command;
  kept = std::move(command);
  MPI_Request request = MPI_REQUEST_NULL;
  QUARRY_MPI(MPI_Isend, kept.data(), static_cast<int>(kept.size()), MPI_BYTE, writer, tag, comm, &request);
  places_[place].requests.push_back(request);
  return Status::Ok();
}

Status Staging::Wait(std::size_t place) {
  std::vector<MPI_Request>& requests = places_[place].requests;
  Status status = redistribute::WaitForAll(requests);
  requests.clear();
  return status;
}

}  // namespace quarry::intransit::internal
