#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

/// Numbers of patches, like their stored bytes, on their way from the ranks that encode patches to ranks that
/// decide about runs of the curve. Pure functions, as in placement.h.
namespace quarry::distribution {

/// A number of a patch.
struct PatchNumber {
  static constexpr std::size_t kEncodedSize = 16;

  std::uint64_t curve_position = 0;  ///< or another number of the patch, if all who use it agree
  std::uint64_t number = 0;
};

/// Numbers of patches of one group, a piece of the curve or a file: the group, then the numbers.
struct NumberLetter {
  static constexpr std::size_t kPrefix = sizeof(std::uint64_t);
  /// A longer one is sent in several.
  static constexpr std::size_t kMostBytes = 8 << 20;

  /// Letters for so many numbers of one group.
  static constexpr std::uint64_t LettersFor(std::uint64_t numbers) {
    constexpr std::uint64_t kFull =
        (kMostBytes - kPrefix + PatchNumber::kEncodedSize - 1) / PatchNumber::kEncodedSize;
    return (numbers + kFull - 1) / kFull;
  }

  int peer = 0;  ///< rank that it goes to or comes from
  Bytes bytes;

  std::uint64_t group() const { return GetLittleEndian<std::uint64_t>(bytes.data()); }
  std::size_t count() const { return (bytes.size() - kPrefix) / PatchNumber::kEncodedSize; }
  PatchNumber at(std::size_t i) const {
    const std::byte* const entry = bytes.data() + kPrefix + i * PatchNumber::kEncodedSize;
    return {GetLittleEndian<std::uint64_t>(entry),
            GetLittleEndian<std::uint64_t>(entry + sizeof(std::uint64_t))};
  }
};

/// Memory that a patch takes on the rank that has encoded it, beside its row and payload.
inline constexpr std::uint64_t kBytesOfOwnPatch = 24;

/// Adds a number to the last letter, or to a new one if that is for another rank or group, or full.
inline void AddNumber(int peer, std::uint64_t group, const PatchNumber& entry,
                      std::vector<NumberLetter>* letters) {
  const bool first = letters->empty() || letters->back().peer != peer || letters->back().group() != group ||
                     letters->back().bytes.size() >= NumberLetter::kMostBytes;
  if (first) {
    letters->push_back({peer, {}});
    PutLittleEndian(&letters->back().bytes, group);
  }
  PutLittleEndian(&letters->back().bytes, entry.curve_position);
  PutLittleEndian(&letters->back().bytes, entry.number);
}

/// The letters of a rank about its patches, which are in the order of the curve.
/// @param patches      number of its patches
/// @param position_of  curve position of the i-th
/// @param number_of    Result of its number
/// @param group_of     of a curve position; ascends with it
/// @param rank_of      of a group
template <typename PositionOf, typename NumberOf, typename GroupOf, typename RankOf>
Result<std::vector<NumberLetter>> WriteNumbers(std::size_t patches, PositionOf position_of,
                                               NumberOf number_of, GroupOf group_of, RankOf rank_of) {
  std::vector<NumberLetter> letters;
  for (std::size_t i = 0; i < patches; ++i) {
    const std::uint64_t position = position_of(i);
    const std::uint64_t group = group_of(position);
    QUARRY_ASSIGN_OR_RETURN(const std::uint64_t number, number_of(i));
    AddNumber(rank_of(group), group, {position, number}, &letters);
  }
  return letters;
}

/// The numbers of the curve positions [begin, end), in order.
/// @errors kInternal: one is missing, or not one of them
Result<std::vector<std::uint64_t>> NumbersInOrder(const std::vector<NumberLetter>& letters,
                                                  std::uint64_t begin, std::uint64_t end);

}  // namespace quarry::distribution
