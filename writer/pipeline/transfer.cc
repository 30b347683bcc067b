#include "writer/pipeline/transfer.h"

#include <algorithm>
#include <future>
#include <limits>
#include <map>
#include <optional>

#include "quarry/base/checksum.h"
#include "quarry/format/manifest.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::writer {
namespace {

/// Tags of transfers wrap within what MPI guarantees (32767).
constexpr std::uint64_t kTags = 32000;
/// Payload of a file that moves at a time; an aggregator holds two windows, one that it fills and one that it
/// writes.
constexpr std::uint64_t kWindowBytes = 8 << 20;

/// A run of a file's patches, as positions in Morton order, and the parts of them that travel together.
struct Window {
  std::size_t begin = 0;
  std::size_t end = 0;
  format::PartRun parts;
};

/// The windows of a file, in the order of its payload. Every rank computes the same ones.
std::vector<Window> WindowsOf(const SubfileLayout& layout, std::size_t file, format::PayloadOrder order,
                              const PatchParts& parts) {
  std::vector<Window> runs;
  for (std::size_t i = layout.assignment[file]; i < layout.assignment[file + 1];) {
    const std::size_t begin = i;
    std::uint64_t bytes = 0;
    do {
      bytes += (*layout.stored_bytes)[static_cast<std::size_t>((*layout.morton_order)[i++])];
    } while (i < layout.assignment[file + 1] &&
             bytes + (*layout.stored_bytes)[static_cast<std::size_t>((*layout.morton_order)[i])] <=
                 kWindowBytes);
    runs.push_back({begin, i, {}});
  }
  std::vector<Window> windows;
  for (const format::PartRun& of_parts : format::PartRuns(order, parts)) {
    for (Window run : runs) {
      run.parts = of_parts;
      windows.push_back(run);
    }
  }
  return windows;
}

/// Bytes of the parts of a window in one patch.
std::uint64_t BytesIn(const format::PatchEntry& row, const Window& window) {
  std::uint64_t bytes = 0;
  for (int part = window.parts.last; part <= window.parts.first; ++part)
    bytes += row.levels[static_cast<std::size_t>(part)].size;
  return bytes;
}

/// Messages between pairs of ranks that are complete together. Both sides walk files and patches in the same
/// order, so that messages match in the order of posting.
///
/// After an error the other messages are still sent and received: their partners wait for them.
class Messages {
 public:
  Messages(MPI_Comm comm, int tag) : comm_(comm), tag_(tag) {}

  void Send(Bytes bytes, int target) {
    if (bytes.empty() || !Fits(bytes)) return;
    sent_.push_back(std::move(bytes));
    Note(MPI_Isend(sent_.back().data(), static_cast<int>(sent_.back().size()), MPI_BYTE, target, tag_, comm_,
                   Next()),
         "MPI_Isend");
  }
  /// @param bytes  sized for the message; must not move until Wait
  void Receive(Bytes* bytes, int source) {
    if (bytes->empty() || !Fits(*bytes)) return;
    Note(MPI_Irecv(bytes->data(), static_cast<int>(bytes->size()), MPI_BYTE, source, tag_, comm_, Next()),
         "MPI_Irecv");
  }
  /// The first error of all messages, after all of them are done.
  Status Wait() {
    Status waited = redistribute::WaitForAll(requests_);
    requests_.clear();
    sent_.clear();
    return status_.ok() ? waited : status_;
  }

 private:
  MPI_Request* Next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  void Note(int code, const char* call) {
    if (code == MPI_SUCCESS) return;
    requests_.back() = MPI_REQUEST_NULL;
    if (status_.ok()) status_ = redistribute::MpiStatus(code, call);
  }

  /// Both sides of a message know its size, so both skip one that is too large.
  bool Fits(const Bytes& bytes) {
    constexpr std::size_t kMost = std::numeric_limits<int>::max();
    if (bytes.size() <= kMost) return true;
    if (status_.ok()) {
      status_ =
          ResourceExhausted("{} bytes of patches do not fit a message; use smaller patches", bytes.size());
    }
    return false;
  }

