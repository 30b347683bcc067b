#pragma once

#include <array>

#include "quarry/base/status.h"
#include "writer/model/network.h"

/// Time of a distributed 3D fast Fourier transform in pencils: three phases of 1D transforms, and two
/// all-to-all exchanges between them. Pure functions. benchmarks/reproduction/README.md has the equations,
/// and which numbers of the paper they give.
/// @source Czechowski et al., On the Communication Complexity of 3D FFTs and its Implications for Exascale
namespace quarry::reproduction {

/// A word of the paper: a double-precision complex number.
inline constexpr double kFftWordBytes = 16;

/// A: passes of a 1D transform over the memory, as printed in section 3.1.2 of the paper.
inline constexpr double kPrintedMemoryConstant = 6.3;

/// One processor, with memory of its own.
struct FftNode {
  double flops_per_s = 0;                 ///< C_node
  double dram_bandwidth_bytes_per_s = 0;  ///< b_mem; loads and stores both count: a copy of a byte is two
  double cache_bytes = 0;                 ///< Z
  double cores = 0;                       ///< rho; 0: not known
  double bus_bandwidth_bytes_per_s = 0;   ///< to a processor that has memory of its own; 0: it is none
};

struct FftSystem {
  FftNode node;
  model::Network network;
  double nodes = 1;  ///< P; a prediction may have a fraction

  double peak_flops_per_s() const { return node.flops_per_s * nodes; }
};

/// Samples along x, y, z; a prediction may have a fraction. An axis of one sample has no transform.
using FftDims = std::array<double, 3>;

/// Seconds of each term.
struct FftSeconds {
  double flops = 0;    ///< equation 1
  double memory = 0;   ///< equation 2
  double network = 0;  ///< equations 3 to 5, of all exchanges
  double shuffle = 0;  ///< equation 8: the local transposes
  double bus = 0;      ///< equation 9, of all phases

  double computation() const { return flops > memory ? flops : memory; }
  /// Computation and network one after the other, as measured in section 5.2. Without shuffle and bus, which
  /// the predictions of the paper leave out.
  double total() const { return computation() + network; }
  /// While the network works, so do the processors.
  double overlapped() const { return computation() > network ? computation() : network; }
  double with_shuffle_and_bus() const { return total() + shuffle + bus; }
};

/// 5 N log2 n: the operations of all 1D transforms.
double FftFlops(const FftDims& dims);

/// @param memory_constant  A > 0
FftSeconds PredictFft(const FftSystem& system, const FftDims& dims, double memory_constant);

/// The least number of nodes that need no longer than `seconds`; a fraction, so that a caller rounds up.
/// @param overlapped  of computation and network the longer counts, not the sum
/// @errors kInvalidArgument: no number of nodes is fast enough
Result<double> NodesFor(FftSystem system, const FftDims& dims, double memory_constant, double seconds,
                        bool overlapped);

/// Both sides of equation 11. A node stays balanced while the first grows no faster than the second.
struct FftBalance {
  double flops_per_byte = 0;             ///< rho C / b_mem
  double log2_cache_words_per_core = 0;  ///< log2(Z / rho)
};
/// @param node  with its number of cores
FftBalance BalanceOf(const FftNode& node);

}  // namespace quarry::reproduction
