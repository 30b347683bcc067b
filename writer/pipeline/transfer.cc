#include "writer/pipeline/transfer.h"

#include <algorithm>
#include <map>
#include <optional>

#include "quarry/format/manifest.h"
#include "writer/pipeline/comm.h"

namespace quarry::writer {
namespace {

constexpr int kTag = 1;
/// Payload of a file that is on its way at a time.
constexpr std::uint64_t kWindowBytes = 16 << 20;

/// A run of a file's patches, as positions in Morton order, and the levels of them that travel together.
struct Window {
  std::size_t begin = 0;
  std::size_t end = 0;
  int coarsest = 0;
  int finest = 0;
};

/// The windows of a file, in the order of its payload. Every rank computes the same ones.
std::vector<Window> WindowsOf(const FilePlan& plan, std::size_t file, format::PayloadOrder order, int levels) {
  std::vector<Window> runs;
  for (std::size_t i = plan.assignment[file]; i < plan.assignment[file + 1];) {
    const std::size_t begin = i;
    std::uint64_t bytes = 0;
    do {
      bytes += (*plan.stored_bytes)[static_cast<std::size_t>((*plan.morton_order)[i++])];
    } while (i < plan.assignment[file + 1] &&
             bytes + (*plan.stored_bytes)[static_cast<std::size_t>((*plan.morton_order)[i])] <= kWindowBytes);
    runs.push_back({begin, i, levels - 1, 0});
  }
  if (order == format::PayloadOrder::kPatch) return runs;
  std::vector<Window> windows;
  for (int level = levels - 1; level >= 0; --level) {
    for (Window run : runs) {
      run.coarsest = run.finest = level;
      windows.push_back(run);
    }
  }
  return windows;
}

/// Bytes of the levels of a window in one patch.
std::uint64_t BytesIn(const format::PatchEntry& row, const Window& window) {
  std::uint64_t bytes = 0;
  for (int l = window.finest; l <= window.coarsest; ++l) bytes += row.levels[static_cast<std::size_t>(l)].size;
  return bytes;
}

/// Messages between pairs of ranks that are complete together. Both sides walk files and patches in the same
/// order, so that messages match in the order of posting.
class Messages {
 public:
  explicit Messages(MPI_Comm comm) : comm_(comm) {}

  void Send(Bytes bytes, int target) {
    if (bytes.empty()) return;
    sent_.push_back(std::move(bytes));
    requests_.emplace_back();
    MPI_Isend(sent_.back().data(), static_cast<int>(sent_.back().size()), MPI_BYTE, target, kTag, comm_,
              &requests_.back());
  }
  /// @param bytes  of the size that comes; stays where it is until Wait
  void Receive(Bytes* bytes, int source) {
    if (bytes->empty()) return;
    requests_.emplace_back();
    MPI_Irecv(bytes->data(), static_cast<int>(bytes->size()), MPI_BYTE, source, kTag, comm_, &requests_.back());
  }
  void Wait() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
    sent_.clear();
  }

 private:
  MPI_Comm comm_;
  std::vector<MPI_Request> requests_;
  std::vector<Bytes> sent_;
};

/// One run of TransferAndWrite.
class Transfer {
 public:
  Transfer(MPI_Comm comm, const FilePlan& plan, const PatchGrid& grid, const format::SubfileHeader& header,
           const std::vector<OutgoingPatch>& mine, const PayloadStore& store)
      : comm_(comm), plan_(plan), grid_(grid), header_(header), mine_(mine), store_(store), rank_(Rank(comm)) {}

