#include "tools/iobench/ranks.h"

#include "quarry/base/file.h"
#include "writer/pipeline/comm.h"

namespace quarry::iobench {

Index3 NearCube(std::int64_t count) {
  int factors[3] = {0, 0, 0};
  MPI_Dims_create(static_cast<int>(count), 3, factors);
  return {factors[0], factors[1], factors[2]};
}

Result<Index3> ProcessGridOf(const std::string& text, int ranks) {
  if (text.empty()) return NearCube(ranks);
  QUARRY_ASSIGN_OR_RETURN(const Index3 grid, ParseShape(text, "--ranks"));
  if (Volume(grid) != ranks) {
    return InvalidArgument("--ranks {} is {} ranks, but {} are running; start as many, or leave it out", text,
                           Volume(grid), ranks);
  }
  return grid;
}

Result<std::string> ReadOnRoot(const std::string& path) {
  constexpr std::uint64_t kLargestReport = std::uint64_t{1} << 30;
  return writer::TextOfRoot(MPI_COMM_WORLD, [&] { return ReadTextFile(path, kLargestReport); });
}

}  // namespace quarry::iobench
