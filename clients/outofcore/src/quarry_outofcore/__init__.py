"""Analysis of data that are larger than memory, in this process or by the workers of dask.distributed.

    import quarry_outofcore as outofcore

    modes = outofcore.pod(dataset, "vorticity", modes=10, memory="1GiB")
    pairs = outofcore.lowest_eigenpairs(outofcore.BlockedMatrix.open("hamiltonian.blocks"), 10, memory="1GiB")

Data lie in immutable blocks: boxes of a dataset over all steps, or blocks of a matrix. Each iteration is one pass over
them. Blocks stay in memory as far as that allows, tasks that need the least new bytes run first, and one thread reads
ahead (Saule et al., An Out-of-Core Task-based Middleware for Data-Intensive Scientific Computing).
"""

from quarry_outofcore._eigen import Eigenpairs, lowest_eigenpairs
from quarry_outofcore._engine import Report
from quarry_outofcore._matrix import BlockedMatrix
from quarry_outofcore._pod import Pod, pod

__all__ = ["BlockedMatrix", "Eigenpairs", "Pod", "Report", "lowest_eigenpairs", "pod"]
