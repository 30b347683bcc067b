#pragma once

#include <span>
#include <utility>
#include <vector>

#include "quarry/codec/entropy/named_tables.h"
#include "quarry/codec/entropy/rans.h"
#include "quarry/codec/interpolate/contexts.h"

namespace quarry::interpolate {

/// Which contexts share a table, and how many bits of their indices are stored beside the symbols.
struct TableChoice {
  ContextMap contexts;
  bool has_classes = false;               ///< contexts are classes; otherwise they are bins
  std::vector<std::uint8_t> shifts;       ///< one for every table
  std::vector<entropy::TableName> names;  ///< one for every table, or none: the tables are stored
  double bits = 0;                        ///< estimate of everything: symbols, low bits, tables
};

/// Chooses tables for indices with their contexts: named ones where these cost hardly more than stored ones.
/// @param indices at least one
/// @param has_classes  contexts are classes and bins, otherwise bins
TableChoice ChooseTables(std::span<const std::int32_t> indices, std::span<const std::uint8_t> contexts,
                         bool has_classes = false);

/// Runs of samples, each with its begin and end.
using SampleRuns = std::vector<std::pair<std::size_t, std::size_t>>;

/// Chooses the names of tables anew, for the samples of `runs` alone.
/// @param tables  of every sample
void ChooseNames(std::span<const std::int32_t> indices, std::span<const std::uint8_t> tables,
                 const SampleRuns& runs, TableChoice* choice);

/// The coded parts of an index.
struct Folded {
  std::uint32_t symbol;  ///< above kLargestSymbol: the index does not fit
  std::uint32_t low;     ///< `shift` bits
};

inline Folded Fold(std::int32_t index, int shift) {
  const std::int32_t shifted = index + ((1 << shift) >> 1);
  const std::int32_t high = shifted >> shift;
  return {static_cast<std::uint32_t>(high) << 1 ^ static_cast<std::uint32_t>(high >> 31),
          static_cast<std::uint32_t>(shifted) & ((1u << shift) - 1)};
}

}  // namespace quarry::interpolate
