#include "writer/redistribute/mpi_status.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "writer/redistribute/quiet_wait.h"

namespace quarry::redistribute {
namespace {

/// An error as it is sent: one message of a fixed size, so that all ranks take part in the same way even if
/// MPI fails. Longer texts are cut.
struct ErrorNote {
  int code = 0;
  int length = 0;
  char text[4096 - 2 * sizeof(int)] = {};

  static ErrorNote Of(const Status& status) {
    ErrorNote note;
    note.code = static_cast<int>(status.code());
    note.length = static_cast<int>(std::min(status.message().size(), sizeof(note.text)));
    std::memcpy(note.text, status.message().data(), static_cast<std::size_t>(note.length));
    return note;
  }
  Status ToStatus() const {
    const int most = static_cast<int>(sizeof(text));
    return {static_cast<StatusCode>(code),
            std::string(text, static_cast<std::size_t>(std::clamp(length, 0, most)))};
  }
};

Status Broken(const Status& cause) {
  return {StatusCode::kAborted,
          fmt::format(
              "the ranks cannot agree: {}; end the program (MPI_Abort), other ranks may wait for this one",
              cause.message())};
}

/// Here ranks wait for slower ones.
Status LowestOf(MPI_Comm comm, int mine, int* lowest) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int begun = MPI_Iallreduce(&mine, lowest, 1, MPI_INT, MPI_MIN, comm, &request);
  if (begun != MPI_SUCCESS) return MpiStatus(begun, "MPI_Iallreduce");
  WaitQuietly(std::span(&request, 1));
  return MpiStatus(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Iallreduce");
}

}  // namespace

Status MpiStatus(int code, const char* call) {
  if (code == MPI_SUCCESS) return Status::Ok();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  return InternalError("{} failed with code {}: {}", call, code,
                       std::string_view(text, static_cast<std::size_t>(length)));
}

Status AgreeOnStatus(MPI_Comm comm, const Status& local) {
  if (CannotAgree(local)) return local;
  constexpr int kNobody = std::numeric_limits<int>::max();
  int rank = 0;
  Status status = MpiStatus(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  if (!status.ok()) return Broken(status);
  const int mine = local.ok() ? kNobody : rank;
  int first = kNobody;
  status = LowestOf(comm, mine, &first);
  if (!status.ok()) return Broken(status);
  if (first == kNobody) return Status::Ok();
  // From here on every rank knows that one has failed, and fails too.
  ErrorNote note = ErrorNote::Of(local);
  status = MpiStatus(MPI_Bcast(&note, sizeof(note), MPI_BYTE, first, comm), "MPI_Bcast");
  if (rank == first) return local;
  if (status.ok() && note.code != 0) return note.ToStatus();
  return InternalError("rank {} has failed, and its message has not arrived: {}", first, status.message());
}

Status WaitForAll(std::span<MPI_Request> requests) {
  WaitQuietly(requests);
  Status first_error;
  // If some messages fail, MPI may return before the others are done: they are "pending".
  for (std::size_t pending = requests.size() + 1;;) {
    std::vector<MPI_Status> statuses(requests.size());
    const int code = MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data());
    if (code != MPI_ERR_IN_STATUS) return first_error.ok() ? MpiStatus(code, "MPI_Waitall") : first_error;
    std::size_t still = 0;
    for (const MPI_Status& status : statuses) {
      if (status.MPI_ERROR == MPI_ERR_PENDING) {
        ++still;
      } else if (first_error.ok()) {
        first_error = MpiStatus(status.MPI_ERROR, "a message");
      }
    }
    if (first_error.ok()) first_error = MpiStatus(code, "MPI_Waitall");
    if (still == 0 || still >= pending) return first_error;
    pending = still;
  }
}

Result<MPI_Comm> DuplicateQuietly(MPI_Comm comm) {
  MPI_Comm own = MPI_COMM_NULL;
  Status status = MpiStatus(MPI_Comm_dup(comm, &own), "MPI_Comm_dup");
  if (!status.ok()) {
    status = InternalError(
        "MPI cannot duplicate the communicator; free communicators that are not used any more ({})",
        status.message());
  } else {
    status = MpiStatus(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  // Over the caller's communicator: a duplicate that some ranks lack is useless. It is not freed, since that
  // takes all ranks.
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, status));
  return own;
}

}  // namespace quarry::redistribute
