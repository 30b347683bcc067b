#include "writer/pipeline/comm.h"

#include <limits>
#include <numeric>

#include "writer/redistribute/mpi_status.h"

namespace quarry::writer {

MpiSession::MpiSession(int* argc, char*** argv) { MPI_Init(argc, argv); }
MpiSession::~MpiSession() { MPI_Finalize(); }

int Rank(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int Size(MPI_Comm comm) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  return size;
}

int RanksOnThisNode(MPI_Comm comm) {
  MPI_Comm node;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  const int size = Size(node);
  MPI_Comm_free(&node);
  return size;
}

Status AgreeOnStatus(MPI_Comm comm, const Status& local) {
  constexpr int kNobody = std::numeric_limits<int>::max();
  const int mine = local.ok() ? kNobody : Rank(comm);
  int first = kNobody;
  QUARRY_MPI(MPI_Allreduce, &mine, &first, 1, MPI_INT, MPI_MIN, comm);
  if (first == kNobody) return Status::Ok();
  Status status = local;
  if (mine == first && Size(comm) > 1) status = std::move(status).Annotate(fmt::format("rank {}", first));
  return BroadcastStatus(comm, status, first);
}

Status BroadcastStatus(MPI_Comm comm, const Status& status, int root) {
  int header[2] = {static_cast<int>(status.code()), static_cast<int>(status.message().size())};
  QUARRY_MPI(MPI_Bcast, header, 2, MPI_INT, root, comm);
  std::string message = status.message();
  message.resize(static_cast<std::size_t>(header[1]));
  QUARRY_MPI(MPI_Bcast, message.data(), header[1], MPI_CHAR, root, comm);
  return {static_cast<StatusCode>(header[0]), std::move(message)};
}

std::string BroadcastText(MPI_Comm comm, const std::string& text) {
  return BroadcastStatus(comm, Status(StatusCode::kUnknown, text)).message();
}

std::vector<std::uint64_t> GatherEverywhere(MPI_Comm comm, std::span<const std::uint64_t> mine) {
  const int count = static_cast<int>(mine.size());
  std::vector<int> counts(static_cast<std::size_t>(Size(comm)));
  MPI_Allgather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, comm);
  std::vector<int> offsets(counts.size(), 0);
  std::partial_sum(counts.begin(), counts.end() - 1, offsets.begin() + 1);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(offsets.back() + counts.back()));
  MPI_Allgatherv(mine.data(), count, MPI_UINT64_T, all.data(), counts.data(), offsets.data(), MPI_UINT64_T,
                 comm);
  return all;
}

Bytes GatherBytes(MPI_Comm comm, ByteSpan mine) {
  const int count = static_cast<int>(mine.size());
  std::vector<int> counts(static_cast<std::size_t>(Size(comm)));
  MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, comm);
  std::vector<int> offsets(counts.size(), 0);
  std::partial_sum(counts.begin(), counts.end() - 1, offsets.begin() + 1);
  Bytes all(Rank(comm) == 0 ? static_cast<std::size_t>(offsets.back() + counts.back()) : 0);
  MPI_Gatherv(mine.data(), count, MPI_BYTE, all.data(), counts.data(), offsets.data(), MPI_BYTE, 0, comm);
  return all;
}

double MaxOverRanks(MPI_Comm comm, double value) {
  double result = value;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, comm);
  return result;
}

double MinOverRanks(MPI_Comm comm, double value) {
  double result = value;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MIN, comm);
  return result;
}

std::int64_t MinOverRanks(MPI_Comm comm, std::int64_t value) {
  std::int64_t result = value;
  MPI_Allreduce(&value, &result, 1, MPI_INT64_T, MPI_MIN, comm);
  return result;
}

}  // namespace quarry::writer
