// Derived datatypes against packing by hand: cubic parts of arrays with ghost samples on one rank to dense
// cubes on another, the pattern of papers on patch exchange. Every rank sends `parts` cubes to the rank after
// it and receives as many. Prints a JSON object; times are the best of the repetitions, over all ranks the
// slowest.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "quarry/command_line/command_line.h"
#include "quarry/redistribute.h"
#include "writer/redistribute/copy_part.h"

namespace quarry::redistribute {
namespace {

struct Options {
  std::int64_t edge = 64;
  std::int64_t parts = 32;
  std::size_t sample_bytes = 4;
  int repeat = 20;
};

/// A row of cubes along x; the owner's array has `kGhosts` samples more on each side.
constexpr std::int64_t kGhosts = 2;

struct Setup {
  Setup(const Options& options, int rank, int size)
      : box{{0, options.edge * rank, 0},
            {options.edge * options.parts, options.edge * (rank + 1), options.edge}},
        peer((rank + 1) % size),
        source((rank + size - 1) % size) {
    const Index3 shape = box.shape();
    const auto bytes = static_cast<std::int64_t>(options.sample_bytes);
    stride = {bytes, bytes * (shape[0] + 2 * kGhosts),
              bytes * (shape[0] + 2 * kGhosts) * (shape[1] + 2 * kGhosts)};
    owned.resize(static_cast<std::size_t>(stride[2] * (shape[2] + 2 * kGhosts)), std::byte{1});
    const auto cube = static_cast<std::size_t>(options.edge * options.edge * options.edge * bytes);
    needed.assign(static_cast<std::size_t>(options.parts), std::vector<std::byte>(cube));
  }

  BoxView View() const { return {owned.data() + kGhosts * (stride[0] + stride[1] + stride[2]), stride}; }

  Box box;
  int peer;
  int source;
  Index3 stride;
  std::vector<std::byte> owned;
  std::vector<std::vector<std::byte>> needed;
};

std::vector<Box> Cubes(const Options& options, int rank) {
  std::vector<Box> cubes;
  for (std::int64_t p = 0; p < options.parts; ++p)
    cubes.push_back({{options.edge * p, options.edge * rank, 0},
                     {options.edge * (p + 1), options.edge * (rank + 1), options.edge}});
  return cubes;
}

double BestSeconds(int repeat, const std::function<void()>& run) {
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i <= repeat; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    run();
    const double mine = MPI_Wtime() - start;
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (i > 0) best = std::min(best, slowest);  // the first run touches the memory
  }
  return best;
}

/// Parts are copied into one buffer, or one for each part, sent as bytes, and received where they belong: the
/// receiver's cubes are dense, so that packing is needed on one side only, in its favour.
double Packing(const Options& options, Setup* setup, int rank) {
  const std::size_t cube = setup->needed[0].size();
  std::vector<std::byte> buffer(cube * setup->needed.size());
  const std::vector<Box> cubes = Cubes(options, rank);
  return BestSeconds(options.repeat, [&] {
    std::vector<MPI_Request> requests;
    for (auto& target : setup->needed) {
      requests.emplace_back();
      MPI_Irecv(target.data(), static_cast<int>(cube), MPI_BYTE, setup->source, 0, MPI_COMM_WORLD,
                &requests.back());
    }
    for (std::size_t p = 0; p < cubes.size(); ++p) {
      const auto view = MutableBoxView::Dense(buffer.data() + p * cube, cubes[p], options.sample_bytes);
      CopyPart(setup->View(), setup->box, view, cubes[p], cubes[p], options.sample_bytes);
      requests.emplace_back();
      MPI_Isend(view.data, static_cast<int>(cube), MPI_BYTE, setup->peer, 0, MPI_COMM_WORLD,
                &requests.back());
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  });
}

double Derived(const Options& options, Setup* setup, int rank, int size, Method method, Batch batch,
               bool keep_types) {
  const Index3 dims = {options.edge * options.parts, options.edge * size, options.edge};
  auto redistribution = Redistribution::Describe(MPI_COMM_WORLD, {dims, options.sample_bytes, method, batch});
  if (!redistribution.ok() || !redistribution->Map({setup->box}, Cubes(options, setup->source)).ok())
    return -1;
  std::vector<MutableBoxView> targets;
  const std::vector<Box> cubes = Cubes(options, rank);
  for (std::size_t p = 0; p < cubes.size(); ++p)
    targets.push_back(MutableBoxView::Dense(setup->needed[p].data(), cubes[p], options.sample_bytes));
  const std::vector<BoxView> sources = {setup->View()};
  bool good = true;
  const double seconds = BestSeconds(options.repeat, [&] {
    // Another order of the same cubes makes the library build its types anew.
    if (!keep_types) std::rotate(targets.begin(), targets.begin() + 1, targets.end());
    good = redistribution->Exchange(sources, targets).ok() && good;
  });
  return good ? seconds : -1;
}

}  // namespace
}  // namespace quarry::redistribute

int main(int argc, char** argv) {
  using namespace quarry::redistribute;
  Options options;
  quarry::command_line::Parser app(
      "redistribute_bench",
      "Exchange of cubic parts: derived datatypes against packing. Example: mpirun -n 2 redistribute_bench");
  app.AddOption("--edge", &options.edge, "samples along each axis of a part");
  app.AddOption("--parts", &options.parts, "parts that each rank sends");
  app.AddOption("--sample-bytes", &options.sample_bytes, "bytes of a sample");
  app.AddOption("--repeat", &options.repeat, "repetitions");
  return RunProgram(&app, argc, argv, [&]() -> quarry::Result<int> {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Setup setup(options, rank, size);
    const double mib = static_cast<double>(setup.needed.size() * setup.needed[0].size()) / (1 << 20);
    nlohmann::ordered_json result = {{"ranks", size},
                                     {"edge", options.edge},
                                     {"parts", options.parts},
                                     {"sample_bytes", options.sample_bytes},
                                     {"mib_per_rank", mib}};
    const auto report = [&](const char* name, double seconds) {
      result[name] = {{"seconds", seconds}, {"mib_per_second_per_rank", mib / seconds}};
    };
    report("packing", Packing(options, &setup, rank));
    report("derived", Derived(options, &setup, rank, size, Method::kPointToPoint, kOnePerPart, true));
    report("derived_new_types",
           Derived(options, &setup, rank, size, Method::kPointToPoint, kOnePerPart, false));
    report("derived_per_rank",
           Derived(options, &setup, rank, size, Method::kPointToPoint, kOnePerRankPair, true));
    report("derived_alltoallw", Derived(options, &setup, rank, size, Method::kAlltoallw, kOnePerPart, true));
    if (rank == 0) std::printf("%s\n", result.dump(2).c_str());
    MPI_Finalize();
    return 0;
  });
}