  /// Aggregators learn the rows of their files.
  void MoveRows() {
    Messages messages(comm_);
    std::map<std::pair<std::size_t, int>, Bytes> received;  // by file and encoder
    const std::size_t row_bytes = format::PatchEntry::EncodedSize(header_.levels);
    for (std::size_t f = 0; f < plan_.files(); ++f) {
      const int aggregator = AggregatorOf(f);
      Bytes own;
      ForEachPatch(plan_.assignment[f], plan_.assignment[f + 1], [&](std::int64_t patch, int encoder) {
        if (encoder == rank_) Outgoing(patch).row.EncodeTo(&own);
        if (aggregator == rank_ && encoder != rank_) {
          Bytes& bytes = received[{f, encoder}];
          bytes.resize(bytes.size() + row_bytes);
        }
      });
      if (aggregator == rank_) {
        received[{f, rank_}] = std::move(own);
      } else {
        messages.Send(std::move(own), aggregator);
      }
    }
    for (auto& [from, bytes] : received) {
      if (from.second != rank_) messages.Receive(&bytes, from.second);
    }
    messages.Wait();
    for (std::size_t f = 0; f < plan_.files(); ++f) {
      if (AggregatorOf(f) != rank_) continue;
      std::map<int, std::size_t> next;
      std::vector<format::PatchEntry>& rows = rows_[f];
      ForEachPatch(plan_.assignment[f], plan_.assignment[f + 1], [&](std::int64_t, int encoder) {
        const ByteSpan bytes = received[{f, encoder}];
        rows.push_back(
            format::PatchEntry::DecodeFrom(bytes.subspan(next[encoder], row_bytes), header_.levels));
        next[encoder] += row_bytes;
      });
    }
  }

  /// Moves the payload. A failure, of the disk above all, ends what this rank writes, but not what it sends and
  /// receives: the others must not wait for ever.
  Status MovePayload(const std::filesystem::path& folder, Bytes* summaries, PhaseSeconds* seconds) {
    std::vector<std::vector<Window>> windows;
    std::size_t rounds = 0;
    for (std::size_t f = 0; f < plan_.files(); ++f) {
      windows.push_back(WindowsOf(plan_, f, header_.order, header_.levels));
      rounds = std::max(rounds, windows.back().size());
    }
    Status status;
    std::map<std::size_t, SubfileWriter> writers;
    {
      const PhaseTimer timer(seconds, Phase::kWrite);
      status = Guarded([&] { return CreateFiles(folder, &writers); });
    }
    for (std::size_t round = 0; round < rounds; ++round) {
      std::map<std::pair<std::size_t, int>, Bytes> arrived;  // by file and encoder
      {
        const PhaseTimer timer(seconds, Phase::kTransfer);
        const Status moved = MoveRound(windows, round, &arrived);
        if (status.ok()) status = moved;
      }
      const PhaseTimer timer(seconds, Phase::kWrite);
      for (auto& [f, writer] : writers) {
        if (round < windows[f].size() && status.ok())
          status = AppendWindow(f, windows[f][round], arrived, &writer);
      }
    }
    const PhaseTimer timer(seconds, Phase::kWrite);
    for (auto& [f, writer] : writers) {
      if (!status.ok()) break;
      Result<SubfileSummary> summary = writer.Finish();
      if (summary.ok()) summary->EncodeTo(summaries);
      status = std::move(summary).status();
    }
    return status;
  }

 private:
  int AggregatorOf(std::size_t file) const {
    return distribution::AggregatorRank(file, plan_.files(), Size(comm_));
  }

  template <typename Visit>
  void ForEachPatch(std::size_t begin, std::size_t end, Visit visit) const {
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t patch = (*plan_.morton_order)[i];
      visit(patch, (*plan_.placement)[static_cast<std::size_t>(patch)]);
    }
  }

  const OutgoingPatch& Outgoing(std::int64_t patch) const {
    return *std::lower_bound(mine_.begin(), mine_.end(), static_cast<std::uint64_t>(patch),
                             [](const OutgoingPatch& a, std::uint64_t index) { return a.row.patch_index < index; });
  }

  Status CreateFiles(const std::filesystem::path& folder, std::map<std::size_t, SubfileWriter>* writers) {
    for (auto& [f, rows] : rows_) {
      header_.subfile_number = static_cast<std::uint32_t>(f);
      header_.patch_count = rows.size();
      QUARRY_ASSIGN_OR_RETURN(SubfileWriter writer,
                              SubfileWriter::Create(folder / format::SubfileName(f), header_, grid_, rows));
      writers->emplace(f, std::move(writer));
    }
    return Status::Ok();
  }

