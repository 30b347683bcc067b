#include "writer/model/rank_tables.h"

#include <algorithm>

#include "writer/distribution/curve_cut.h"
#include "writer/distribution/incoming_file.h"
#include "writer/distribution/patch_numbers.h"

namespace quarry::model {
namespace {

using distribution::Assignment;
using distribution::CurvePiece;
using distribution::CurvePieces;
using distribution::IncomingFile;
using distribution::NumberLetter;
using distribution::PatchNumber;

constexpr std::uint64_t kNumber = sizeof(std::uint64_t);
/// Size and checksum of a message.
constexpr std::uint64_t kEnvelope = 2 * kNumber;
/// Numbers of every rank while patches are placed: patches so far, target, placed, contained.
constexpr std::uint64_t kBytesOfPlacement = 4 * kNumber;
/// Letters to each rank, while they are counted.
constexpr std::uint64_t kBytesOfCounts = sizeof(int);
/// Header, count and offset of each rank, on rank 0, where summaries are gathered.
constexpr std::uint64_t kBytesOfGather = 2 * kNumber + 2 * sizeof(int);

/// Numbers of a rank in one phase.
struct Held {
  std::uint64_t letters = 0;  ///< [bytes] that it has written
  std::uint64_t arrived = 0;  ///< [bytes]
  std::uint64_t here = 0;     ///< [bytes] that it keeps of what has arrived
};

class TableCount {
 public:
  TableCount(const CurveOfField& field, const CurvePieces& pieces, int ranks)
      : field_(field),
        pieces_(pieces),
        ranks_(static_cast<std::uint64_t>(ranks)),
        tables_(ranks_),
        own_(ranks_, 0) {
    for (const int encoder : field.encoders) own_[Index(encoder)] += distribution::kBytesOfOwnPatch;
    const std::uint64_t placement = ranks_ * kBytesOfPlacement;
    for (std::size_t rank = 0; rank < ranks_; ++rank) Hold(rank, placement);
  }

  /// Sizes go to the pieces, which the cut passes through.
  Assignment Assign(std::size_t files, distribution::AggregationStrategy strategy) {
    if (files == 1 || strategy == distribution::AggregationStrategy::kEqual)
      return distribution::AssignEqual(field_.encoders.size(), files);
    std::vector<Held> held(ranks_);
    std::vector<CurvePiece> pieces;
    for (std::size_t p = 0; p < pieces_.count(); ++p) {
      const std::uint64_t begin = pieces_.begin(p);
      const std::uint64_t end = pieces_.begin(p + 1);
      SendNumbers(begin, end, pieces_.RankOf(p), &held);
      held[Index(pieces_.RankOf(p))].here = (end - begin) * kNumber;
      pieces.emplace_back(begin, field_.bytes.subspan(begin, end - begin));
    }
    HoldAll(held, ranks_ * kBytesOfCounts);
    Line line(std::move(pieces));
    Assignment assignment = *distribution::CutCurve(&line, field_.encoders.size(), files);
    const std::uint64_t of_files = 3 * files * kNumber;  // starts, ends, and a sum of either
    for (std::size_t rank = 0; rank < ranks_; ++rank) Hold(rank, own_[rank] + of_files);
    for (std::size_t p = 0; p < pieces_.count(); ++p) AddPasses(p, line, of_files);
    return assignment;
  }

  /// Patches are announced to the aggregators of their files, which answer.
  void Announce(const Assignment& assignment) {
    const std::size_t files = assignment.size() - 1;
    std::vector<Held> held(ranks_);
    for (std::size_t f = 0; f < files; ++f) {
      const int aggregator = distribution::AggregatorRank(f, files, static_cast<int>(ranks_));
      SendNumbers(assignment[f], assignment[f + 1], aggregator, &held);
      held[Index(aggregator)].here += IncomingFile::BytesFor(assignment[f + 1] - assignment[f]);
      Answer(assignment[f], assignment[f + 1], aggregator);
    }
    HoldAll(held, assignment.size() * kNumber + ranks_ * kBytesOfCounts);
    // The summaries as they arrive, and as rank 0 keeps them.
    Hold(0, own_[0] + ranks_ * kBytesOfGather + 2 * files * field_.summary_bytes);
  }

  std::vector<RankTables> Finish() && { return std::move(tables_); }

 private:
  /// Counts the passes, and the numbers that each takes along.
  class Line final : public distribution::PieceLine {
   public:
    explicit Line(std::vector<CurvePiece> pieces) : line_(std::move(pieces)) {}
    std::size_t pieces() const override { return line_.pieces(); }
    Status Forward(std::span<std::uint64_t> state, const Step& step) override {
      forward_.push_back(state.size());
      return line_.Forward(state, step);
    }
    Status Backward(std::span<std::uint64_t> state, const Step& step) override {
      backward_.push_back(state.size());
      return line_.Backward(state, step);
    }
    Status AddUp(std::span<std::uint64_t>) override { return Status::Ok(); }

