#include "writer/distribution/curve_cut.h"

#include <algorithm>
#include <array>

#include "quarry/base/checked_math.h"

namespace quarry::distribution {
namespace {

/// Limits that are tried at a time where each try costs messages.
constexpr std::size_t kLimitsAtATime = 31;

struct Totals {
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;  ///< patch
};

Result<Totals> FindTotals(PieceLine* line) {
  std::array<std::uint64_t, 2> state{};
  QUARRY_RETURN_IF_ERROR(line->Forward(state, [](const CurvePiece& piece, std::span<std::uint64_t> totals) {
    totals[0] += piece.total();
    totals[1] = std::max(totals[1], piece.largest());
  }));
  return Totals{state[0], state[1]};
}

/// Runs of at most limits[i] bytes that the curve needs.
Result<std::vector<std::uint64_t>> CountRuns(PieceLine* line, const std::vector<std::uint64_t>& limits) {
  std::vector<std::uint64_t> state(2 * limits.size(), 0);
  QUARRY_RETURN_IF_ERROR(line->Forward(state, [&](const CurvePiece& piece, std::span<std::uint64_t> numbers) {
    for (std::size_t i = 0; i < limits.size(); ++i) {
      GreedyRuns runs{numbers[2 * i], numbers[2 * i + 1]};
      piece.CountRuns(limits[i], &runs);
      numbers[2 * i] = runs.runs;
      numbers[2 * i + 1] = runs.bytes;
    }
  }));
  std::vector<std::uint64_t> needed;
  for (std::size_t i = 0; i < limits.size(); ++i) needed.push_back(state[2 * i]);
  return needed;
}

/// Numbers in [low, high), evenly spaced; all of them if they are few.
std::vector<std::uint64_t> EvenlySpaced(std::uint64_t low, std::uint64_t high, std::size_t most) {
  const std::uint64_t count = std::min<std::uint64_t>(most, high - low);
  const std::uint64_t step = (high - low) / (count + 1);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < count; ++i)
    numbers.push_back(count == high - low ? low + i : low + step * (i + 1));
  return numbers;
}

/// The smallest possible size of the largest of `files` runs, in bytes.
Result<std::uint64_t> SmallestLargestRun(PieceLine* line, const Totals& totals, std::size_t files) {
  const std::uint64_t mean = CeilDivide(totals.bytes, static_cast<std::uint64_t>(files));
  std::uint64_t low = std::max(mean, totals.largest);
  // A greedy run within mean + largest has more than the mean, unless it is the last: they are enough.
  std::uint64_t high = std::max(low, std::min(totals.bytes, mean + totals.largest));
  const std::size_t most = line->pieces() > 1 ? kLimitsAtATime : 1;
  while (low < high) {
    const std::vector<std::uint64_t> limits = EvenlySpaced(low, high, most);
    QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> needed, CountRuns(line, limits));
    std::size_t fits = 0;
    while (fits < limits.size() && needed[fits] > files) ++fits;
    if (fits < limits.size()) high = limits[fits];
    if (fits > 0) low = limits[fits - 1] + 1;
  }
  return low;
}

/// Where the longest suffix begins that fits k runs, for k from 0 to files - 1.
Result<std::vector<std::uint64_t>> FindStarts(PieceLine* line, std::uint64_t limit, std::uint64_t patches,
                                              std::size_t files) {
  std::vector<std::uint64_t> starts(files, 0);
  std::array<std::uint64_t, 2> state = {1, 0};
  QUARRY_RETURN_IF_ERROR(
      line->Backward(state, [&](const CurvePiece& piece, std::span<std::uint64_t> numbers) {
        BackwardRuns runs{numbers[0], numbers[1]};
        piece.FindStarts(limit, &runs, starts);
        numbers[0] = runs.found;
        numbers[1] = runs.bytes;
      }));
  QUARRY_RETURN_IF_ERROR(line->AddUp(starts));
  starts[0] = patches;
  return starts;
}

}  // namespace

Status LocalLine::Forward(std::span<std::uint64_t> state, const Step& step) {
  for (const CurvePiece& piece : pieces_) step(piece, state);
  return Status::Ok();
}

Status LocalLine::Backward(std::span<std::uint64_t> state, const Step& step) {
  for (std::size_t i = pieces_.size(); i-- > 0;) step(pieces_[i], state);
  return Status::Ok();
}

Result<Assignment> CutCurve(PieceLine* line, std::uint64_t patches, std::size_t files) {
  Assignment begin = {0, patches};
  if (files == 1) return begin;
  QUARRY_ASSIGN_OR_RETURN(const Totals totals, FindTotals(line));
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t limit, SmallestLargestRun(line, totals, files));
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> starts, FindStarts(line, limit, patches, files));
  std::vector<std::uint64_t> ends(files, 0);
  std::array<std::uint64_t, 4> state = {files, 0, 0, totals.bytes};
  QUARRY_RETURN_IF_ERROR(line->Forward(state, [&](const CurvePiece& piece, std::span<std::uint64_t> numbers) {
    CutScan scan{numbers[0], numbers[1], numbers[2], numbers[3]};
    piece.Cut(limit, patches, starts, &scan, ends);
    std::ranges::copy(std::array{scan.left, scan.begin, scan.bytes, scan.remaining}, numbers.begin());
  }));
  QUARRY_RETURN_IF_ERROR(line->AddUp(ends));
  ends.back() = patches;
  begin.assign(1, 0);
  begin.insert(begin.end(), ends.begin(), ends.end());
  return begin;
}

}  // namespace quarry::distribution
