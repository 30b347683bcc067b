#include "writer/pipeline/comm.h"

#include <algorithm>
#include <limits>

#include "quarry/base/checksum.h"
#include "quarry/base/processors.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::writer {

using redistribute::MpiStatus;

namespace {

/// Header of each rank in a gather: two numbers.
struct Header {
  std::uint64_t count = 0;  ///< elements
  std::uint64_t checksum = 0;
};

/// Where the parts of the ranks lie, one after the other, as MPI takes it.
struct Parts {
  std::vector<int> counts;
  std::vector<int> offsets;
  std::size_t total = 0;

  Status Place(const std::vector<Header>& headers) {
    std::uint64_t end = 0;
    for (const Header& header : headers) {
      if (header.count > kMostGathered || end + header.count > kMostGathered) {
        return ResourceExhausted(
            "the ranks bring more than {} numbers together, which MPI cannot gather; use larger "
            "patches, or fewer boxes",
            kMostGathered);
      }
      counts.push_back(static_cast<int>(header.count));
      offsets.push_back(static_cast<int>(end));
      end += header.count;
    }
    total = end;
    return Status::Ok();
  }

  template <typename T>
  Status Check(const std::vector<Header>& headers, std::span<const T> all) const {
    for (std::size_t r = 0; r < headers.size(); ++r) {
      const auto part =
          all.subspan(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(counts[r]));
      if (Checksum(std::as_bytes(part)) == headers[r].checksum) continue;
      return InternalError("the message of rank {} arrived damaged; check the network", r);
    }
    return Status::Ok();
  }
};

/// Places the parts that gathered headers announce, and makes room for them in `all`. @collective
template <typename All>
Result<Parts> MakeRoom(MPI_Comm comm, const Status& gathered, const std::vector<Header>& headers, All* all) {
  return OnEveryRank(comm, [&]() -> Result<Parts> {
    QUARRY_RETURN_IF_ERROR(gathered);
    Parts parts;
    QUARRY_RETURN_IF_ERROR(parts.Place(headers));
    all->resize(parts.total);
    return parts;
  });
}

/// Number of ranks of `comm` on this machine. @collective
Result<int> RanksOnThisNode(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  int size = 1;
  Status status = MpiStatus(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
                            "MPI_Comm_split_type");
  if (status.ok()) {
    size = Size(node);
    status = MpiStatus(MPI_Comm_free(&node), "MPI_Comm_free");
  }
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, status));
  return size;
}

}  // namespace

MpiSession::MpiSession(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
  if (provided >= MPI_THREAD_FUNNELED) return;
  fmt::print(
      stderr,
      "this MPI allows no threads beside the one that calls it (MPI_THREAD_FUNNELED); use another MPI\n");
  MPI_Abort(MPI_COMM_WORLD, ExitCode(Status(StatusCode::kUnavailable, "")));
}
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

Result<int> ThreadsOfRank(MPI_Comm comm) {
  QUARRY_ASSIGN_OR_RETURN(const int ranks, RanksOnThisNode(comm));
  return std::clamp(MachineProcessors() / ranks, 1, UsableProcessors());
}

Status AgreeOnStatus(MPI_Comm comm, const Status& local) {
  Status named = local;
  if (!local.ok() && Size(comm) > 1) named = std::move(named).Annotate(fmt::format("rank {}", Rank(comm)));
  return redistribute::AgreeOnStatus(comm, named);
}

Status BroadcastStatus(MPI_Comm comm, const Status& status) {
  return redistribute::AgreeOnStatus(comm, Rank(comm) == 0 ? status : Status::Ok());
}

Result<std::string> BroadcastText(MPI_Comm comm, const std::string& text) {
  Header header{text.size(), Checksum(std::as_bytes(std::span(text)))};
  Status status = MpiStatus(MPI_Bcast(&header, 2, MPI_UINT64_T, 0, comm), "MPI_Bcast");
  std::string arrived = text;
  QUARRY_RETURN_IF_ERROR(OnEveryRank(comm, [&]() -> Status {
    QUARRY_RETURN_IF_ERROR(status);
    if (header.count > kMostGathered)
      return InternalError("a text of {} bytes is too long for a message; please report this", header.count);
    arrived.resize(header.count);
    return Status::Ok();
  }));
  status =
      MpiStatus(MPI_Bcast(arrived.data(), static_cast<int>(header.count), MPI_CHAR, 0, comm), "MPI_Bcast");
  if (status.ok() && Checksum(std::as_bytes(std::span(arrived))) != header.checksum)
    status = InternalError("a text of rank 0 arrived damaged; check the network");
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, status));
  return arrived;
}

Result<std::vector<std::uint64_t>> GatherEverywhere(MPI_Comm comm, std::span<const std::uint64_t> mine) {
  const Header header{mine.size(), Checksum(std::as_bytes(mine))};
  std::vector<Header> headers(static_cast<std::size_t>(Size(comm)));
  Status status = MpiStatus(MPI_Allgather(&header, 2, MPI_UINT64_T, headers.data(), 2, MPI_UINT64_T, comm),
                            "MPI_Allgather");
  std::vector<std::uint64_t> all;
  QUARRY_ASSIGN_OR_RETURN(const Parts parts, MakeRoom(comm, status, headers, &all));
  status = MpiStatus(MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_UINT64_T, all.data(),
                                    parts.counts.data(), parts.offsets.data(), MPI_UINT64_T, comm),
                     "MPI_Allgatherv");
  if (status.ok()) status = parts.Check(headers, std::span<const std::uint64_t>(all));
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, status));
  return all;
}

Result<Bytes> GatherBytes(MPI_Comm comm, ByteSpan mine) {
  const Header header{mine.size(), Checksum(mine)};
  std::vector<Header> headers(Rank(comm) == 0 ? static_cast<std::size_t>(Size(comm)) : 0);
  Status status =
      MpiStatus(MPI_Gather(&header, 2, MPI_UINT64_T, headers.data(), 2, MPI_UINT64_T, 0, comm), "MPI_Gather");
  Bytes all;
  QUARRY_ASSIGN_OR_RETURN(const Parts parts, MakeRoom(comm, status, headers, &all));
  status = MpiStatus(MPI_Gatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, all.data(),
                                 parts.counts.data(), parts.offsets.data(), MPI_BYTE, 0, comm),
                     "MPI_Gatherv");
  if (status.ok()) status = parts.Check(headers, ByteSpan(all));
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, status));
  return all;
}

Status MaxOverRanks(MPI_Comm comm, std::span<double> values) {
  std::vector<double> largest(values.size());
  Status status = MpiStatus(MPI_Allreduce(values.data(), largest.data(), static_cast<int>(values.size()),
                                          MPI_DOUBLE, MPI_MAX, comm),
                            "MPI_Allreduce");
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, status));
  std::copy(largest.begin(), largest.end(), values.begin());
  return Status::Ok();
}

Result<double> MaxOverRanks(MPI_Comm comm, double value) {
  QUARRY_RETURN_IF_ERROR(MaxOverRanks(comm, std::span(&value, 1)));
  return value;
}

Result<double> MinOverRanks(MPI_Comm comm, double value) {
  double negated = -value;
  QUARRY_RETURN_IF_ERROR(MaxOverRanks(comm, std::span(&negated, 1)));
  return -negated;
}

}  // namespace quarry::writer