  MPI_Comm comm_;
  int tag_;
  Status status_;
  std::vector<MPI_Request> requests_;
  std::vector<Bytes> sent_;
};

/// The bytes of a message and their checksum, which comes last.
void Seal(Bytes* bytes) { PutLittleEndian(bytes, Checksum(*bytes)); }
/// Whether they are as Seal left them.
bool IsSealed(ByteSpan bytes) {
  const std::size_t end = bytes.size() - sizeof(std::uint64_t);
  return LittleEndianReader(bytes.data() + end).Get<std::uint64_t>() == Checksum(bytes.first(end));
}

/// One run of TransferAndWrite.
class Transfer {
 public:
  Transfer(MPI_Comm comm, const SubfileLayout& layout, const PatchGrid& grid,
           const format::SubfileHeader& header, const std::vector<OutgoingPatch>& mine,
           const PayloadStore& store, std::uint64_t number)
      : comm_(comm),
        tag_(1 + static_cast<int>(number % kTags)),
        layout_(layout),
        grid_(grid),
        header_(header),
        mine_(mine),
        store_(store),
        rank_(Rank(comm)) {}

  /// Aggregators learn the rows of their files. Local, apart from the messages.
  Status MoveRows() {
    Messages messages(comm_, tag_);
    std::map<std::pair<std::size_t, int>, Bytes> received;  // by file and encoder
    const std::size_t row_bytes = format::PatchEntry::EncodedSize(header_.parts().count());
    for (std::size_t f = 0; f < layout_.files(); ++f) {
      const int aggregator = AggregatorOf(f);
      Bytes own;
      ForEachPatch(layout_.assignment[f], layout_.assignment[f + 1], [&](std::int64_t patch, int encoder) {
        if (encoder == rank_) Outgoing(patch).row.EncodeTo(&own);
        if (aggregator == rank_ && encoder != rank_) {
          Bytes& bytes = received[{f, encoder}];
          bytes.resize(bytes.size() + row_bytes);
        }
      });
      if (!own.empty()) Seal(&own);
      if (aggregator == rank_) {
        received[{f, rank_}] = std::move(own);
      } else {
        messages.Send(std::move(own), aggregator);
      }
    }
    for (auto& [from, bytes] : received) {
      if (from.second == rank_) continue;
      bytes.resize(bytes.size() + sizeof(std::uint64_t));
      messages.Receive(&bytes, from.second);
    }
    QUARRY_RETURN_IF_ERROR(messages.Wait());
    for (const auto& [from, bytes] : received) {
      if (bytes.empty() || IsSealed(bytes)) continue;
      return InternalError(
          "the patch table of subfile {} has not arrived from rank {} as it was sent; check the network",
          from.first, from.second);
    }
    for (std::size_t f = 0; f < layout_.files(); ++f) {
      if (AggregatorOf(f) != rank_) continue;
      std::map<int, std::size_t> next;
      std::vector<format::PatchEntry>& rows = rows_[f];
      ForEachPatch(layout_.assignment[f], layout_.assignment[f + 1], [&](std::int64_t, int encoder) {
        const ByteSpan bytes = received[{f, encoder}];
        rows.push_back(
            format::PatchEntry::DecodeFrom(bytes.subspan(next[encoder], row_bytes), header_.parts().count()));
        next[encoder] += row_bytes;
      });
    }
    return Status::Ok();
  }

  /// Moves the payload. A failure, above all of the disk, ends this rank's writes, but not its messages: the
  /// others must not wait forever.
  Status MovePayload(const std::filesystem::path& folder, Bytes* summaries, PhaseSeconds* seconds) {
    std::vector<std::vector<Window>> windows;
    std::size_t rounds = 0;
    for (std::size_t f = 0; f < layout_.files(); ++f) {
      windows.push_back(WindowsOf(layout_, f, header_.order, header_.parts()));
      rounds = std::max(rounds, windows.back().size());
    }
    Status status;
    std::map<std::size_t, SubfileWriter> writers;
    {
      const Timer timer(seconds, Phase::kWrite);
      status = Guarded([&] { return CreateFiles(folder, &writers); });
    }
    std::future<Status> writing;  // writes the round before
    for (std::size_t round = 0; round < rounds; ++round) {
      Arrived arrived;
      {
        const Timer timer(seconds, Phase::kTransfer);
        const Status moved = MoveRound(windows, round, &arrived);
        if (status.ok()) status = moved;
      }
      const Timer timer(seconds, Phase::kWrite);
      const Status written = Outcome(&writing);
      if (status.ok()) status = written;
      if (!status.ok() || writers.empty()) continue;
      status = Guarded([&] {
        writing = std::async(std::launch::async, [&, round, arrived = std::move(arrived)] {
          return Guarded([&] { return AppendRound(windows, round, arrived, &writers); });
        });
        return Status::Ok();
      });
    }
    const Timer timer(seconds, Phase::kWrite);
    const Status written = Outcome(&writing);
    if (status.ok()) status = written;
    for (auto& [f, writer] : writers) {
      if (!status.ok()) break;
      Result<SubfileSummary> summary = writer.Finish();
      if (summary.ok()) summary->EncodeTo(summaries);
      status = std::move(summary).status();
    }
    return status;
  }

