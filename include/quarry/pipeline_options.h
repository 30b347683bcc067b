#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "quarry/redistribute.h"
#include "quarry/strategies.h"

/// Options of the writing pipeline, and its times.
namespace quarry::writer {

/// How many parts of patches travel in one message between two ranks: 1 is one message for each part, 0 a
/// single message for all of them.
using ExchangeBatch = redistribute::Batch;
inline constexpr ExchangeBatch kExchangePerPatch = redistribute::kOnePerPart;
inline constexpr ExchangeBatch kExchangePerRank = redistribute::kOnePerRankPair;

/// Names, in the caller's language, of the ways out of a refused range.
struct RangeWords {
  const char* fill = "--fill ";  ///< before the value
  const char* tolerance = "--tolerance";
  const char* accept = "--accept-range";
};

/// How the pipeline works. None of this changes the bytes written; only `files` cuts them differently.
struct PipelineOptions {
  std::optional<int> files;  ///< subfiles per field and step; default: one for every 8 ranks
  distribution::PlacementStrategy placement = distribution::PlacementStrategy::kBalanced;
  distribution::AggregationStrategy aggregation = distribution::AggregationStrategy::kBalanced;
  ExchangeBatch exchange = kExchangePerPatch;
  /// Bytes of samples, encoded patches and tables of subfiles that a rank holds at a time; a larger field is
  /// processed in parts. Unset: no limit, one part.
  std::optional<std::uint64_t> memory_per_rank;
  /// Takes tolerances relative to a range that few outlying samples make.
  bool accept_range = false;
  RangeWords range_words;
  bool progress = false;    ///< a progress bar on rank 0
  bool break_lock = false;  ///< removes the owner file of a writer that has ended
  bool allow_http = false;  ///< a store may be spoken to without TLS, beyond this machine
};

/// Whether a dataset that is opened for writing exists.
enum class OpenMode {
  kCreate,  ///< the dataset must not exist
  kAppend,  ///< it must
  kResume,  ///< either
};

/// Phases of the pipeline, in order. The seconds are those of the thread that reads, exchanges and writes,
/// which together are the whole run. Others encode at the same time: kEncode is how long it waits for them.
enum class Phase { kRead, kExchange, kEncode, kAssign, kTransfer, kWrite };
inline constexpr std::array kPhaseNames = {"read", "exchange", "encode", "assign", "transfer", "write"};
inline constexpr std::size_t kPhases = kPhaseNames.size();

/// Seconds that a rank has spent in each phase.
using PhaseSeconds = std::array<double, kPhases>;

}  // namespace quarry::writer
