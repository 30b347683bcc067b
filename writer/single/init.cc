#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

inline namespace quarry_one_rank {
namespace {

/// Processes that the launcher started together, this one included; 1 without a launcher.
int ProcessesOfJob() {
  // Open MPI; MPICH, Intel MPI and others with PMI; Slurm's srun.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return 1;
}

}  // namespace

int MPI_Init_thread(int*, char*** argv, int required, int* provided) {
  *provided = required;
  const int processes = ProcessesOfJob();
  if (processes <= 1) return MPI_SUCCESS;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string name = self.filename().string();
  const std::string with_mpi = self.string() + "-mpi";
  if (!error) execv(with_mpi.c_str(), *argv);
  std::fprintf(stderr,
               "%s: built without MPI, but a launcher started %d processes of it, and there is no %s; "
               "install the package "
               "quarry-mpi, or run one process\n",
               name.c_str(), processes, with_mpi.c_str());
  std::_Exit(2);
}

}  // namespace quarry_one_rank
