#include "domain.h"

#include <algorithm>
#include <functional>

namespace lbm {
namespace {

constexpr Int3 kPeriodic = {0, 1, 1};

// Gives the longest axis the most blocks, which keeps the faces small. Between
// axes of equal length the slower one is cut first: long runs along x make for
// long vector loops.
Int3 AssignLongestFirst(Int3 counts, const Int3& cells) {
  std::sort(counts.begin(), counts.end(), std::greater<>());
  Int3 axes = {2, 1, 0};
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return cells[a] > cells[b]; });
  Int3 blocks;
  for (int i = 0; i < 3; ++i) blocks[axes[i]] = counts[i];
  return blocks;
}

bool Fits(const Int3& blocks, const Int3& cells) {
  return std::ranges::equal(blocks, cells, std::less_equal<>());
}

// The process grid of the largest number of ranks, up to `ranks`, that leaves
// no block empty. A large prime number of ranks, which MPI can only arrange in
// a line, may be longer than the longest axis.
Int3 ChooseBlocks(int ranks, const Int3& cells) {
  for (; ranks > 1; --ranks) {
    Int3 counts = {0, 0, cells[2] == 1 ? 1 : 0};  // 0: for MPI to choose
    MPI_Dims_create(ranks, 3, counts.data());
    const Int3 blocks = AssignLongestFirst(counts, cells);
    if (Fits(blocks, cells)) return blocks;
  }
  return {1, 1, 1};
}

// First cell of block `index` when `cells` are dealt evenly to `blocks`.
int FirstCell(int cells, int blocks, int index) {
  return cells / blocks * index + std::min(index, cells % blocks);
}

}  // namespace

Domain::Domain(MPI_Comm world, const Int3& global_cells) : global_cells_(global_cells) {
  int world_size = 0;
  MPI_Comm_size(world, &world_size);
  blocks_ = ChooseBlocks(world_size, global_cells);
  // Without reordering, world rank 0 stays the one that talks to the user.
  MPI_Cart_create(world, 3, blocks_.data(), kPeriodic.data(), /*reorder=*/0, &comm_);
  if (!active()) return;

  MPI_Comm_rank(comm_, &rank_);
  Int3 place;
  MPI_Cart_coords(comm_, rank_, 3, place.data());
  for (int axis = 0; axis < 3; ++axis) {
    const int cells = global_cells[axis];
    const int blocks = blocks_[axis];
    offset_[axis] = FirstCell(cells, blocks, place[axis]);
    cells_[axis] = FirstCell(cells, blocks, place[axis] + 1) - offset_[axis];
  }
}

Domain::~Domain() {
  if (active()) MPI_Comm_free(&comm_);
}

std::size_t Domain::padded_size() const { return static_cast<std::size_t>(stride_z()) * (cells_[2] + 2); }

Domain::Box Domain::Layer(int axis, int position) const {
  Box box;
  for (int other = 0; other < 3; ++other) {
    const bool has_halo = other < axis;
    box.begin[other] = has_halo ? 0 : 1;
    box.end[other] = cells_[other] + (has_halo ? 2 : 1);
  }
  box.begin[axis] = position;
  box.end[axis] = position + 1;
  return box;
}

void Domain::ShiftLayer(std::span<float* const> fields, int axis, int direction) {
  int source = MPI_PROC_NULL;
  int target = MPI_PROC_NULL;
  MPI_Cart_shift(comm_, axis, direction, &source, &target);

  const int last = cells_[axis];
  const Box send = Layer(axis, direction > 0 ? last : 1);
  const Box receive = Layer(axis, direction > 0 ? 0 : last + 1);

  const auto for_each_run = [&](const Box& box, auto&& action) {
    const std::ptrdiff_t length = box.end[0] - box.begin[0];
    for (float* field : fields) {
      for (int z = box.begin[2]; z < box.end[2]; ++z) {
        for (int y = box.begin[1]; y < box.end[1]; ++y) {
          action(field + Index(box.begin[0], y, z), length);
        }
      }
    }
  };

  send_buffer_.clear();
  for_each_run(send, [&](const float* run, std::ptrdiff_t length) {
    send_buffer_.insert(send_buffer_.end(), run, run + length);
  });
  receive_buffer_.resize(send_buffer_.size());

  const int count = static_cast<int>(send_buffer_.size());
  MPI_Sendrecv(send_buffer_.data(), count, MPI_FLOAT, target, axis, receive_buffer_.data(), count, MPI_FLOAT,
               source, axis, comm_, MPI_STATUS_IGNORE);
  if (source == MPI_PROC_NULL) return;

  const float* values = receive_buffer_.data();
  for_each_run(receive, [&](float* run, std::ptrdiff_t length) {
    std::copy_n(values, length, run);
    values += length;
  });
}

}  // namespace lbm
