// Redistribution over real ranks: random mappings between arrays of any layout, with samples that encode
// their own position; errors that all ranks must report.
#include "quarry/redistribute.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <string>

#include "writer/redistribute/datatype.h"
#include "writer/redistribute/schedules.h"

namespace quarry::redistribute {
namespace {

int RankOf(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int SizeOf(MPI_Comm comm) {
  int size = 1;
  MPI_Comm_size(comm, &size);
  return size;
}

using Random = std::mt19937;  // the same numbers on every rank

std::int64_t Below(Random* random, std::int64_t end) { return static_cast<std::int64_t>((*random)()) % end; }

/// A byte of the sample at a position in a step; any mistake in position, step or byte changes it.
std::byte ByteOf(const Index3& dims, const Index3& position, int step, std::size_t byte) {
  const auto at = static_cast<std::uint64_t>(position[0] + dims[0] * (position[1] + dims[1] * position[2]));
  const std::uint64_t hash = (at * 31 + static_cast<std::uint64_t>(step) * 7 + byte) * 0x9E3779B97F4A7C15u;
  return static_cast<std::byte>(hash >> 56);
}

/// Memory around a box: axes in any order and direction, ghost samples on all sides, gaps between samples.
class Array {
 public:
  Array(const Box& box, std::size_t sample_bytes, Random* random) : box_(box), sample_bytes_(sample_bytes) {
    std::array<std::size_t, 3> order = {0, 1, 2};
    std::shuffle(order.begin(), order.end(), *random);
    auto stride = static_cast<std::int64_t>(sample_bytes);
    if (Below(random, 3) == 0) stride += static_cast<std::int64_t>(sample_bytes);
    std::int64_t first = 0;
    const bool dense = Below(random, 3) == 0;
    for (const std::size_t axis : order) {
      const std::int64_t before = dense ? 0 : Below(random, 3);
      const std::int64_t after = dense ? 0 : Below(random, 3);
      const std::int64_t extent = box.shape()[axis];
      const bool backwards = Below(random, 8) == 0;
      stride_[axis] = backwards ? -stride : stride;
      first += (backwards ? before + std::max<std::int64_t>(extent, 1) - 1 : before) * stride;
      stride *= before + extent + after;
    }
    first_ = static_cast<std::size_t>(first);
    bytes_.assign(static_cast<std::size_t>(stride) + sample_bytes, kUntouched);
    if (box.empty()) bytes_.clear();
  }

  /// Puts in the samples of a step, and fills all other memory with the mark of untouched memory.
  void Fill(const Index3& dims, int step) {
    std::fill(bytes_.begin(), bytes_.end(), kUntouched);
    for (auto z = box_.begin[2]; z < box_.end[2]; ++z) {
      for (auto y = box_.begin[1]; y < box_.end[1]; ++y) {
        for (auto x = box_.begin[0]; x < box_.end[0]; ++x) {
          const std::size_t at = first_ + static_cast<std::size_t>((x - box_.begin[0]) * stride_[0] +
                                                                   (y - box_.begin[1]) * stride_[1] +
                                                                   (z - box_.begin[2]) * stride_[2]);
          for (std::size_t b = 0; b < sample_bytes_; ++b) bytes_[at + b] = ByteOf(dims, {x, y, z}, step, b);
        }
      }
    }
  }

  BoxView View() const { return {box_.empty() ? nullptr : bytes_.data() + first_, stride_}; }
  MutableBoxView MutableView() { return {box_.empty() ? nullptr : bytes_.data() + first_, stride_}; }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  void Clear() { std::fill(bytes_.begin(), bytes_.end(), kUntouched); }

 private:
  static constexpr std::byte kUntouched{0xEE};

  Box box_;
  std::size_t sample_bytes_;
  Index3 stride_{};
  std::size_t first_ = 0;
  std::vector<std::byte> bytes_;
};

Index3 RandomDims(Random* random) {
  Index3 dims = {1, 1, 1};
  const std::int64_t axes = 1 + Below(random, 3);
  for (std::size_t a = 0; a < static_cast<std::size_t>(axes); ++a)
    dims[a] = 1 + Below(random, axes == 1 ? 300 : 15);
  return dims;
}

/// A random box; often empty, or of the whole domain.
Box RandomBox(const Index3& dims, Random* random) {
  Box box{{0, 0, 0}, dims};
  if (Below(random, 10) == 0) return box;
  for (std::size_t a = 0; a < 3; ++a) {
    box.begin[a] = Below(random, dims[a]);
    box.end[a] = box.begin[a] + Below(random, dims[a] - box.begin[a] + 1);
    if (dims[a] == 1 && Below(random, 8) != 0) box.end[a] = box.begin[a] + 1;
  }
  return box;
}

Layout RandomLayout(int ranks, Random* random) {
  Layout layout{RandomDims(random), Ownership(static_cast<std::size_t>(ranks)),
                Ownership(static_cast<std::size_t>(ranks))};
  std::vector<Box> boxes = {{{0, 0, 0}, layout.dims}};
  for (std::int64_t cuts = Below(random, 40); cuts > 0; --cuts) {
    const auto b = static_cast<std::size_t>(Below(random, static_cast<std::int64_t>(boxes.size())));
    const auto axis = static_cast<std::size_t>(Below(random, 3));
    Box rest = boxes[b];
    const std::int64_t cut = rest.begin[axis] + Below(random, rest.shape()[axis] + 1);
    rest.begin[axis] = cut;
    if (rest.empty() || cut == boxes[b].begin[axis]) continue;
    boxes[b].end[axis] = cut;
    boxes.push_back(rest);
  }
  // Some ranks own nothing.
  const std::int64_t owners = 1 + Below(random, ranks);
  for (const Box& box : boxes) {
    auto& own = layout.owned[static_cast<std::size_t>(Below(random, owners))];
    if (Below(random, 10) == 0) own.push_back(Box{});
    own.push_back(box);
  }
  for (std::vector<Box>& needed : layout.needed) {
    for (std::int64_t n = Below(random, 5); n > 0; --n) needed.push_back(RandomBox(layout.dims, random));
  }
  return layout;
}

Description RandomDescription(const Index3& dims, Random* random) {
  constexpr std::array<std::size_t, 7> kSizes = {1, 2, 3, 4, 8, 12, 24};
  constexpr std::array<Batch, 4> kBatches = {kOnePerPart, kOnePerRankPair, 2, 5};
  constexpr std::array<Method, 3> kMethods = {Method::kAutomatic, Method::kPointToPoint, Method::kAlltoallw};
  return {dims, kSizes[static_cast<std::size_t>(Below(random, kSizes.size()))],
          kMethods[static_cast<std::size_t>(Below(random, kMethods.size()))],
          kBatches[static_cast<std::size_t>(Below(random, kBatches.size()))]};
}

std::vector<Array> ArraysOf(const std::vector<Box>& boxes, std::size_t sample_bytes, Random* random) {
  std::vector<Array> arrays;
  for (const Box& box : boxes) arrays.emplace_back(box, sample_bytes, random);
  return arrays;
}

/// One step: new samples in, exchange, and every byte of every array as expected.
Status CheckStep(Redistribution* redistribution, const Index3& dims, int step, std::vector<Array>* owned,
                 std::vector<Array>* needed) {
  std::vector<BoxView> sources;
  std::vector<MutableBoxView> targets;
  for (Array& array : *owned) {
    array.Fill(dims, step);
    sources.push_back(array.View());
  }
  for (Array& array : *needed) {
    array.Clear();
    targets.push_back(array.MutableView());
  }
  QUARRY_RETURN_IF_ERROR(redistribution->Exchange(sources, targets));
  Status status;
  for (std::size_t b = 0; b < needed->size(); ++b) {
    Array expected = (*needed)[b];
    expected.Fill(dims, step);
    if ((*needed)[b].bytes() != expected.bytes())
      status = InternalError("step {}: wrong bytes in needed box {}", step, b);
  }
  return redistribution->Agree(status);
}

Status CheckRandomMapping(MPI_Comm comm, int number) {
  Random random(static_cast<unsigned>(number));
  const auto rank = static_cast<std::size_t>(RankOf(comm));
  const Layout layout = RandomLayout(SizeOf(comm), &random);
  const Description description = RandomDescription(layout.dims, &random);
  const bool use_plan = Below(&random, 3) == 0;
  QUARRY_ASSIGN_OR_RETURN(auto redistribution, Redistribution::Describe(comm, description));
  if (use_plan) {
    Schedules::Use(ScheduleForRank(layout, RankOf(comm)), &redistribution);
  } else {
    QUARRY_RETURN_IF_ERROR(redistribution.Map(layout.owned[rank], layout.needed[rank]));
  }
  random.seed(static_cast<unsigned>(number * 1000 + RankOf(comm)));  // arrays may differ between ranks
  std::vector<Array> owned = ArraysOf(layout.owned[rank], description.sample_bytes, &random);
  std::vector<Array> needed = ArraysOf(layout.needed[rank], description.sample_bytes, &random);
  // The same arrays with new data twice, then other arrays under the same mapping.
  QUARRY_RETURN_IF_ERROR(CheckStep(&redistribution, layout.dims, 0, &owned, &needed));
  QUARRY_RETURN_IF_ERROR(CheckStep(&redistribution, layout.dims, 1, &owned, &needed));
  needed = ArraysOf(layout.needed[rank], description.sample_bytes, &random);
  return CheckStep(&redistribution, layout.dims, 2, &owned, &needed);
}

std::vector<Box> RowsOfE1(int rank) {
  if (rank >= 4) return {};
  return {{{0, rank, 0}, {8, rank + 1, 1}}, {{0, rank + 4, 0}, {8, rank + 5, 1}}};
}

std::vector<Box> QuadrantOfE1(int rank) {
  if (rank >= 4) return {};
  const Index3 corner = {4 * (rank % 2), 4 * (rank / 2), 0};
  return {{corner, {corner[0] + 4, corner[1] + 4, 1}}};
}

// Marrinan et al., example E1: rank r owns rows r and r + 4 of 8 x 8 samples and needs a quadrant.
Status CheckE1(MPI_Comm comm) {
  const int rank = RankOf(comm);
  const Index3 dims = {8, 8, 1};
  QUARRY_ASSIGN_OR_RETURN(auto redistribution, Redistribution::Describe(comm, {dims, sizeof(float)}));
  QUARRY_RETURN_IF_ERROR(redistribution.Map(RowsOfE1(rank), QuadrantOfE1(rank)));
  Random random(1);
  std::vector<Array> owned = ArraysOf(RowsOfE1(rank), sizeof(float), &random);
  std::vector<Array> needed = ArraysOf(QuadrantOfE1(rank), sizeof(float), &random);
  for (int step = 0; step < 3; ++step)
    QUARRY_RETURN_IF_ERROR(CheckStep(&redistribution, dims, step, &owned, &needed));
  // Rank 0 sends to 1 in the first round, to 2 and 3 in the second.
  Status status;
  if (rank == 0 && redistribution.messages_sent() != 3)
    status = InternalError("rank 0 sends {} messages instead of 3", redistribution.messages_sent());
  return redistribution.Agree(status);
}

/// Whether all ranks have the same error, with this text in it.
Status ExpectError(MPI_Comm comm, const Status& status, StatusCode code, const std::string& text) {
  std::string message = status.message();
  int length = static_cast<int>(message.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, comm);
  message.resize(static_cast<std::size_t>(length));
  MPI_Bcast(message.data(), length, MPI_CHAR, 0, comm);
  if (status.code() != code)
    return InternalError("code {} instead of {}: {}", static_cast<int>(status.code()), static_cast<int>(code),
                         status.message());
  if (status.message() != message)
    return InternalError("\"{}\" here, \"{}\" on rank 0", status.message(), message);
  if (message.find(text) == std::string::npos)
    return InternalError("\"{}\" does not say \"{}\"", message, text);
  return Status::Ok();
}

Status CheckErrors(MPI_Comm comm) {
  const int rank = RankOf(comm);
  const int last = SizeOf(comm) - 1;
  const Index3 dims = {10 * (last + 1), 1, 1};
  const std::vector<Box> slab = {{{10 * rank, 0, 0}, {10 * rank + 10, 1, 1}}};
  const auto on_last = [&](const Box& box) { return rank == last ? std::vector<Box>{box} : slab; };
  QUARRY_ASSIGN_OR_RETURN(auto redistribution, Redistribution::Describe(comm, {dims, 4}));
  const auto expect = [&](const Status& status, StatusCode code, const std::string& text) {
    return redistribution.Agree(ExpectError(comm, status, code, text));
  };
  QUARRY_RETURN_IF_ERROR(
      expect(redistribution.Exchange({}, {}), StatusCode::kFailedPrecondition, "call Map before"));
  QUARRY_RETURN_IF_ERROR(expect(redistribution.Map(on_last({{10 * last, 0, 0}, {10 * last + 11, 1, 1}}), {}),
                                StatusCode::kInvalidArgument, fmt::format("rank {} owns", last)));
  QUARRY_RETURN_IF_ERROR(
      expect(redistribution.Map(on_last({{10 * last, 0, 0}, {10 * last + 4, 1, 1}}), {}),
             StatusCode::kInvalidArgument,
             fmt::format("owns [{}:{},0:1,0:1) of the domain", 10 * last + 4, 10 * last + 10)));
  if (last > 0) {
    QUARRY_RETURN_IF_ERROR(expect(
        redistribution.Map(on_last({{10 * last - 3, 0, 0}, {10 * last + 10, 1, 1}}), {}),
        StatusCode::kInvalidArgument,
        fmt::format("ranks {} and {} both own [{}:{},0:1,0:1)", last - 1, last, 10 * last - 3, 10 * last)));
    const auto other = Redistribution::Describe(comm, {dims, rank == last ? std::size_t{8} : std::size_t{4}});
    QUARRY_RETURN_IF_ERROR(expect(other.status(), StatusCode::kInvalidArgument, "must describe the same"));
  }
  QUARRY_RETURN_IF_ERROR(redistribution.Map(slab, slab));  // after all these errors
  std::vector<float> from(10, static_cast<float>(rank));
  std::vector<float> to(10);
  const std::vector<BoxView> sources = {BoxView::Dense(from.data(), slab[0], 4)};
  std::vector<MutableBoxView> targets = {
      MutableBoxView::Dense(rank == last ? nullptr : to.data(), slab[0], 4)};
  QUARRY_RETURN_IF_ERROR(expect(redistribution.Exchange(sources, targets), StatusCode::kInvalidArgument,
                                fmt::format("rank {} gives a null array", last)));
  targets = {MutableBoxView::Dense(to.data(), slab[0], 4)};
  QUARRY_RETURN_IF_ERROR(redistribution.Exchange(sources, targets));
  return redistribution.Agree(to == from ? Status::Ok() : InternalError("samples that stay are wrong"));
}

/// Types are built for sizes that exceed the memory of any test machine.
Status CheckSizeOfType(const Index3& shape, const Index3& stride, std::size_t sample_bytes) {
  QUARRY_ASSIGN_OR_RETURN(const Datatype sample, Datatype::Sample(sample_bytes));
  QUARRY_ASSIGN_OR_RETURN(const Datatype type, Datatype::Strided(shape, stride, sample_bytes, sample));
  MPI_Count size = 0;
  MPI_Type_size_x(type.get(), &size);
  if (size != Volume(shape) * static_cast<MPI_Count>(sample_bytes))
    return InternalError("a type of {} samples has {} bytes", ToString(shape), size);
  return Status::Ok();
}

Status CheckLargeTypes() {
  constexpr std::int64_t k2Gi = std::int64_t{1} << 31;
  QUARRY_RETURN_IF_ERROR(CheckSizeOfType({3 * k2Gi / 2 + 1, 1, 1}, {1, 1, 1}, 1));
  QUARRY_RETURN_IF_ERROR(CheckSizeOfType({2 * k2Gi, 1, 1}, {24, 0, 0}, 8));
  QUARRY_RETURN_IF_ERROR(CheckSizeOfType({4096, 2048, 4096}, {4, 4 * 4096, 4 * 4096 * 2048}, 4));
  QUARRY_RETURN_IF_ERROR(CheckSizeOfType({10000, 9000, 3}, {-8, 8 * 20000, -8 * k2Gi}, 8));
  return CheckSizeOfType({4096, 2048, 2}, {8, 8 * 4099, 8 * 4099 * 3 * k2Gi}, 8);
}

Status RunAll(MPI_Comm comm, int mappings) {
  QUARRY_RETURN_IF_ERROR(CheckLargeTypes());
  if (SizeOf(comm) >= 4) QUARRY_RETURN_IF_ERROR(CheckE1(comm));
  QUARRY_RETURN_IF_ERROR(CheckErrors(comm));
  for (int number = 0; number < mappings; ++number)
    QUARRY_RETURN_IF_ERROR(CheckRandomMapping(comm, number).Annotate(fmt::format("mapping {}", number)));
  return Status::Ok();
}

}  // namespace
}  // namespace quarry::redistribute

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  // Many ranks on few cores are slow; each number of ranks has other mappings.
  const int world_size = quarry::redistribute::SizeOf(MPI_COMM_WORLD);
  // Ranks of the communicator are not those of MPI_COMM_WORLD.
  const int world_rank = quarry::redistribute::RankOf(MPI_COMM_WORLD);
  MPI_Comm comm;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &comm);
  const quarry::Status status = quarry::redistribute::RunAll(comm, world_size <= 4 ? 500 : 200);
  if (!status.ok()) std::fprintf(stderr, "world rank %d: %s\n", world_rank, status.message().c_str());
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
