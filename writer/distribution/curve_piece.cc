#include "writer/distribution/curve_piece.h"

#include <algorithm>

namespace quarry::distribution {

CurvePieces::CurvePieces(std::uint64_t patches, int ranks, std::uint64_t least_patches)
    : patches_(patches),
      ranks_(ranks),
      count_(std::clamp<std::uint64_t>(patches / least_patches, 1, static_cast<std::uint64_t>(ranks))) {}

CurvePiece::CurvePiece(std::uint64_t begin, std::span<const std::uint64_t> sizes) : begin_(begin) {
  sums_.reserve(sizes.size() + 1);
  sums_.push_back(0);
  for (const std::uint64_t size : sizes) {
    sums_.push_back(sums_.back() + size);
    largest_ = std::max(largest_, size);
  }
}

template <typename Stops>
std::uint64_t CurvePiece::FirstOf(std::uint64_t from, std::uint64_t to, Stops stops) {
  while (from < to) {
    const std::uint64_t middle = from + (to - from) / 2;
    if (stops(middle)) {
      to = middle;
    } else {
      from = middle + 1;
    }
  }
  return from;
}

void CurvePiece::CountRuns(std::uint64_t limit, GreedyRuns* runs) const {
  if (begin() == end()) return;
  if (runs->runs == 0) runs->runs = 1;
  for (std::uint64_t at = begin();;) {
    // The run takes patches up to the first that does not fit.
    const std::uint64_t room = limit - runs->bytes + Before(at);
    const std::uint64_t next = FirstOf(at, end(), [&](std::uint64_t p) { return Before(p + 1) > room; });
    runs->bytes += Before(next) - Before(at);
    if (next == end()) return;
    ++runs->runs;
    runs->bytes = 0;
    at = next;
  }
}

void CurvePiece::FindStarts(std::uint64_t limit, BackwardRuns* runs, std::span<std::uint64_t> starts) const {
  for (std::uint64_t at = end(); runs->found < starts.size();) {
    // The run begins at the first patch from which everything behind fits.
    const std::uint64_t first =
        FirstOf(begin(), at, [&](std::uint64_t p) { return runs->bytes + Before(at) - Before(p) <= limit; });
    runs->bytes += Before(at) - Before(first);
    if (first == begin()) break;
    starts[runs->found++] = first;
    runs->bytes = 0;
    at = first;
  }
  // With more runs than the curve needs, the suffix is all of it.
  if (begin() > 0) return;
  for (; runs->found < starts.size(); ++runs->found) starts[runs->found] = 0;
}

std::uint64_t CurvePiece::EndOfRun(std::uint64_t limit, std::span<const std::uint64_t> starts,
                                   const CutScan& scan, std::uint64_t last_end) const {
  const double average = static_cast<double>(scan.remaining) / static_cast<double>(scan.left);
  const std::uint64_t from = std::max(begin(), scan.begin);
  const auto bytes_up_to = [&](std::uint64_t p) { return scan.bytes + Before(p) - Before(from); };
  // The run has a patch, and leaves no more than fits the later runs.
  const std::uint64_t least = std::min(std::max(scan.begin + 1, starts[scan.left - 1]), last_end);
  return FirstOf(std::min(std::max(least, from), end()), std::min(last_end, end()), [&](std::uint64_t p) {
    const std::uint64_t sum = bytes_up_to(p);
    const std::uint64_t longer = bytes_up_to(p + 1);
    const bool nearer = static_cast<double>(longer) - average < average - static_cast<double>(sum);
    return longer > limit || !nearer;
  });
}

void CurvePiece::Cut(std::uint64_t limit, std::uint64_t patches, std::span<const std::uint64_t> starts,
                     CutScan* scan, std::span<std::uint64_t> ends) const {
  while (scan->left > 1 && std::max(begin(), scan->begin) < end()) {
    // A patch is left for every later run.
    const std::uint64_t last_end = patches - (scan->left - 1);
    const std::uint64_t from = std::max(begin(), scan->begin);
    const std::uint64_t next = EndOfRun(limit, starts, *scan, last_end);
    scan->bytes += Before(next) - Before(from);
    // At the end of the piece the next one decides, unless nothing is left to decide.
    if (next == end() && next < last_end) return;
    ends[ends.size() - scan->left] = next;
    --scan->left;
    scan->begin = next;
    scan->remaining -= scan->bytes;
    scan->bytes = 0;
  }
}

}  // namespace quarry::distribution
