#include "writer/redistribute/messages.h"

#include <algorithm>

#include "writer/redistribute/copy_part.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::redistribute {
namespace {

/// Runs of parts for which `together(first part of the run, parts in it, next part)` holds.
template <typename Together>
std::vector<Message> Group(const std::vector<Part>& parts, int Part::*peer, Together together) {
  std::vector<Message> messages;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const bool joins =
        !messages.empty() && parts[p].*peer == messages.back().peer && together(messages.back(), parts[p]);
    if (!joins) messages.push_back({parts[p].*peer, parts[p].owned_box, p, p});
    messages.back().last = p + 1;
  }
  return messages;
}

}  // namespace

std::vector<Message> GroupByRound(const std::vector<Part>& parts, int Part::*peer) {
  std::vector<Message> messages = Group(
      parts, peer, [](const Message& message, const Part& part) { return part.owned_box == message.round; });
  std::stable_sort(messages.begin(), messages.end(),
                   [](const Message& a, const Message& b) { return a.round < b.round; });
  return messages;
}

std::vector<Message> GroupByPeer(const std::vector<Part>& parts, int Part::*peer, std::int64_t batch) {
  return Group(parts, peer, [batch](const Message& message, const Part&) {
    return batch == 0 || message.last - message.first < static_cast<std::size_t>(batch);
  });
}

Result<Datatype> TypeOf(std::span<const Part> parts, const std::vector<Box>& boxes, std::size_t Part::*number,
                        std::span<const BoxView> views, std::size_t sample_bytes) {
  QUARRY_ASSIGN_OR_RETURN(const Datatype sample, Datatype::Sample(sample_bytes));
  std::vector<Datatype> types;
  std::vector<MPI_Aint> addresses;
  for (const Part& part : parts) {
    const std::size_t b = part.*number;
    QUARRY_ASSIGN_OR_RETURN(Datatype type,
                            Datatype::Strided(part.box.shape(), views[b].stride, sample_bytes, sample));
    types.push_back(std::move(type));
    addresses.emplace_back();
    QUARRY_MPI(MPI_Get_address, FirstSample(views[b], boxes[b], part.box), &addresses.back());
  }
  return Datatype::AtAddresses(types, addresses);
}

}  // namespace quarry::redistribute
