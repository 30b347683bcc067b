#include "writer/redistribute/mapping.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>

#include "quarry/base/checked_math.h"
#include "writer/distribution/box_index.h"

namespace quarry::redistribute {
namespace {

using distribution::BoxIndex;

/// The boxes of one rank, or of all.
BoxIndex IndexOf(const Ownership& boxes, int first_rank, int last_rank) {
  std::vector<BoxIndex::Entry> entries;
  for (int rank = first_rank; rank < last_rank; ++rank) {
    const std::vector<Box>& own = boxes[static_cast<std::size_t>(rank)];
    for (std::size_t b = 0; b < own.size(); ++b) entries.push_back({own[b], rank, b});
  }
  return BoxIndex(std::move(entries));
}

template <typename Visit>
void ForEachBox(const Ownership& boxes, Visit visit) {
  for (std::size_t rank = 0; rank < boxes.size(); ++rank) {
    for (std::size_t b = 0; b < boxes[rank].size(); ++b) visit(static_cast<int>(rank), b, boxes[rank][b]);
  }
}

Status CheckInside(const Index3& dims, const std::vector<Box>& boxes, int rank, const char* verb) {
  const Box domain{{0, 0, 0}, dims};
  for (std::size_t b = 0; b < boxes.size(); ++b) {
    if (boxes[b].empty() || domain.Contains(boxes[b])) continue;
    return InvalidArgument(
        "rank {} {} {} (its box {}), which is not inside the domain of {} samples; correct its size or "
        "offset",
        rank, verb, ToString(boxes[b]), b, ToString(dims));
  }
  return Status::Ok();
}

Status CheckInside(const Layout& layout, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  QUARRY_RETURN_IF_ERROR(CheckInside(layout.dims, layout.owned[r], rank, "owns"));
  return CheckInside(layout.dims, layout.needed[r], rank, "needs");
}

Status OverlapError(BoxIndex::Entry a, BoxIndex::Entry b) {
  if (std::tie(b.rank, b.number) < std::tie(a.rank, a.number)) std::swap(a, b);
  const bool same = a.rank == b.rank;
  const std::string who =
      same ? fmt::format("rank {} owns", a.rank) : fmt::format("ranks {} and {} both own", a.rank, b.rank);
  return InvalidArgument(
      "{} {}{}: box {} of rank {} is {}, box {} of rank {} is {}; owned boxes must not overlap", who,
      ToString(Intersect(a.box, b.box)), same ? " twice" : "", a.number, a.rank, ToString(a.box), b.number,
      b.rank, ToString(b.box));
}

/// Whether boxes of ranks [first, last) overlap any other box.
Status CheckDisjoint(const Ownership& owned, int first, int last) {
  const BoxIndex index = IndexOf(owned, first, last);
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    for (std::size_t b = 0; b < owned[rank].size(); ++b) {
      const BoxIndex::Entry self{owned[rank][b], static_cast<int>(rank), b};
      std::optional<BoxIndex::Entry> other;
      index.ForEachMeeting(self.box, [&](const BoxIndex::Entry& entry) {
        if (entry.rank == self.rank && entry.number == self.number) return;
        if (!other || std::tie(entry.rank, entry.number) < std::tie(other->rank, other->number))
          other = entry;
      });
      if (other) return OverlapError(self, *other);
    }
  }
  return Status::Ok();
}

std::int64_t VolumeInside(const std::vector<Box>& boxes, const Box& cell) {
  std::int64_t volume = 0;
  for (const Box& box : boxes) volume += Intersect(box, cell).volume();
  return volume;
}

/// Cuts `cell` at a face of one of the boxes that meet it: the median face, on the axis with the most.
std::array<Box, 2> Halve(const Box& cell, const std::vector<Box>& boxes) {
  std::array<std::vector<std::int64_t>, 3> faces;
  for (const Box& box : boxes) {
    for (std::size_t a = 0; a < 3; ++a) {
      for (const std::int64_t face : {box.begin[a], box.end[a]}) {
        if (cell.begin[a] < face && face < cell.end[a]) faces[a].push_back(face);
      }
    }
  }
  std::size_t axis = 0;
  for (std::size_t a = 1; a < 3; ++a) {
    if (faces[a].size() > faces[axis].size()) axis = a;
  }
  const auto median = faces[axis].begin() + static_cast<std::ptrdiff_t>(faces[axis].size() / 2);
  std::nth_element(faces[axis].begin(), median, faces[axis].end());
  std::array<Box, 2> halves = {cell, cell};
  halves[0].end[axis] = *median;
  halves[1].begin[axis] = *median;
  return halves;
}

/// Extends a box without samples of `boxes` as far as they allow, so that it is the hole, not a piece of it.
Box Grow(Box hole, const std::vector<Box>& boxes, const Box& domain) {
  for (std::size_t a = 0; a < 3; ++a) {
    Box reach = hole;
    reach.begin[a] = domain.begin[a];
    reach.end[a] = domain.end[a];
    Box grown = reach;
    for (const Box& box : boxes) {
      if (Intersect(box, reach).empty()) continue;
      if (box.end[a] <= hole.begin[a]) grown.begin[a] = std::max(grown.begin[a], box.end[a]);
      if (box.begin[a] >= hole.end[a]) grown.end[a] = std::min(grown.end[a], box.begin[a]);
    }
    hole = grown;
  }
  return hole;
}

/// A box that the disjoint `boxes` leave free; they do not fill `domain`.
Box FindHole(const Box& domain, const std::vector<Box>& boxes) {
  Box cell = domain;
  std::vector<Box> near = boxes;
  while (!near.empty()) {
    // Disjoint boxes that do not fill the cell have a face inside it, and do not fill one of the halves.
    const auto [low, high] = Halve(cell, near);
    cell = VolumeInside(near, low) < low.volume() ? low : high;
    std::erase_if(near, [&](const Box& box) { return Intersect(box, cell).empty(); });
  }
  return Grow(cell, boxes, domain);
}

auto OrderAtSource(const Part& part) { return std::tie(part.target, part.owned_box, part.needed_box); }
auto OrderAtTarget(const Part& part) { return std::tie(part.source, part.owned_box, part.needed_box); }

}  // namespace

