#pragma once

/// How work is divided among ranks, and bytes among subfiles.
/// @source Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts, section IV
namespace quarry::distribution {

/// Which rank encodes which patch.
enum class PlacementStrategy {
  kBalanced,  ///< every rank ends up with floor(M/N) or floor(M/N) + 1 of M patches on N ranks
  kGreedy,    ///< each patch goes to the rank that owns most of it
};

/// Which patch goes to which subfile.
enum class AggregationStrategy {
  kBalanced,  ///< subfiles of nearly equal bytes
  kEqual,     ///< subfiles of equally many patches
};

}  // namespace quarry::distribution
