#include "writer/pipeline/assign.h"

#include <algorithm>
#include <optional>

#include "quarry/format/mask.h"
#include "writer/distribution/curve_cut.h"
#include "writer/distribution/patch_numbers.h"
#include "writer/pipeline/comm.h"
#include "writer/pipeline/mail.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::writer {
namespace {

using distribution::CurvePiece;
using distribution::CurvePieces;
using distribution::NumberLetter;

/// The piece of this rank, if it has one.
std::optional<std::size_t> PieceOfRank(const CurvePieces& pieces, int rank) {
  for (std::size_t p = 0; p < pieces.count() && pieces.RankOf(p) <= rank; ++p) {
    if (pieces.RankOf(p) == rank) return p;
  }
  return std::nullopt;
}

/// Sends a number of each patch of this rank, and returns those that arrive here.
/// @param number_of, group_of, rank_of  see distribution::WriteNumbers
template <typename NumberOf, typename GroupOf, typename RankOf>
Result<std::vector<NumberLetter>> SendNumbers(const RankSetting& ranks, const OutgoingPatches& own,
                                              NumberOf number_of, GroupOf group_of, RankOf rank_of) {
  QUARRY_ASSIGN_OR_RETURN(std::vector<NumberLetter> letters, OnEveryRank(ranks.comm, [&] {
                            return distribution::WriteNumbers(
                                own.size(), [&](std::size_t i) { return own.CurvePosition(i); }, number_of,
                                group_of, rank_of);
                          }));
  return ExchangeNumbers(ranks, std::move(letters));
}

/// A number of each patch of a grid, in pieces.
struct PieceOfNumbers {
  std::optional<std::size_t> piece;
  std::vector<std::uint64_t> numbers;  ///< in the order of the curve
};

template <typename NumberOf>
Result<PieceOfNumbers> ShareNumbers(const RankSetting& ranks, const CurvePieces& pieces,
                                    const OutgoingPatches& own, NumberOf number_of) {
  QUARRY_ASSIGN_OR_RETURN(
      const std::vector<NumberLetter> letters,
      SendNumbers(
          ranks, own, number_of, [&](std::uint64_t position) { return pieces.PieceOf(position); },
          [&](std::uint64_t piece) { return pieces.RankOf(piece); }));
  return OnEveryRank(ranks.comm, [&]() -> Result<PieceOfNumbers> {
    PieceOfNumbers mine;
    mine.piece = PieceOfRank(pieces, Rank(ranks.comm));
    if (!mine.piece) return mine;
    QUARRY_ASSIGN_OR_RETURN(mine.numbers, distribution::NumbersInOrder(letters, pieces.begin(*mine.piece),
                                                                       pieces.begin(*mine.piece + 1)));
    return mine;
  });
}

/// The pieces, each on its rank: state goes from rank to rank in messages.
class LineOfRanks final : public distribution::PieceLine {
 public:
  LineOfRanks(const RankSetting& ranks, const CurvePieces& pieces, const PieceOfNumbers& mine)
      : ranks_(ranks), pieces_(pieces), number_(mine.piece) {
    if (number_) piece_.emplace(pieces.begin(*number_), mine.numbers);
  }

  std::size_t pieces() const override { return pieces_.count(); }

  Status Forward(std::span<std::uint64_t> state, const Step& step) override {
    return Pass(state, step, [](std::size_t i) { return i; });
  }
  Status Backward(std::span<std::uint64_t> state, const Step& step) override {
    return Pass(state, step, [this](std::size_t i) { return pieces_.count() - 1 - i; });
  }

  Status AddUp(std::span<std::uint64_t> numbers) override {
    std::vector<std::uint64_t> sums;
    QUARRY_RETURN_IF_ERROR(OnEveryRank(ranks_.comm, [&] {
      sums.resize(numbers.size());
      return Status::Ok();
    }));
    const Status added =
        redistribute::MpiStatus(MPI_Allreduce(numbers.data(), sums.data(), static_cast<int>(numbers.size()),
                                              MPI_UINT64_T, MPI_SUM, ranks_.comm),
                                "MPI_Allreduce");
    QUARRY_RETURN_IF_ERROR(AgreeOnStatus(ranks_.comm, added));
    std::ranges::copy(sums, numbers.begin());
    return Status::Ok();
  }

