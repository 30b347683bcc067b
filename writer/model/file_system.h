#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "writer/model/machine.h"

/// Seconds of writing a step to a parallel file system: names in a metadata service, bytes on storage targets
/// that files share by chance, nodes, and the stream of the busiest writer. Pure functions.
///
/// The form and its constants for one machine were fitted to nine numbers of Fan et al., Load-balancing
/// Parallel I/O of Compressed Hierarchical Layouts; benchmarks/reproduction/README.md says what that does and
/// does not show.
namespace quarry::model {

/// Files of a step, one writer each.
struct WrittenFiles {
  std::vector<std::uint64_t> bytes;  ///< size of each file
  std::vector<int> writers;          ///< rank of each file
};

/// Parts of the seconds; they add up.
struct WriteSeconds {
  double creates = 0;  ///< names, and what else a file costs
  double shared = 0;   ///< the fullest target, or the busiest node, whichever takes longer
  double stream = 0;   ///< time of the writer with the most bytes, after what is shared

  double total() const { return creates + shared + stream; }
};

/// @param files           at least one
/// @param ranks_per_node  at least 1
WriteSeconds SecondsOfFiles(const Machine& machine, const WrittenFiles& files, int ranks_per_node);

/// One file, which all ranks write together: one of them for each target, as MPI-IO arranges it, but at most
/// one a node. Writers of the same target take turns, as far as `shared_file_lock` says.
WriteSeconds SecondsOfSharedFile(const Machine& machine, std::uint64_t bytes, int nodes);

/// The expected largest of `n` standard normal numbers, by Blom's formula; 0 for one. Files fall on targets
/// at random: the fullest has so many standard deviations more than the mean.
/// @source Blom, Statistical Estimates and Transformed Beta-Variables (1958)
double LargestOfNormals(double n);

/// The number of files after which their names cost more than their streams save: with creates per second c,
/// bytes V, patches M and the machine's stream s and part p, sqrt(c (V / s + M p)). A first guess: it leaves
/// out what targets and nodes share.
/// @returns 0 where a file costs nothing, or files save nothing
double BestFiles(const Machine& machine, std::uint64_t bytes, std::int64_t patches);

}  // namespace quarry::model