 private:
  /// Bytes that aggregators get from other ranks in a round, by file and encoder.
  using Arrived = std::map<std::pair<std::size_t, int>, Bytes>;

  /// Waits for a task; success if there is none.
  static Status Outcome(std::future<Status>* task) { return task->valid() ? task->get() : Status::Ok(); }

  int AggregatorOf(std::size_t file) const {
    return distribution::AggregatorRank(file, layout_.files(), Size(comm_));
  }

  template <typename Visit>
  void ForEachPatch(std::size_t begin, std::size_t end, Visit visit) const {
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t patch = (*layout_.morton_order)[i];
      visit(patch, (*layout_.placement)[static_cast<std::size_t>(patch)]);
    }
  }

  const OutgoingPatch& Outgoing(std::int64_t patch) const {
    return *std::lower_bound(
        mine_.begin(), mine_.end(), static_cast<std::uint64_t>(patch),
        [](const OutgoingPatch& a, std::uint64_t index) { return a.row.patch_index < index; });
  }

  Status CreateFiles(const std::filesystem::path& folder, std::map<std::size_t, SubfileWriter>* writers) {
    for (auto& [f, rows] : rows_) {
      header_.subfile_number = static_cast<std::uint32_t>(f);
      header_.patch_count = rows.size();
      header_.block_bits = format::BlockBitsOf(rows.size());
      QUARRY_ASSIGN_OR_RETURN(SubfileWriter writer,
                              SubfileWriter::Create(folder / format::SubfileName(f), header_, grid_, rows));
      writers->emplace(f, std::move(writer));
    }
    return Status::Ok();
  }

  /// One window of every file: one message from each encoder to each aggregator and file.
  /// @errors those of reading this rank's own payload, or of damage in it; those of MPI
  Status MoveRound(const std::vector<std::vector<Window>>& windows, std::size_t round,
                   Arrived* arrived) const {
    Status status;
    Messages messages(comm_, tag_);
    for (std::size_t f = 0; f < layout_.files(); ++f) {
      if (round >= windows[f].size()) continue;
      const Window& window = windows[f][round];
      const int aggregator = AggregatorOf(f);
      Bytes own;
      if (aggregator != rank_) own.reserve(BytesOfOwn(window));
      std::size_t row = window.begin - layout_.assignment[f];
      ForEachPatch(window.begin, window.end, [&](std::int64_t patch, int encoder) {
        if (encoder == rank_ && aggregator != rank_) {
          const Status read = ReadOwn(Outgoing(patch), window, &own);
          if (status.ok()) status = read;
        } else if (encoder != rank_ && aggregator == rank_) {
          Bytes& bytes = (*arrived)[{f, encoder}];
          bytes.resize(bytes.size() + BytesIn(rows_.at(f)[row], window));
        }
        ++row;
      });
      messages.Send(std::move(own), aggregator);
    }
    for (auto& [from, bytes] : *arrived) messages.Receive(&bytes, from.second);
    const Status moved = messages.Wait();
    return status.ok() ? moved : status;
  }

  /// Bytes of this rank in a window.
  std::size_t BytesOfOwn(const Window& window) const {
    std::size_t bytes = 0;
    ForEachPatch(window.begin, window.end, [&](std::int64_t patch, int encoder) {
      if (encoder == rank_) bytes += BytesIn(Outgoing(patch).row, window);
    });
    return bytes;
  }

  /// Where the parts of a window begin in the store, which has the last part first.
  static std::uint64_t PositionOf(const OutgoingPatch& patch, const Window& window) {
    std::uint64_t position = patch.position;
    for (std::size_t l = patch.row.levels.size(); l-- > static_cast<std::size_t>(window.parts.first) + 1;)
      position += patch.row.levels[l].size;
    return position;
  }