  /// One window of every file: one message from each encoder to each aggregator and file.
  /// @errors those of reading this rank's own payload; what is sent then is not what it should be
  Status MoveRound(const std::vector<std::vector<Window>>& windows, std::size_t round,
                   std::map<std::pair<std::size_t, int>, Bytes>* arrived) const {
    Status status;
    Messages messages(comm_);
    for (std::size_t f = 0; f < plan_.files(); ++f) {
      if (round >= windows[f].size()) continue;
      const Window& window = windows[f][round];
      const int aggregator = AggregatorOf(f);
      Bytes own;
      std::size_t row = window.begin - plan_.assignment[f];
      ForEachPatch(window.begin, window.end, [&](std::int64_t patch, int encoder) {
        if (encoder == rank_) {
          const Status read = ReadOwn(Outgoing(patch), window, &own);
          if (status.ok()) status = read;
        } else if (aggregator == rank_) {
          Bytes& bytes = (*arrived)[{f, encoder}];
          bytes.resize(bytes.size() + BytesIn(rows_.at(f)[row], window));
        }
        ++row;
      });
      if (aggregator == rank_) {
        (*arrived)[{f, rank_}] = std::move(own);
      } else {
        messages.Send(std::move(own), aggregator);
      }
    }
    for (auto& [from, bytes] : *arrived) {
      if (from.second != rank_) messages.Receive(&bytes, from.second);
    }
    messages.Wait();
    return status;
  }

  Status ReadOwn(const OutgoingPatch& patch, const Window& window, Bytes* out) const {
    // The store has the coarsest level first.
    std::uint64_t position = patch.position;
    for (std::size_t l = patch.row.levels.size(); l-- > static_cast<std::size_t>(window.coarsest) + 1;)
      position += patch.row.levels[l].size;
    const std::size_t end = out->size();
    out->resize(end + BytesIn(patch.row, window));
    return store_.Read(position, std::span(*out).subspan(end));
  }

  Status AppendWindow(std::size_t file, const Window& window,
                      const std::map<std::pair<std::size_t, int>, Bytes>& arrived, SubfileWriter* writer) const {
    Status status;
    std::map<int, std::size_t> next;
    std::size_t row = window.begin - plan_.assignment[file];
    ForEachPatch(window.begin, window.end, [&](std::int64_t, int encoder) {
      const std::uint64_t bytes = BytesIn(writer->rows()[row++], window);
      if (bytes == 0 || !status.ok()) return;
      std::size_t& position = next[encoder];
      status = writer->Append(ByteSpan(arrived.at({file, encoder})).subspan(position, bytes));
      position += bytes;
    });
    return status;
  }

  MPI_Comm comm_;
  const FilePlan& plan_;
  const PatchGrid& grid_;
  format::SubfileHeader header_;
  const std::vector<OutgoingPatch>& mine_;
  const PayloadStore& store_;
  const int rank_;
  std::map<std::size_t, std::vector<format::PatchEntry>> rows_;  ///< of the files of this rank
};

}  // namespace

Result<std::vector<SubfileSummary>> TransferAndWrite(MPI_Comm comm, const FilePlan& plan, const PatchGrid& grid,
                                                     const std::filesystem::path& folder,
                                                     format::SubfileHeader header,
                                                     const std::vector<OutgoingPatch>& mine,
                                                     const PayloadStore& store, PhaseSeconds* seconds) {
  Transfer transfer(comm, plan, grid, header, mine, store);
  {
    const PhaseTimer timer(seconds, Phase::kTransfer);
    transfer.MoveRows();
  }
  Bytes own;
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, transfer.MovePayload(folder, &own, seconds)));
  const Bytes all = GatherBytes(comm, own);
  std::vector<SubfileSummary> summaries;
  if (Rank(comm) != 0) return summaries;
  // Aggregators ascend with the files, so that the order of the ranks is that of the files.
  LittleEndianReader reader(all.data());
  for (std::size_t f = 0; f < plan.files(); ++f)
    summaries.push_back(SubfileSummary::DecodeFrom(&reader, header.levels));
  return summaries;
}

}  // namespace quarry::writer
