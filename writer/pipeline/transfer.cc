#include "writer/pipeline/transfer.h"

#include <algorithm>
#include <future>
#include <map>
#include <optional>

#include "quarry/base/checksum.h"
#include "quarry/base/units.h"
#include "quarry/format/manifest.h"
#include "writer/distribution/incoming_file.h"
#include "writer/distribution/patch_numbers.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/shipped_rows.h"

namespace quarry::writer {
namespace {

using distribution::IncomingFile;
using distribution::NumberLetter;
using distribution::Shipment;
using distribution::WindowShare;

/// A file of this rank.
struct OwnFile {
  IncomingFile incoming;
  std::optional<SubfileWriter> writer;
};

/// Messages that have come from other ranks for a round, by file and encoder.
using Arrived = std::map<std::pair<std::size_t, int>, Message>;

/// One run of TransferAndWrite.
class Transfer {
 public:
  Transfer(const RankSetting& ranks, const SubfileLayout& layout, const format::SubfileHeader& header,
           const OutgoingPatches& own)
      : ranks_(ranks),
        layout_(layout),
        header_(header),
        own_(own),
        runs_(format::PartRuns(header)),
        rank_(Rank(ranks.comm)),
        size_(Size(ranks.comm)) {}

  /// Aggregators learn who has the patches of their files; ranks learn the windows of their patches.
  Status Announce() {
    QUARRY_ASSIGN_OR_RETURN(std::vector<NumberLetter> letters,
                            OnEveryRank(ranks_.comm, [&] { return WriteAnnouncements(); }));
    QUARRY_ASSIGN_OR_RETURN(letters, ExchangeNumbers(ranks_, std::move(letters)));
    std::vector<Letter> answers;
    QUARRY_RETURN_IF_ERROR(OnEveryRank(ranks_.comm, [&]() -> Status {
      QUARRY_RETURN_IF_ERROR(ReadAnnouncements(letters));
      letters.clear();
      return Answer(&answers);
    }));
    QUARRY_ASSIGN_OR_RETURN(answers, ExchangeLetters(ranks_.comm, ranks_.Next(), std::move(answers)));
    return OnEveryRank(ranks_.comm, [&] { return ReadAnswers(answers); });
  }

  /// Moves rows and payload. A failure, above all of the disk, ends this rank's writes, but not its messages:
  /// the others must not wait forever.
  Status Move(const WritableLocation& folder, Bytes* summaries, PhaseSeconds* seconds) {
    const std::uint64_t number = ranks_.Next();
    Status status;
    {
      const Timer timer(seconds, Phase::kWrite);
      status = Guarded([&] { return CreateFiles(folder); });
    }
    std::future<Status> writing;  // writes the round before
    const std::uint64_t rounds = Rounds();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      Arrived arrived;
      {
        const Timer timer(seconds, Phase::kTransfer);
        const Status moved = MoveRound(number, round, &arrived);
        if (status.ok()) status = moved;
      }
      const Timer timer(seconds, Phase::kWrite);
      const Status written = Outcome(&writing);
      if (status.ok()) status = written;
      if (!status.ok() || abandoned_ || files_.empty()) continue;
      status = Guarded([&] {
        writing = std::async(std::launch::async, [this, round, arrived = std::move(arrived)] {
          return Guarded([&] { return AppendRound(round, arrived); });
        });
        return Status::Ok();
      });
    }
    const Timer timer(seconds, Phase::kWrite);
    const Status written = Outcome(&writing);
    if (status.ok()) status = written;
    if (!status.ok() || abandoned_) return status;
    return Guarded([&] { return FinishFiles(summaries); });
  }

 private:
  /// Waits for a task; success if there is none.
  static Status Outcome(std::future<Status>* task) { return task->valid() ? task->get() : Status::Ok(); }

  int AggregatorOf(std::size_t file) const {
    return distribution::AggregatorRank(file, layout_.files(), size_);
  }

  /// The file with a curve position.
  std::uint64_t FileOf(std::uint64_t curve_position) const {
    const auto after = std::ranges::upper_bound(layout_.assignment, curve_position);
    return static_cast<std::uint64_t>(after - layout_.assignment.begin()) - 1;
  }

