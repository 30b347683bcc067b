#include "writer/redistribute/mpi_status.h"

#include <limits>
#include <string>

namespace quarry::redistribute {

Status MpiStatus(int code, const char* call) {
  if (code == MPI_SUCCESS) return Status::Ok();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  return InternalError("{} failed with code {}: {}", call, code,
                       std::string_view(text, static_cast<std::size_t>(length)));
}

Status AgreeOnStatus(MPI_Comm comm, const Status& local) {
  constexpr int kNobody = std::numeric_limits<int>::max();
  int rank = 0;
  QUARRY_MPI(MPI_Comm_rank, comm, &rank);
  const int mine = local.ok() ? kNobody : rank;
  int first = kNobody;
  QUARRY_MPI(MPI_Allreduce, &mine, &first, 1, MPI_INT, MPI_MIN, comm);
  if (first == kNobody) return Status::Ok();
  std::string message = local.message();
  int header[2] = {static_cast<int>(local.code()), static_cast<int>(message.size())};
  QUARRY_MPI(MPI_Bcast, header, 2, MPI_INT, first, comm);
  message.resize(static_cast<std::size_t>(header[1]));
  QUARRY_MPI(MPI_Bcast, message.data(), header[1], MPI_CHAR, first, comm);
  return {static_cast<StatusCode>(header[0]), std::move(message)};
}

}  // namespace quarry::redistribute
