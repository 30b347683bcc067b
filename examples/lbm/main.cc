// Flow past a cylinder, dumped for conversion. See README.md.

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <new>
#include <optional>
#include <string>

#include "barrier.h"
#include "domain.h"
#include "dump.h"
#include "fields.h"
#include "insitu.h"
#include "options.h"
#include "quarry/command_line/command_line.h"
#include "solver.h"

namespace lbm {
namespace {

// Keeps the number of values in a halo message or a write within MPI's int.
constexpr std::int64_t kMaxBlockCells = std::int64_t{1} << 28;

void PrintError(const Domain& domain, const std::string& message) {
  if (domain.rank() == 0) std::fprintf(stderr, "lbm: %s\n", message.c_str());
}

bool BlocksFitMpi(const Domain& domain) {
  std::int64_t cells = 1;
  for (int axis = 0; axis < 3; ++axis) {
    cells *= (domain.global_cells()[axis] - 1) / domain.blocks()[axis] + 1;
  }
  return cells <= kMaxBlockCells;
}

// Millions of cell updates per second.
double Mlups(const Domain& domain, int steps, double seconds) {
  const auto [nx, ny, nz] = domain.global_cells();
  return 1e-6 * steps * nx * ny * nz / seconds;
}

void Report(const Domain& domain, int step, double mean_speed, double mlups) {
  if (domain.rank() != 0) return;
  std::printf("step %6d  mean speed %.5f  %.1f MLUPS\n", step, mean_speed, mlups);
  std::fflush(stdout);
}

// No flow in the range of the options comes near the speed of sound.
bool IsStable(const Summary& summary) {
  constexpr double kSoundSpeed = 0.577;
  return summary.finite && summary.max_speed < kSoundSpeed;
}

int Simulate(Domain& domain, const Options& options, const WriterRanks& writers,
             std::optional<InsituWriter>& insitu) {
  Solver solver(domain, MakeBarrier(domain.global_cells()), options.flow);
  if (!options.no_dump) CreateDirectory(domain, options.output);
  if (!options.insitu.empty() || options.consumers > 0) insitu.emplace(writers, domain, options);

  int last_dump = 0;
  double start = MPI_Wtime();
  for (int step = 1; step <= options.steps; ++step) {
    solver.Step();
    if (step % options.dump_every != 0 && step != options.steps) continue;

    const double mlups = Mlups(domain, step - last_dump, MPI_Wtime() - start);
    const Fields fields = SampleFields(domain, solver);
    const Summary summary = Summarize(domain, fields);
    if (!IsStable(summary)) {
      PrintError(domain, "the flow became unstable before step " + std::to_string(step) +
                             "; lower --reynolds or --inflow");
      return kExitUsage;
    }
    if (!options.no_dump) WriteDump(domain, options.output, step, fields);
    if (insitu) insitu->Write(step, fields);
    Report(domain, step, summary.mean_speed, mlups);
    last_dump = step;
    start = MPI_Wtime();
  }
  if (insitu) insitu->Close();
  return kExitOk;
}

int Run(Domain& domain, const Options& options, const WriterRanks& writers) {
  if (!BlocksFitMpi(domain)) {
    PrintError(domain, "--dims is too large for this number of ranks");
    return kExitUsage;
  }
  // Outlives exceptions: closing is collective, and a rank out of memory is alone.
  std::optional<InsituWriter> insitu;
  try {
    return Simulate(domain, options, writers, insitu);
  } catch (const IoError& error) {
    PrintError(domain, error.what());
    return kExitIo;
  } catch (const std::bad_alloc&) {
    // Other ranks may have enough memory, and would wait for this one.
    std::fprintf(stderr, "lbm: out of memory; use more ranks or fewer cells\n");
    MPI_Abort(MPI_COMM_WORLD, kExitUsage);
    return kExitUsage;
  }
}

int Main(int argc, char** argv) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int exit_code = kExitOk;
  const auto options = ParseOptions(argc, argv, rank == 0, exit_code);
  if (!options) return exit_code;

  try {
    WriterRanks writers(MPI_COMM_WORLD, *options);
    if (writers.writes()) {
      writers.Serve();
    } else {
      Domain domain(writers.simulation(), options->dims);
      if (domain.active()) exit_code = Run(domain, *options, writers);
    }
  } catch (const IoError& error) {
    if (rank == 0) std::fprintf(stderr, "lbm: %s\n", error.what());
    exit_code = kExitUsage;
  }
  // Ranks without a block learn the outcome only from the others.
  MPI_Bcast(&exit_code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return quarry::command_line::EndProgram("lbm", exit_code);
}

}  // namespace
}  // namespace lbm

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int exit_code = lbm::Main(argc, argv);
  MPI_Finalize();
  return exit_code;
}
