#include "quarry/index/piece_plan.h"

#include <algorithm>

namespace quarry::index {
namespace {

// A file of LMDB has six pages before records fill any, whatever is in them. Where there is less than a page
// more, another file would cost as much as all of it.
constexpr double kEmptyFile = 24 << 10;
constexpr double kHardlyAnything = 4 << 10;

double WeightOf(std::uint64_t bytes) { return std::max(0.0, static_cast<double>(bytes) - kEmptyFile); }

struct Group {
  PlannedPiece piece;
  double weight = 0;  ///< [bytes] of records, an estimate

  std::size_t steps() const { return piece.end - piece.begin; }
};

class Planner {
 public:
  Planner(std::span<const std::size_t> sources, std::span<const PieceSize> pieces)
      : sources_(sources), pieces_(pieces), used_(pieces.size()) {
    double all = 0;
    double steps = 0;
    std::uint64_t bytes = 0;
    for (const PieceSize& piece : pieces) {
      all += WeightOf(piece.bytes);
      steps += static_cast<double>(piece.steps);
      bytes += piece.bytes;
    }
    mean_ = steps > 0 ? all / steps : 0;
    most_ = static_cast<double>(MostPieceBytes(bytes));
    for (const std::size_t source : sources)
      if (source != kTables) ++used_[source];
  }

  std::vector<PlannedPiece> Plan() {
    for (std::size_t begin = 0; begin < sources_.size();) {
      std::size_t end = begin;
      while (end < sources_.size() && sources_[end] == sources_[begin]) ++end;
      Add(RunOf(begin, end));
      begin = end;
    }
    while (groups_.size() > kMostPieces) JoinLightest();
    std::vector<PlannedPiece> planned;
    for (const Group& group : groups_) planned.push_back(group.piece);
    return planned;
  }

 private:
  /// A run of steps with one source.
  Group RunOf(std::size_t begin, std::size_t end) const {
    const std::size_t source = sources_[begin];
    const auto count = static_cast<double>(end - begin);
    if (source == kTables) return {{begin, end, true}, count * mean_};
    const PieceSize& piece = pieces_[source];
    const bool is_waste = 2 * used_[source] < piece.steps;
    const auto steps = static_cast<double>(std::max<std::uint64_t>(piece.steps, 1));
    return {{begin, end, is_waste}, WeightOf(piece.bytes) * count / steps};
  }

  /// Whether a neighbour is written again together with a group that is written.
  bool Takes(const Group& written, const Group& neighbour) const {
    const bool is_light = neighbour.weight <= kHardlyAnything || neighbour.steps() <= written.steps();
    return written.piece.written && is_light && neighbour.weight + written.weight <= most_;
  }

  void Add(const Group& group) {
    if (!groups_.empty() && Takes(groups_.back(), group)) {
      Join(groups_.size() - 1, group);
    } else {
      groups_.push_back(group);
    }
    while (groups_.size() > 1 && Takes(groups_.back(), groups_[groups_.size() - 2])) {
      const Group last = groups_.back();
      groups_.pop_back();
      Join(groups_.size() - 1, last);
    }
  }

  void Join(std::size_t place, const Group& following) {
    Group& group = groups_[place];
    group.piece.end = following.piece.end;
    group.piece.written = true;
    group.weight += following.weight;
  }

  void JoinLightest() {
    std::size_t lightest = 0;
    const auto pair = [this](std::size_t i) { return groups_[i].weight + groups_[i + 1].weight; };
    for (std::size_t i = 1; i + 1 < groups_.size(); ++i)
      if (pair(i) < pair(lightest)) lightest = i;
    const Group following = groups_[lightest + 1];
    groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(lightest) + 1);
    Join(lightest, following);
  }

  const std::span<const std::size_t> sources_;
  const std::span<const PieceSize> pieces_;
  std::vector<std::uint64_t> used_;  ///< steps of each piece that are still in the index
  double mean_ = 0;                  ///< weight of a step
  double most_ = 0;                  ///< weight of a merged piece
  std::vector<Group> groups_;
};

}  // namespace

std::uint64_t MostPieceBytes(std::uint64_t index_bytes) {
  constexpr std::uint64_t kLeastBound = 8 << 20;
  constexpr std::uint64_t kPart = 16;
  return std::max(kLeastBound, index_bytes / kPart);
}

std::vector<PlannedPiece> PlanPieces(std::span<const std::size_t> sources,
                                     std::span<const PieceSize> pieces) {
  return Planner(sources, pieces).Plan();
}

}  // namespace quarry::index