 private:
  /// @param piece_at  the i-th piece on the way; its own inverse
  template <typename PieceAt>
  Status Pass(std::span<std::uint64_t> state, const Step& step, PieceAt piece_at) {
    const std::uint64_t number = ranks_.Next();
    Status status =
        Guarded([&]() -> Status { return number_ ? PassHere(state, step, number, piece_at) : Status::Ok(); });
    const int last = pieces_.RankOf(piece_at(pieces_.count() - 1));
    const Status told = redistribute::MpiStatus(
        MPI_Bcast(state.data(), static_cast<int>(state.size()), MPI_UINT64_T, last, ranks_.comm),
        "MPI_Bcast");
    if (status.ok()) status = told;
    return AgreeOnStatus(ranks_.comm, status);
  }

  template <typename PieceAt>
  Status PassHere(std::span<std::uint64_t> state, const Step& step, std::uint64_t number, PieceAt piece_at) {
    const std::size_t place = piece_at(*number_);
    Status status;
    bool whole = true;
    if (place > 0) {
      Mail mail(ranks_.comm, number);
      mail.Receive(pieces_.RankOf(piece_at(place - 1)));
      const Result<std::vector<Letter>> letters = mail.Wait();
      status = letters.status();
      whole = letters.ok() && TakeState(letters->front().message.head(), state);
    }
    if (whole) step(*piece_, state);
    if (place + 1 == pieces_.count()) return status;
    // After an error the others must not wait: they get a state of no bytes, and pass that on.
    Mail mail(ranks_.comm, number);
    mail.Send(Message::WithHead(whole ? std::as_bytes(state) : ByteSpan()),
              pieces_.RankOf(piece_at(place + 1)));
    const Status sent = mail.Wait().status();
    return status.ok() ? sent : status;
  }

  static bool TakeState(ByteSpan head, std::span<std::uint64_t> state) {
    if (head.size() != state.size_bytes()) return false;
    std::ranges::copy(head, std::as_writable_bytes(state).begin());
    return true;
  }

  const RankSetting& ranks_;
  const CurvePieces& pieces_;
  const std::optional<std::size_t> number_;
  std::optional<CurvePiece> piece_;
};

/// Digests of piece after piece come to rank 0.
Result<std::uint64_t> NameOnRoot(const RankSetting& ranks, const CurvePieces& pieces,
                                 const PieceOfNumbers& mine, std::uint64_t number, std::size_t grid) {
  format::MaskNaming naming;
  Status status;
  for (std::size_t p = 0; p < pieces.count(); ++p) {
    if (p == mine.piece) {
      naming.Add(mine.numbers);
      continue;
    }
    Mail mail(ranks.comm, number);
    mail.Receive(pieces.RankOf(p));
    const Result<std::vector<Letter>> letters = mail.Wait();
    if (status.ok()) status = letters.status();
    if (!letters.ok()) continue;
    const ByteSpan head = letters->front().message.head();
    std::vector<std::uint64_t> digests(head.size() / sizeof(std::uint64_t));
    std::ranges::copy(head, std::as_writable_bytes(std::span(digests)).begin());
    naming.Add(digests);
  }
  QUARRY_RETURN_IF_ERROR(status);
  return naming.Name(grid);
}

CurvePieces PiecesOf(const RankSetting& ranks, const OutgoingPatches& own) {
  return {static_cast<std::uint64_t>(own.grid().patch_count()), Size(ranks.comm)};
}

}  // namespace