    std::vector<std::size_t> passes() const {
      std::vector<std::size_t> all = forward_;
      all.insert(all.end(), backward_.begin(), backward_.end());
      return all;
    }

   private:
    distribution::LocalLine line_;
    std::vector<std::size_t> forward_;
    std::vector<std::size_t> backward_;
  };

  static std::size_t Index(int rank) { return static_cast<std::size_t>(rank); }

  void Hold(std::size_t rank, std::uint64_t bytes) {
    tables_[rank].bytes = std::max(tables_[rank].bytes, bytes);
  }
  void HoldAll(const std::vector<Held>& held, std::uint64_t everywhere) {
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      Hold(rank, own_[rank] + everywhere + held[rank].letters + held[rank].arrived + held[rank].here);
  }

  void AddMessages(std::size_t rank, std::uint64_t messages, std::uint64_t bytes) {
    tables_[rank].messages += messages;
    tables_[rank].message_bytes += bytes;
  }

  /// Calls visit(rank, patches) for each rank with patches in [begin, end).
  template <typename Visit>
  void ForEachEncoder(std::uint64_t begin, std::uint64_t end, Visit visit) {
    sorted_.assign(field_.encoders.begin() + static_cast<std::ptrdiff_t>(begin),
                   field_.encoders.begin() + static_cast<std::ptrdiff_t>(end));
    std::ranges::sort(sorted_);
    for (auto first = sorted_.begin(); first != sorted_.end();) {
      const auto last = std::upper_bound(first, sorted_.end(), *first);
      visit(Index(*first), static_cast<std::uint64_t>(last - first));
      first = last;
    }
  }

  /// A number of each patch in [begin, end) goes to a rank.
  void SendNumbers(std::uint64_t begin, std::uint64_t end, int receiver, std::vector<Held>* held) {
    ForEachEncoder(begin, end, [&](std::size_t encoder, std::uint64_t patches) {
      const std::uint64_t letters = NumberLetter::LettersFor(patches);
      const std::uint64_t bytes = letters * NumberLetter::kPrefix + patches * PatchNumber::kEncodedSize;
      (*held)[encoder].letters += bytes;
      (*held)[Index(receiver)].arrived += bytes;
      if (encoder == Index(receiver)) return;
      AddMessages(encoder, letters, bytes + letters * kEnvelope);
      AddMessages(Index(receiver), letters, bytes + letters * kEnvelope);
    });
  }

  void Answer(std::uint64_t begin, std::uint64_t end, int aggregator) {
    IncomingFile file(begin, end);
    for (std::uint64_t p = begin; p < end; ++p)
      file.Announce(field_.encoders[p], p, field_.bytes[p] + field_.row_bytes);
    file.CutWindows(field_.window_bytes);
    for (const auto& [encoder, shares] : file.Shares()) {
      if (encoder == aggregator) continue;
      const std::uint64_t bytes = kEnvelope + (2 + shares.size()) * kNumber;
      AddMessages(Index(encoder), 1, bytes);
      AddMessages(Index(aggregator), 1, bytes);
    }
  }

  void AddPasses(std::size_t piece, const Line& line, std::uint64_t of_files) {
    const std::size_t rank = Index(pieces_.RankOf(piece));
    const std::uint64_t patches = pieces_.begin(piece + 1) - pieces_.begin(piece);
    // The piece is made from its sizes.
    Hold(rank, own_[rank] + of_files + patches * kNumber + CurvePiece::BytesFor(patches));
    const std::uint64_t neighbours = (piece > 0 ? 1 : 0) + (piece + 1 < pieces_.count() ? 1 : 0);
    for (const std::size_t numbers : line.passes())
      AddMessages(rank, neighbours, neighbours * (kEnvelope + numbers * kNumber));
  }

  const CurveOfField& field_;
  const CurvePieces& pieces_;
  const std::uint64_t ranks_;
  std::vector<RankTables> tables_;
  std::vector<std::uint64_t> own_;  ///< [bytes] of a rank's own patches
  std::vector<int> sorted_;
};

}  // namespace

std::vector<RankTables> CountTables(const CurveOfField& field, const distribution::CurvePieces& pieces,
                                    std::size_t files, distribution::AggregationStrategy strategy,
                                    int ranks) {
  TableCount count(field, pieces, ranks);
  count.Announce(count.Assign(files, strategy));
  return std::move(count).Finish();
}

RankTables MostOf(std::span<const RankTables> ranks) {
  RankTables most;
  for (const RankTables& rank : ranks) {
    most.bytes = std::max(most.bytes, rank.bytes);
    most.messages = std::max(most.messages, rank.messages);
    most.message_bytes = std::max(most.message_bytes, rank.message_bytes);
  }
  return most;
}

}  // namespace quarry::model