  /// Letters to aggregators: of each patch the bytes that it has in a window.
  Result<std::vector<NumberLetter>> WriteAnnouncements() const {
    const std::size_t row_bytes = ShippedRowSize(header_.parts(), runs_.front(), true);
    const auto bytes_of = [&](std::size_t i) -> Result<std::uint64_t> {
      QUARRY_ASSIGN_OR_RETURN(const std::uint64_t stored, own_.Stored(i));
      return stored + row_bytes;
    };
    return distribution::WriteNumbers(
        own_.size(), [&](std::size_t i) { return own_.CurvePosition(i); }, bytes_of,
        [&](std::uint64_t position) { return FileOf(position); },
        [&](std::uint64_t file) { return AggregatorOf(file); });
  }

  Status ReadAnnouncements(const std::vector<NumberLetter>& letters) {
    for (std::size_t f = 0; f < layout_.files(); ++f) {
      if (AggregatorOf(f) == rank_)
        files_.emplace(f, OwnFile{IncomingFile(layout_.assignment[f], layout_.assignment[f + 1]), {}});
    }
    for (const NumberLetter& letter : letters) {
      const auto file = files_.find(letter.group());
      bool fits = file != files_.end();
      for (std::size_t i = 0; fits && i < letter.count(); ++i)
        fits = file->second.incoming.Announce(letter.peer, letter.at(i).curve_position, letter.at(i).number);
      if (!fits)
        return InternalError("rank {} announces patches that are not its own; please report this",
                             letter.peer);
    }
    for (auto& [f, file] : files_) {
      if (!file.incoming.complete())
        return InternalError("patches of subfile {} are missing; please report this", f);
      file.incoming.CutWindows(layout_.window_bytes);
    }
    return Status::Ok();
  }

  /// Letters to the encoders of a file: the file, its windows, then window and number of patches of each
  /// share.
  Status Answer(std::vector<Letter>* letters) const {
    for (const auto& [f, file] : files_) {
      for (const auto& [encoder, shares] : file.incoming.Shares()) {
        Bytes head;
        PutLittleEndian(&head, std::uint64_t{f});
        PutLittleEndian(&head, std::uint64_t{file.incoming.windows()});
        for (const WindowShare& share : shares) {
          PutLittleEndian(&head, share.window);
          PutLittleEndian(&head, share.patches);
        }
        letters->push_back({encoder, Message::WithHead(head)});
      }
    }
    return Status::Ok();
  }

  Status ReadAnswers(const std::vector<Letter>& letters) {
    for (const Letter& letter : letters) {
      if (letter.peer == rank_) continue;  // its own patches go to its files without messages
      const ByteSpan head = letter.message.head();
      LittleEndianReader reader(head.data());
      const auto file = static_cast<std::size_t>(reader.Get<std::uint64_t>());
      const auto windows = reader.Get<std::uint64_t>();
      std::vector<WindowShare> shares(head.size() / sizeof(std::uint64_t) - 2);
      for (WindowShare& share : shares) {
        share.window = reader.Get<std::uint32_t>();
        share.patches = reader.Get<std::uint32_t>();
      }
      distribution::AddShipments(file, own_.FirstFrom(layout_.assignment[file]), runs_.size(), windows,
                                 shares, &shipments_);
    }
    distribution::SortShipments(&shipments_);
    return Status::Ok();
  }

  std::uint64_t RoundsOf(const OwnFile& file) const { return runs_.size() * file.incoming.windows(); }

  /// Until this rank has sent and received everything.
  std::uint64_t Rounds() const {
    std::uint64_t rounds = shipments_.empty() ? 0 : shipments_.back().round + 1;
    for (const auto& [f, file] : files_) rounds = std::max(rounds, RoundsOf(file));
    return rounds;
  }

  /// [bytes] that a file has at most: patches are announced with larger rows than it has.
  static std::uint64_t MostBytes(const IncomingFile& file) {
    constexpr std::uint64_t kRest = 64 << 10;  // header, entries of the table, footer
    return file.bytes() + file.bytes() / 64 + kRest;
  }

  Status CheckMemory(const WritableStorage& storage) const {
    std::uint64_t memory = 0;
    for (const auto& [f, file] : files_) memory += storage.MemoryOfFile(MostBytes(file.incoming));
    if (memory <= layout_.part_memory) return Status::Ok();
    return ResourceExhausted(
        "the parts of {} subfiles that a rank writes to a store at a time need {}, a quarter of its memory "
        "is "
        "{}; give fewer subfiles (--files), more memory (--memory) or more ranks",
        files_.size(), FormatBytes(memory), FormatBytes(layout_.part_memory));
  }

