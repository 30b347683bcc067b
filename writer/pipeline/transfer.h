#pragma once

#include <mpi.h>

#include <map>
#include <vector>

#include "writer/distribution/aggregation.h"
#include "writer/distribution/placement.h"
#include "writer/pipeline/subfile_writer.h"

namespace quarry::writer {

/// A subfile that this rank writes: its number, and where its patches begin and end among those received.
struct FileContents {
  std::size_t number = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// What an aggregator has received.
struct ReceivedPatches {
  std::vector<FileContents> files;
  std::vector<PackedPatch> patches;  ///< file after file, in Morton order
};

/// Moves packed patches from the ranks that encoded them to those that write them.
///
/// @param morton_order  all patch indices of the grid
/// @param placement     which rank has which patch
/// @param packed_size   bytes of each patch, by patch index; the same on every rank
/// @param mine          patches of this rank, by patch index
/// @collective over `comm`
/// @source Fan et al., section IV.B
ReceivedPatches TransferPatches(MPI_Comm comm, const std::vector<std::int64_t>& morton_order,
                                const distribution::Placement& placement,
                                const std::vector<std::uint64_t>& packed_size,
                                const distribution::Assignment& assignment,
                                std::map<std::int64_t, PackedPatch> mine);

}  // namespace quarry::writer
