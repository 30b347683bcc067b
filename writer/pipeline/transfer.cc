#include "writer/pipeline/transfer.h"

#include "writer/pipeline/comm.h"

namespace quarry::writer {

ReceivedPatches TransferPatches(MPI_Comm comm, const std::vector<std::int64_t>& morton_order,
                                const distribution::Placement& placement,
                                const std::vector<std::uint64_t>& packed_size,
                                const distribution::Assignment& assignment,
                                std::map<std::int64_t, PackedPatch> mine) {
  const int rank = Rank(comm);
  const std::size_t file_count = assignment.size() - 1;
  // Sender and receiver both walk files and patches in order, so that messages match in the order of
  // posting.
  constexpr int kTag = 1;
  ReceivedPatches received;
  std::vector<MPI_Request> requests;
  for (std::size_t f = 0; f < file_count; ++f) {
    const int aggregator = distribution::AggregatorRank(f, file_count, Size(comm));
    if (aggregator == rank) {
      const std::size_t begin = received.patches.size();
      received.files.push_back({f, begin, begin + assignment[f + 1] - assignment[f]});
    }
    for (std::size_t i = assignment[f]; i < assignment[f + 1]; ++i) {
      const std::int64_t patch = morton_order[i];
      const int encoder = placement[static_cast<std::size_t>(patch)];
      if (aggregator == rank) {
        received.patches.emplace_back();
        if (encoder == rank) {
          received.patches.back() = std::move(mine.at(patch));
        } else {
          Bytes& bytes = received.patches.back().bytes;
          bytes.resize(packed_size[static_cast<std::size_t>(patch)]);
          requests.emplace_back();
          MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, encoder, kTag, comm,
                    &requests.back());
        }
      } else if (encoder == rank) {
        const Bytes& bytes = mine.at(patch).bytes;
        requests.emplace_back();
        MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, aggregator, kTag, comm,
                  &requests.back());
      }
    }
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  return received;
}

}  // namespace quarry::writer
