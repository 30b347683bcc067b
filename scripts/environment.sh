# Sourced by the other scripts: settings that Open MPI needs on a small machine and inside containers.
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# A program started without mpirun is one rank and needs no helper process, whose start takes longer than a small job.
export OMPI_MCA_ess_singleton_isolated=1
# More ranks than processors are fine for tests and demos.
export OMPI_MCA_rmaps_base_oversubscribe=1
# Waiting ranks yield to working ones.
export OMPI_MCA_mpi_yield_when_idle=1
