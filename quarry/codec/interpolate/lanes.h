#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// Eight lanes, of which a set of some matters: tables by the set, a bit for each lane.
namespace quarry::interpolate {

using EightLanes = std::array<std::uint8_t, 8>;

constexpr std::array<EightLanes, 256> MakeRanks() {
  std::array<EightLanes, 256> ranks{};
  for (unsigned set = 0; set < 256; ++set) {
    std::uint8_t next = 0;
    for (unsigned lane = 0; lane < 8; ++lane) ranks[set][lane] = (set >> lane & 1) != 0 ? next++ : 0;
  }
  return ranks;
}

constexpr std::array<EightLanes, 256> MakeMembers() {
  std::array<EightLanes, 256> members{};
  for (unsigned set = 0; set < 256; ++set) {
    std::size_t next = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      if ((set >> lane & 1) != 0) members[set][next++] = static_cast<std::uint8_t>(lane);
    }
  }
  return members;
}

/// The how-manieth of its set each lane is, from 0; 0 for the others.
alignas(64) inline constexpr std::array<EightLanes, 256> kRankInSet = MakeRanks();
/// The lanes in the set, then zeros.
alignas(64) inline constexpr std::array<EightLanes, 256> kLanesOfSet = MakeMembers();

}  // namespace quarry::interpolate
