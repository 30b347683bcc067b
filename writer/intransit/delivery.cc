#include "writer/intransit/delivery.h"

#include "quarry/base/checked_math.h"
#include "writer/insitu/collective.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::intransit::internal {
namespace {

using redistribute::MutableBoxView;

/// Bytes of all boxes, which lie inside the grid: each box fits, but not all of them together.
Result<std::size_t> BytesOf(const std::vector<Box>& boxes, std::size_t sample_bytes) {
  std::int64_t bytes = 0;
  for (const Box& box : boxes) {
    if (!box.empty() && !CheckedAdd(bytes, box.volume() * static_cast<std::int64_t>(sample_bytes), &bytes))
      return InvalidArgument("the boxes that it needs have 2^63 bytes or more; name fewer boxes");
  }
  return static_cast<std::size_t>(bytes);
}

Status CheckInside(const Need& need, const Index3& dims) {
  const Box grid{{0, 0, 0}, dims};
  for (const Box& box : need.boxes) {
    if (box.empty() || grid.Contains(box)) continue;
    return InvalidArgument("it needs box {} of field \"{}\", which is not inside the grid of {} samples",
                           ToString(box), need.field, ToString(dims));
  }
  return Status::Ok();
}

}  // namespace

Status ConsumerStatus(int rank, const std::string& doing, const std::function<Status()>& work) {
  Status status;
  try {
    status = writer::Guarded(work);
  } catch (...) {  // not an exception of the standard library
    status = InternalError("it threw an object that is not a std::exception");
  }
  if (status.ok()) return status;
  const StatusCode code = redistribute::CannotAgree(status) ? StatusCode::kInternal : status.code();
  return {code, fmt::format("consumer {} has failed {}: {}", rank, doing, status.message())};
}

Result<std::unique_ptr<Delivery>> Delivery::Prepare(MPI_Comm comm, const insitu::Setup& setup,
                                                    const std::vector<insitu::OwnedBox>& owned,
                                                    const Consumer& consumer) {
  std::unique_ptr<Delivery> delivery(new Delivery(comm, setup, consumer));
  const std::string doing = fmt::format("at the opening of \"{}\"", setup.path);
  QUARRY_RETURN_IF_ERROR(redistribute::AgreeOnStatus(
      comm, ConsumerStatus(writer::Rank(comm), doing, [&] { return delivery->AskForNeeds(); })));
  QUARRY_RETURN_IF_ERROR(delivery->Connect(owned));
  return delivery;
}

/// Local.
Status Delivery::AskForNeeds() {
  QUARRY_ASSIGN_OR_RETURN(needs_, consumer_.needs(setup_));
  const std::vector<insitu::Field>& fields = setup_.declaration.fields;
  targets_.resize(fields.size());
  for (std::size_t n = 0; n < needs_.size(); ++n) {
    const Need& need = needs_[n];
    const std::size_t field = insitu::FieldNumber(setup_.declaration, need.field);
    if (field == fields.size())
      return InvalidArgument("it needs field \"{}\", which the simulation does not have", need.field);
    Target& target = targets_[field];
    if (target.need)
      return InvalidArgument("it names field \"{}\" twice; name all boxes of a field at once", need.field);
    QUARRY_RETURN_IF_ERROR(CheckInside(need, setup_.declaration.dims));
    target.need = n;
    target.boxes = need.boxes;
    const std::size_t size = SizeOf(fields[field].type);
    QUARRY_ASSIGN_OR_RETURN(const std::size_t bytes, BytesOf(need.boxes, size));
    target.memory.resize(bytes);
    bytes_ += bytes;
    std::byte* next = target.memory.data();
    for (const Box& box : need.boxes) {
      const std::size_t samples = box.empty() ? 0 : static_cast<std::size_t>(box.volume());
      target.views.push_back(MutableBoxView::Dense(next, box, size));
      target.samples.emplace_back(next, samples * size);
      next += samples * size;
    }
  }
  return Status::Ok();
}

Status Delivery::Connect(const std::vector<insitu::OwnedBox>& owned) {
  std::vector<double> needed;
  for (const Target& target : targets_) needed.push_back(target.need ? 1 : 0);
  QUARRY_RETURN_IF_ERROR(writer::MaxOverRanks(comm_, needed));
  std::vector<Box> sources;
  for (const insitu::OwnedBox& box : owned) sources.push_back(box.box);
  for (std::size_t f = 0; f < targets_.size(); ++f) {
    if (needed[f] == 0) continue;
    const std::size_t size = SizeOf(setup_.declaration.fields[f].type);
    QUARRY_ASSIGN_OR_RETURN(targets_[f].redistribution,
                            redistribute::Redistribution::Describe(
                                comm_, {.dims = setup_.declaration.dims, .sample_bytes = size}));
    QUARRY_RETURN_IF_ERROR(targets_[f].redistribution->Map(sources, targets_[f].boxes));
  }
  return Status::Ok();
}

Status Delivery::Deliver(std::size_t field, std::span<const redistribute::BoxView> owned) {
  Target& target = targets_[field];
  if (!target.redistribution) return Status::Ok();
  QUARRY_RETURN_IF_ERROR(target.redistribution->Exchange(owned, target.views));
  target.delivered = true;
  return Status::Ok();
}

Status Delivery::Consume(std::uint64_t step, std::optional<double> time) {
  const Status local =
      ConsumerStatus(writer::Rank(comm_), fmt::format("in step {} of \"{}\"", step, setup_.path), [&] {
        std::vector<ArrivedField> fields;
        for (const Need& need : needs_) {
          const std::size_t field = insitu::FieldNumber(setup_.declaration, need.field);
          Target& target = targets_[field];
          if (!std::exchange(target.delivered, false)) continue;
          fields.push_back({need.field, setup_.declaration.fields[field].type, target.boxes, target.samples});
        }
        return consumer_.consume(ArrivedStep{setup_, step, time, fields});
      });
  return redistribute::AgreeOnStatus(comm_, local);
}

}  // namespace quarry::intransit::internal
