#include "writer/insitu/collective.h"

#include <algorithm>

#include "quarry/base/checksum.h"
#include "quarry/format/description_rules.h"
#include "writer/insitu/declaration.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/phases.h"
#include "writer/redistribute/mapping.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::insitu {
namespace {

std::vector<std::uint64_t> ToNumbers(const std::vector<OwnedBox>& boxes, int rank) {
  std::vector<std::uint64_t> numbers;
  for (const OwnedBox& owned : boxes) {
    numbers.push_back(static_cast<std::uint64_t>(rank));
    for (const Index3& corner : {owned.box.begin, owned.box.end}) {
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

Status CheckCommunicator(MPI_Comm comm) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) {
    return FailedPrecondition("MPI is not running; open datasets between MPI_Init and MPI_Finalize");
  }
  if (comm == MPI_COMM_NULL)
    return InvalidArgument("the communicator is MPI_COMM_NULL; give the one of the ranks that own data");
  int inter = 0;
  MPI_Comm_test_inter(comm, &inter);
  if (inter != 0)
    return InvalidArgument("the communicator is an inter-communicator; give an intra-communicator");
  return Status::Ok();
}

Result<distribution::Ownership> ShareBoxes(MPI_Comm comm, const Index3& dims,
                                           const std::vector<OwnedBox>& boxes) {
  const int rank = writer::Rank(comm);
  const int ranks = writer::Size(comm);
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> numbers,
                          writer::GatherEverywhere(comm, ToNumbers(boxes, rank)));
  const redistribute::Layout layout{dims, ToOwnership(numbers, ranks),
                                    distribution::Ownership(static_cast<std::size_t>(ranks))};
  // These messages name the ranks themselves.
  QUARRY_RETURN_IF_ERROR(redistribute::AgreeOnStatus(
      comm, writer::Guarded([&] { return redistribute::CheckBoxesOfRank(layout, rank); })));
  QUARRY_RETURN_IF_ERROR(redistribute::AgreeOnStatus(
      comm, writer::Guarded([&] { return redistribute::CheckComplete(layout); })));
  return layout.owned;
}

Status CheckSetup(const Setup& setup, const std::vector<OwnedBox>& boxes) {
  if (setup.path.empty())
    return InvalidArgument("the path is empty; give the path of the dataset, NAME.quarry");
  if (setup.pipeline.files && *setup.pipeline.files < 1)
    return InvalidArgument("{} subfiles are not possible; give at least 1", *setup.pipeline.files);
  QUARRY_RETURN_IF_ERROR(quarry::internal::ToStatus(Describe(setup.declaration, std::nullopt)));
  return CheckStorage(boxes);
}

bool OpenStep::Has(std::size_t field) const { return std::find(put.begin(), put.end(), field) != put.end(); }

std::size_t FieldNumber(const Declaration& declaration, const std::string& field) {
  const std::vector<Field>& fields = declaration.fields;
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == field; });
  return static_cast<std::size_t>(found - fields.begin());
}

std::vector<BoxView> ViewsOf(const std::vector<OwnedBox>& boxes, DataType type,
                             std::span<const void* const> address) {
  std::vector<BoxView> views(address.size());
  for (std::size_t b = 0; b < std::min(address.size(), boxes.size()); ++b) {
    if (address[b] != nullptr) views[b] = boxes[b].At(address[b], SizeOf(type));
  }
  return views;
}

Status CheckBegin(std::int64_t step, std::optional<double> time, const OpenStep* open) {
  if (open != nullptr) {
    return FailedPrecondition("step {} is open; end it before step {} begins", open->number, step);
  }
  if (step < 0) return InvalidArgument("step {} is negative; steps are numbered from 0", step);
  return CheckTime(time).Annotate(fmt::format("step {}", step));
}

Status CheckEnd(const OpenStep* open) {
  if (open == nullptr) return FailedPrecondition("no step is open; begin one before ending it");
  if (!open->put.empty()) return Status::Ok();
  return FailedPrecondition("step {} has no field and is left out; put at least one before ending it",
                            open->number);
}