Status CheckDomain(const Index3& dims, std::size_t sample_bytes) {
  if (sample_bytes < 1) return InvalidArgument("a sample has 0 bytes; give the size of one element");
  bool fits = sample_bytes <= static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  auto bytes = static_cast<std::int64_t>(fits ? sample_bytes : 1);
  for (const std::int64_t extent : dims) {
    if (extent < 1)
      return InvalidArgument("the domain has {} samples; every axis needs at least 1", ToString(dims));
    fits = fits && CheckedMultiply(bytes, extent, &bytes);
  }
  if (fits) return Status::Ok();
  return InvalidArgument("a domain of {} samples of {} bytes has 2^63 bytes or more; cut it into parts",
                         ToString(dims), sample_bytes);
}

Status CheckBoxesOfRank(const Layout& layout, int rank) {
  QUARRY_RETURN_IF_ERROR(CheckInside(layout, rank));
  return CheckDisjoint(layout.owned, rank, rank + 1);
}

Status CheckComplete(const Layout& layout) {
  std::int64_t owned = 0;
  ForEachBox(layout.owned, [&](int, std::size_t, const Box& box) { owned += box.volume(); });
  if (owned == Volume(layout.dims)) return Status::Ok();
  std::vector<Box> boxes;
  ForEachBox(layout.owned, [&](int, std::size_t, const Box& box) {
    if (!box.empty()) boxes.push_back(box);
  });
  const Box hole = FindHole({{0, 0, 0}, layout.dims}, boxes);
  return InvalidArgument(
      "none of {} ranks owns {} of the domain of {} samples; the owned boxes must cover all of it",
      layout.owned.size(), ToString(hole), ToString(layout.dims));
}

Status CheckLayout(const Layout& layout) {
  QUARRY_RETURN_IF_ERROR(CheckDomain(layout.dims, 1));
  if (layout.owned.size() != layout.needed.size())
    return InvalidArgument("owned boxes of {} ranks and needed boxes of {}; give both for every rank",
                           layout.owned.size(), layout.needed.size());
  const auto ranks = static_cast<int>(layout.owned.size());
  for (int rank = 0; rank < ranks; ++rank) QUARRY_RETURN_IF_ERROR(CheckInside(layout, rank));
  QUARRY_RETURN_IF_ERROR(CheckDisjoint(layout.owned, 0, ranks));
  return CheckComplete(layout);
}

std::size_t CountRounds(const Ownership& owned) {
  std::size_t rounds = 0;
  ForEachBox(owned, [&](int, std::size_t number, const Box& box) {
    if (!box.empty()) rounds = std::max(rounds, number + 1);
  });
  return rounds;
}

void ForEachPart(const Layout& layout, const std::function<void(const Part&)>& visit) {
  const BoxIndex needed = IndexOf(layout.needed, 0, static_cast<int>(layout.needed.size()));
  const std::size_t rounds = CountRounds(layout.owned);
  std::vector<Part> parts;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t source = 0; source < layout.owned.size(); ++source) {
      if (round >= layout.owned[source].size()) continue;
      const Box& box = layout.owned[source][round];
      parts.clear();
      needed.ForEachMeeting(box, [&](const BoxIndex::Entry& entry) {
        parts.push_back(
            {static_cast<int>(source), entry.rank, round, entry.number, Intersect(box, entry.box)});
      });
      std::sort(parts.begin(), parts.end(),
                [](const Part& a, const Part& b) { return OrderAtSource(a) < OrderAtSource(b); });
      for (const Part& part : parts) visit(part);
    }
  }
}

void SortParts(RankSchedule* schedule) {
  const auto at_source = [](const Part& a, const Part& b) { return OrderAtSource(a) < OrderAtSource(b); };
  std::sort(schedule->sends.begin(), schedule->sends.end(), at_source);
  std::sort(schedule->copies.begin(), schedule->copies.end(), at_source);
  std::sort(schedule->receives.begin(), schedule->receives.end(),
            [](const Part& a, const Part& b) { return OrderAtTarget(a) < OrderAtTarget(b); });
}

RankSchedule ScheduleForRank(const Layout& layout, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  RankSchedule schedule{rank, CountRounds(layout.owned), layout.owned[r], layout.needed[r], {}, {}, {}};
  // Indexes the few boxes of this rank and looks up the many of all others: nothing that does not concern
  // this rank is sorted.
  const BoxIndex owned = IndexOf(layout.owned, rank, rank + 1);
  ForEachBox(layout.needed, [&](int target, std::size_t number, const Box& box) {
    std::vector<Part>& parts = target == rank ? schedule.copies : schedule.sends;
    owned.ForEachMeeting(box, [&](const BoxIndex::Entry& entry) {
      parts.push_back({rank, target, entry.number, number, Intersect(box, entry.box)});
    });
  });
  const BoxIndex needed = IndexOf(layout.needed, rank, rank + 1);
  ForEachBox(layout.owned, [&](int source, std::size_t number, const Box& box) {
    if (source == rank) return;
    needed.ForEachMeeting(box, [&](const BoxIndex::Entry& entry) {
      schedule.receives.push_back({source, rank, number, entry.number, Intersect(box, entry.box)});
    });
  });
  SortParts(&schedule);
  return schedule;
}

}  // namespace quarry::redistribute