  Status CreateFiles(const WritableLocation& folder) {
    QUARRY_RETURN_IF_ERROR(CheckMemory(*folder.storage));
    for (auto& [f, file] : files_) {
      header_.subfile_number = static_cast<std::uint32_t>(f);
      header_.patch_count = file.incoming.end() - file.incoming.begin();
      header_.block_bits = format::BlockBitsOf(header_.patch_count);
      QUARRY_ASSIGN_OR_RETURN(
          SubfileWriter writer,
          SubfileWriter::Create({folder.root / format::SubfileName(f), folder.storage}, header_, own_.grid(),
                                MostBytes(file.incoming), layout_.table_memory / files_.size()));
      file.writer.emplace(std::move(writer));
    }
    return Status::Ok();
  }

  Status FinishFiles(Bytes* summaries) {
    for (auto& [f, file] : files_) {
      QUARRY_ASSIGN_OR_RETURN(const SubfileSummary summary, file.writer->Finish());
      summary.EncodeTo(summaries);
    }
    return Status::Ok();
  }

  /// One window of every file: one message from each encoder to each aggregator and file.
  /// @errors those of reading this rank's own patches; those of MPI
  Status MoveRound(std::uint64_t number, std::uint64_t round, Arrived* arrived) {
    Status status;
    Mail mail(ranks_.comm, number);
    for (; next_shipment_ < shipments_.size() && shipments_[next_shipment_].round == round;
         ++next_shipment_) {
      const Shipment& shipment = shipments_[next_shipment_];
      Result<Message> message = Guarded([&] { return Pack(shipment); });
      if (status.ok()) status = message.status();
      // After an error a message without patches: its receiver must not wait.
      mail.Send(message.ok() ? *std::move(message) : Message::WithHead({}), AggregatorOf(shipment.file));
    }
    std::vector<std::pair<std::size_t, int>> expected;
    for (const auto& [f, file] : files_) {
      if (round >= RoundsOf(file)) continue;
      for (const int encoder : file.incoming.EncodersIn(round % file.incoming.windows())) {
        if (encoder == rank_) continue;
        expected.emplace_back(f, encoder);
        mail.Receive(encoder);
      }
    }
    Result<std::vector<Letter>> letters = mail.Wait();
    QUARRY_RETURN_IF_ERROR(status);
    QUARRY_RETURN_IF_ERROR(letters.status());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      abandoned_ = abandoned_ || (*letters)[i].message.head().empty();
      (*arrived)[expected[i]] = std::move((*letters)[i].message);
    }
    return Status::Ok();
  }

  /// A message of patches of this rank.
  Result<Message> Pack(const Shipment& shipment) const {
    const format::PartRun& run = runs_[shipment.run];
    Bytes head;
    head.reserve(shipment.count * ShippedRowSize(header_.parts(), run, shipment.run == 0));
    std::size_t bytes = 0;
    for (std::size_t i = shipment.first; i < shipment.first + shipment.count; ++i) {
      QUARRY_ASSIGN_OR_RETURN(const format::PatchEntry row, own_.Row(i));
      ShipRow(row, run, shipment.run == 0, &head);
      bytes += PayloadBytes(row, run);
    }
    Message message = Message::WithHead(head);
    Bytes* body = message.Body(bytes);
    Bytes buffer;
    for (std::size_t i = shipment.first; i < shipment.first + shipment.count; ++i) {
      QUARRY_ASSIGN_OR_RETURN(const format::PatchEntry row, own_.Row(i));
      QUARRY_ASSIGN_OR_RETURN(const ByteSpan payload, own_.Payload(i, row, run, &buffer));
      const std::size_t end = body->size();
      body->resize(end + payload.size());
      std::ranges::copy(payload, body->begin() + static_cast<std::ptrdiff_t>(end));
    }
    return message;
  }

  /// Writes a window of each file of this rank: what has arrived, and from the store this rank's own. Calls
  /// no MPI: it runs beside the next MoveRound.
  Status AppendRound(std::uint64_t round, const Arrived& arrived) {
    for (auto& [f, file] : files_) {
      if (round >= RoundsOf(file)) continue;
      const std::uint64_t windows = file.incoming.windows();
      QUARRY_RETURN_IF_ERROR(AppendWindow(f, &file, round / windows, round % windows, arrived));
    }
    return Status::Ok();
  }