Status CheckAbandon(const OpenStep* open) {
  if (open != nullptr) return Status::Ok();
  return FailedPrecondition("no step is open; begin one before abandoning it");
}

Status CheckClose(const OpenStep* open, const std::string& path) {
  if (open == nullptr) return Status::Ok();
  return FailedPrecondition("step {} was begun and not ended; it is not in \"{}\"", open->number, path);
}

std::string BeginArguments(std::int64_t step, std::optional<double> time) {
  return fmt::format("{} {}", step, time ? fmt::format("{}", *time) : "-");
}

Status CheckPut(const Declaration& declaration, const std::vector<OwnedBox>& boxes, const OpenStep* open,
                const std::string& field, DataType type, std::span<const BoxView> views) {
  if (open == nullptr) return FailedPrecondition("field \"{}\" needs an open step; begin one", field);
  const std::size_t number = FieldNumber(declaration, field);
  if (number == declaration.fields.size())
    return InvalidArgument("there is no field \"{}\" in the declaration; declare it when opening the dataset",
                           field);
  if (open->Has(number))
    return InvalidArgument("field \"{}\" of step {} was put twice; put each field once", field, open->number);
  const DataType declared = declaration.fields[number].type;
  if (declared != type) {
    return InvalidArgument("field \"{}\" is declared {}, not {}; give samples of the declared type", field,
                           Name(declared), Name(type));
  }
  if (views.size() != boxes.size()) {
    return InvalidArgument("field \"{}\" comes with {} arrays for {} owned boxes; give one for each box",
                           field, views.size(), boxes.size());
  }
  for (std::size_t b = 0; b < views.size(); ++b) {
    if (views[b].data == nullptr && !boxes[b].box.empty()) {
      return InvalidArgument("field \"{}\" has no array for owned box {} {}; give its address", field, b,
                             ToString(boxes[b].box));
    }
  }
  return Status::Ok();
}

Status CallAgreement::Reach(Call call, const Status& local, const std::string& arguments) {
  QUARRY_RETURN_IF_ERROR(broken_);
  const auto number = static_cast<std::uint64_t>(call);
  const std::uint64_t digest = Checksum(std::as_bytes(std::span(arguments)));
  // The minimum of a number and the minimum of its complement match only if all ranks have the same one.
  const std::uint64_t mine[4] = {number, ~number, digest, ~digest};
  std::uint64_t least[4] = {};
  const Status compared =
      redistribute::MpiStatus(MPI_Allreduce(mine, least, 4, MPI_UINT64_T, MPI_MIN, comm_), "MPI_Allreduce");
  QUARRY_RETURN_IF_ERROR(Keep(writer::AgreeOnStatus(comm_, compared)));
  if (least[0] != ~least[1]) {
    broken_ = FailedPrecondition(
        "the ranks make different calls on \"{}\", and no longer wait for each other; begin, put, end "
        "and close on all ranks in the same order",
        path_);
    return broken_;
  }
  QUARRY_RETURN_IF_ERROR(Keep(writer::AgreeOnStatus(comm_, local)));
  if (least[2] == ~least[3]) return Status::Ok();
  // The text of rank 0: the path may be what differs.
  return Keep(redistribute::AgreeOnStatus(
      comm_,
      InvalidArgument("the ranks make the same call on \"{}\" with different arguments; declarations, steps, "
                      "times and fields are the same on every rank, only boxes and addresses differ",
                      path_)));
}

Status CallAgreement::Keep(Status status) {
  if (broken_.ok() && redistribute::CannotAgree(status)) broken_ = status;
  return status;
}

void CallAgreement::Free(MPI_Comm* comm) const {
  // Freeing is collective; after a failed agreement the others may be anywhere.
  if (redistribute::CannotAgree(broken_)) {
    *comm = MPI_COMM_NULL;
  } else {
    MPI_Comm_free(comm);
  }
}

}  // namespace quarry::insitu
