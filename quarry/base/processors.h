#pragma once

namespace quarry {

/// Processors of this machine that are online; at least 1.
int MachineProcessors();

/// Processors on which the calling thread may run, by its affinity mask: taskset, `mpirun --bind-to`, a
/// cpuset of a batch system or container. Threads that it starts have the same mask. CPU quotas of cgroups
/// (`cpu.max`) do not count: they limit time, not processors.
/// @return at least 1; MachineProcessors where the system does not tell the mask
int UsableProcessors();

}  // namespace quarry