  Status AppendWindow(std::size_t number, OwnFile* file, std::size_t run, std::size_t window,
                      const Arrived& arrived) {
    const bool first_run = run == 0;
    std::map<int, ArrivedPatches> others;
    for (auto at = arrived.lower_bound({number, 0}); at != arrived.end() && at->first.first == number; ++at)
      others.emplace(at->first.second, ArrivedPatches(at->second, header_.parts(), runs_[run], first_run));
    const IncomingFile& incoming = file->incoming;
    std::size_t mine = own_.FirstFrom(incoming.WindowBegin(window));
    format::PatchEntry row;
    ByteSpan payload;
    Bytes buffer;
    for (std::uint64_t p = incoming.WindowBegin(window); p < incoming.WindowBegin(window + 1); ++p) {
      const int encoder = incoming.EncoderOf(p);
      if (encoder == rank_) {
        QUARRY_ASSIGN_OR_RETURN(row, own_.Row(mine));
        QUARRY_ASSIGN_OR_RETURN(payload, own_.Payload(mine, row, runs_[run], &buffer));
        ++mine;
      } else if (!others.at(encoder).Next(&row, &payload)) {
        return InternalError("rank {} has sent too few patches of subfile {}; please report this", encoder,
                             number);
      }
      if (first_run) {
        QUARRY_RETURN_IF_ERROR(CheckPlace(row, p, number, encoder));
        QUARRY_RETURN_IF_ERROR(file->writer->AddRow(row));
      }
      QUARRY_RETURN_IF_ERROR(CheckPayload(row, p, runs_[run], payload, number, encoder));
      QUARRY_RETURN_IF_ERROR(file->writer->Append(payload));
    }
    return Status::Ok();
  }

  Status CheckPlace(const format::PatchEntry& row, std::uint64_t curve_position, std::size_t file,
                    int encoder) const {
    const std::int64_t expected = own_.grid().PatchAtCurvePosition(static_cast<std::int64_t>(curve_position));
    if (row.patch_index == static_cast<std::uint64_t>(expected)) return Status::Ok();
    return InternalError("rank {} has sent patch {} of subfile {} in place of patch {}; please report this",
                         encoder, row.patch_index, file, expected);
  }

  /// Whether the payload of a patch matches its encoder's row.
  Status CheckPayload(const format::PatchEntry& row, std::uint64_t curve_position, const format::PartRun& run,
                      ByteSpan payload, std::size_t file, int encoder) const {
    std::size_t position = 0;
    for (int part = run.first; part >= run.last; --part) {
      const format::LevelEntry& level = row.levels[static_cast<std::size_t>(part)];
      const std::uint64_t found = Checksum(payload.subspan(position, level.size));
      if (found != level.checksum) {
        return InternalError(
            "part {} of patch {} of subfile {} has come from rank {} with checksum {} instead of {}; "
            "nothing of it is "
            "published; check the network, and the disk under the dataset",
            part, own_.grid().PatchAtCurvePosition(static_cast<std::int64_t>(curve_position)), file, encoder,
            ChecksumText(found), ChecksumText(level.checksum));
      }
      position += level.size;
    }
    return Status::Ok();
  }

  const RankSetting& ranks_;
  const SubfileLayout& layout_;
  format::SubfileHeader header_;
  const OutgoingPatches& own_;
  const std::vector<format::PartRun> runs_;
  const int rank_;
  const int size_;
  std::map<std::size_t, OwnFile> files_;  ///< that this rank writes
  std::vector<Shipment> shipments_;       ///< to other ranks
  std::size_t next_shipment_ = 0;
  bool abandoned_ = false;  ///< another rank cannot send its patches, and has the error
};

}  // namespace

Result<std::vector<SubfileSummary>> TransferAndWrite(const RankSetting& ranks, const SubfileLayout& layout,
                                                     const WritableLocation& folder,
                                                     format::SubfileHeader header, const OutgoingPatches& own,
                                                     PhaseSeconds* seconds) {
  Transfer transfer(ranks, layout, header, own);
  {
    const Timer timer(seconds, Phase::kTransfer);
    QUARRY_RETURN_IF_ERROR(transfer.Announce());
  }
  Bytes mine;
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(ranks.comm, transfer.Move(folder, &mine, seconds)));
  QUARRY_ASSIGN_OR_RETURN(const Bytes all, GatherBytes(ranks.comm, mine));
  std::vector<SubfileSummary> summaries;
  if (Rank(ranks.comm) != 0) return summaries;
  // Aggregators ascend with the files, so that the order of the ranks is that of the files.
  LittleEndianReader reader(all.data());
  for (std::size_t f = 0; f < layout.files(); ++f)
    summaries.push_back(SubfileSummary::DecodeFrom(&reader, header.parts().count()));
  return summaries;
}

}  // namespace quarry::writer
