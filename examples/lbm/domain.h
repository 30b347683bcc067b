// How the grid is cut over the ranks, and the exchange of the cells between
// neighbouring blocks.

#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

#include "lattice.h"

namespace lbm {

/// One rank's block of the global grid.
///
/// Fields on a block are stored x fastest, z slowest, with one layer of halo
/// cells on all sides. Padded coordinates count from the halo: 0 is the lower
/// halo layer, 1..n are the block's own cells, n + 1 is the upper halo layer.
///
/// The domain is periodic across the flow (y and z) and open along it (x).
class Domain {
 public:
  /// Collective over `world`. Where the grid is too small to be cut into one
  /// block per rank, the highest ranks get none (see active()).
  Domain(MPI_Comm world, const Int3& global_cells);
  ~Domain();

  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  /// Whether this rank owns a block. Nothing below may be called without one.
  bool active() const { return comm_ != MPI_COMM_NULL; }

  /// The ranks that own a block; world rank 0 is rank 0 here too.
  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }

  /// Number of blocks, global number of cells, and this block's number of
  /// cells and global position of its first cell, each along x, y and z.
  const Int3& blocks() const { return blocks_; }
  const Int3& global_cells() const { return global_cells_; }
  const Int3& cells() const { return cells_; }
  const Int3& offset() const { return offset_; }

  /// Number of values in a padded field.
  std::size_t padded_size() const;

  /// Distance in a padded field between neighbours along x, y and z is 1,
  /// stride_y() and stride_z().
  std::ptrdiff_t stride_y() const { return cells_[0] + 2; }
  std::ptrdiff_t stride_z() const { return stride_y() * (cells_[1] + 2); }

  /// Position of padded coordinates in a padded field.
  std::ptrdiff_t Index(int x, int y, int z) const { return x + y * stride_y() + z * stride_z(); }

  bool AtInflow() const { return offset_[0] == 0; }
  bool AtOutflow() const { return offset_[0] + cells_[0] == global_cells_[0]; }

  /// Moves one layer of cells of each of `fields` (padded) between blocks: the
  /// outermost own layer on the side `direction` (-1 or +1) of `axis` goes into
  /// the neighbour's halo there, and this block's opposite halo is filled. The
  /// halos at the open ends keep their values. Collective over comm().
  ///
  /// A layer includes the halo cells of the axes below `axis`, so exchanging x,
  /// y and z in this order also fills the edges and corners of the halo.
  void ShiftLayer(std::span<float* const> fields, int axis, int direction);

 private:
  /// A box of padded coordinates, `end` excluded.
  struct Box {
    Int3 begin;
    Int3 end;
  };

  Box Layer(int axis, int position) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  Int3 blocks_{};
  Int3 global_cells_{};
  Int3 cells_{};
  Int3 offset_{};
  std::vector<float> send_buffer_;
  std::vector<float> receive_buffer_;
};

/// Calls `action(x, y, z)` with the padded coordinates of every own cell of the
/// domain's block, x fastest.
template <typename Action>
void ForEachOwnCell(const Domain& domain, Action&& action) {
  for (int z = 1; z <= domain.cells()[2]; ++z) {
    for (int y = 1; y <= domain.cells()[1]; ++y) {
      for (int x = 1; x <= domain.cells()[0]; ++x) action(x, y, z);
    }
  }
}

}  // namespace lbm