  Status ReadOwn(const OutgoingPatch& patch, const Window& window, Bytes* out) const {
    const std::size_t end = out->size();
    out->resize(end + BytesIn(patch.row, window));
    return store_.Read(PositionOf(patch, window), std::span(*out).subspan(end));
  }

  /// Writes a window of each file of this rank: the arrived payload, and from the store this rank's own.
  /// Calls no MPI: it runs beside the next MoveRound.
  Status AppendRound(const std::vector<std::vector<Window>>& windows, std::size_t round,
                     const Arrived& arrived, std::map<std::size_t, SubfileWriter>* writers) const {
    for (auto& [f, writer] : *writers) {
      if (round < windows[f].size())
        QUARRY_RETURN_IF_ERROR(AppendWindow(f, windows[f][round], arrived, &writer));
    }
    return Status::Ok();
  }

  Status AppendWindow(std::size_t file, const Window& window, const Arrived& arrived,
                      SubfileWriter* writer) const {
    Status status;
    std::map<int, std::size_t> next;
    std::size_t number = window.begin - layout_.assignment[file];
    Bytes buffer;
    ForEachPatch(window.begin, window.end, [&](std::int64_t patch, int encoder) {
      const format::PatchEntry& row = writer->rows()[number++];
      const std::uint64_t bytes = BytesIn(row, window);
      if (bytes == 0 || !status.ok()) return;
      Result<ByteSpan> payload = ByteSpan();
      if (encoder == rank_) {
        payload = store_.View(PositionOf(Outgoing(patch), window), bytes, &buffer);
      } else {
        std::size_t& position = next[encoder];
        payload = ByteSpan(arrived.at({file, encoder})).subspan(position, bytes);
        position += bytes;
      }
      status = payload.status();
      if (status.ok()) status = CheckPayload(row, window, *payload, file, encoder);
      if (status.ok()) status = writer->Append(*payload);
    });
    return status;
  }

  /// Whether the payload of a patch matches its encoder's row.
  static Status CheckPayload(const format::PatchEntry& row, const Window& window, ByteSpan payload,
                             std::size_t file, int encoder) {
    std::size_t position = 0;
    for (int part = window.parts.first; part >= window.parts.last; --part) {
      const format::LevelEntry& level = row.levels[static_cast<std::size_t>(part)];
      const std::uint64_t found = Checksum(payload.subspan(position, level.size));
      if (found != level.checksum) {
        return InternalError(
            "part {} of patch {} of subfile {} has come from rank {} with checksum {} instead of {}; "
            "nothing of it is "
            "published; check the network, and the disk under the dataset",
            part, row.patch_index, file, encoder, ChecksumText(found), ChecksumText(level.checksum));
      }
      position += level.size;
    }
    return Status::Ok();
  }

  MPI_Comm comm_;
  const int tag_;
  const SubfileLayout& layout_;
  const PatchGrid& grid_;
  format::SubfileHeader header_;
  const std::vector<OutgoingPatch>& mine_;
  const PayloadStore& store_;
  const int rank_;
  std::map<std::size_t, std::vector<format::PatchEntry>> rows_;  ///< rows of the files of this rank
};

}  // namespace

Result<std::vector<SubfileSummary>> TransferAndWrite(MPI_Comm comm, const SubfileLayout& layout,
                                                     const PatchGrid& grid,
                                                     const std::filesystem::path& folder,
                                                     std::uint64_t number, format::SubfileHeader header,
                                                     const std::vector<OutgoingPatch>& mine,
                                                     const PayloadStore& store, PhaseSeconds* seconds) {
  Transfer transfer(comm, layout, grid, header, mine, store, number);
  {
    const Timer timer(seconds, Phase::kTransfer);
    // The sizes of all messages to come follow from the rows.
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, transfer.MoveRows()));
  }
  Bytes own;
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(comm, transfer.MovePayload(folder, &own, seconds)));
  QUARRY_ASSIGN_OR_RETURN(const Bytes all, GatherBytes(comm, own));
  std::vector<SubfileSummary> summaries;
  if (Rank(comm) != 0) return summaries;
  // Aggregators ascend with the files, so that the order of the ranks is that of the files.
  LittleEndianReader reader(all.data());
  for (std::size_t f = 0; f < layout.files(); ++f)
    summaries.push_back(SubfileSummary::DecodeFrom(&reader, header.parts().count()));
  return summaries;
}

}  // namespace quarry::writer