Result<std::vector<NumberLetter>> ExchangeNumbers(const RankSetting& ranks,
                                                  std::vector<NumberLetter> letters) {
  std::vector<Letter> sent;
  QUARRY_RETURN_IF_ERROR(OnEveryRank(ranks.comm, [&] {
    for (NumberLetter& letter : letters) {
      sent.push_back({letter.peer, Message::WithHead(letter.bytes)});
      letter.bytes = {};
    }
    return Status::Ok();
  }));
  QUARRY_ASSIGN_OR_RETURN(std::vector<Letter> arrived,
                          ExchangeLetters(ranks.comm, ranks.Next(), std::move(sent)));
  return OnEveryRank(ranks.comm, [&] {
    std::vector<NumberLetter> received;
    for (Letter& letter : arrived) {
      const ByteSpan head = letter.message.head();
      received.push_back({letter.peer, Bytes(head.begin(), head.end())});
      letter.message = Message();
    }
    return Result<std::vector<NumberLetter>>(std::move(received));
  });
}

Result<distribution::Assignment> AssignOverRanks(const RankSetting& ranks, const OutgoingPatches& own,
                                                 std::size_t files,
                                                 distribution::AggregationStrategy strategy) {
  const CurvePieces pieces = PiecesOf(ranks, own);
  // Neither needs sizes.
  if (strategy == distribution::AggregationStrategy::kEqual || files == 1)
    return distribution::AssignEqual(pieces.patches(), files);
  QUARRY_ASSIGN_OR_RETURN(const PieceOfNumbers mine,
                          ShareNumbers(ranks, pieces, own, [&](std::size_t i) { return own.Stored(i); }));
  std::optional<LineOfRanks> line;
  QUARRY_RETURN_IF_ERROR(OnEveryRank(ranks.comm, [&] {
    line.emplace(ranks, pieces, mine);
    return Status::Ok();
  }));
  return distribution::CutCurve(&*line, pieces.patches(), files);
}

Result<std::uint64_t> NameMaskOverRanks(const RankSetting& ranks, const OutgoingPatches& masks,
                                        std::size_t grid) {
  const CurvePieces pieces = PiecesOf(ranks, masks);
  const auto digest_of = [&](std::size_t i) -> Result<std::uint64_t> {
    QUARRY_ASSIGN_OR_RETURN(const format::PatchEntry row, masks.Row(i));
    return format::MaskDigest(row);
  };
  QUARRY_ASSIGN_OR_RETURN(const PieceOfNumbers mine, ShareNumbers(ranks, pieces, masks, digest_of));
  const std::uint64_t number = ranks.Next();
  std::uint64_t name = 0;
  Status status = Guarded([&]() -> Status {
    if (Rank(ranks.comm) == 0) {
      QUARRY_ASSIGN_OR_RETURN(name, NameOnRoot(ranks, pieces, mine, number, grid));
      return Status::Ok();
    }
    if (!mine.piece) return Status::Ok();
    Mail mail(ranks.comm, number);
    mail.Send(Message::WithHead(std::as_bytes(std::span(mine.numbers))), 0);
    return mail.Wait().status();
  });
  const Status told = redistribute::MpiStatus(MPI_Bcast(&name, 1, MPI_UINT64_T, 0, ranks.comm), "MPI_Bcast");
  if (status.ok()) status = told;
  QUARRY_RETURN_IF_ERROR(AgreeOnStatus(ranks.comm, status));
  return name;
}

Result<std::vector<std::uint64_t>> GatherStoredBytes(const RankSetting& ranks, const OutgoingPatches& own) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<NumberLetter> letters,
                          SendNumbers(
                              ranks, own, [&](std::size_t i) { return own.Stored(i); },
                              [](std::uint64_t) { return 0; }, [](std::uint64_t) { return 0; }));
  return OnEveryRank(ranks.comm, [&]() -> Result<std::vector<std::uint64_t>> {
    std::vector<std::uint64_t> sizes;
    if (Rank(ranks.comm) != 0) return sizes;
    const PatchGrid& grid = own.grid();
    const auto patches = static_cast<std::uint64_t>(grid.patch_count());
    QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> in_order,
                            distribution::NumbersInOrder(letters, 0, patches));
    sizes.resize(patches);
    for (std::uint64_t p = 0; p < patches; ++p)
      sizes[static_cast<std::size_t>(grid.PatchAtCurvePosition(static_cast<std::int64_t>(p)))] = in_order[p];
    return sizes;
  });
}

}  // namespace quarry::writer
