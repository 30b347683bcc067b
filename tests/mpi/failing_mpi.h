#pragma once

#include <cstdint>

/// An MPI that fails when a test asks for it: wrappers of the calls that the writer uses, over MPI's
/// profiling interface. Linked into a test, or preloaded into a program and controlled by the environment:
///
///   QUARRY_FAIL_RANK=1 QUARRY_FAIL_CALL=17 QUARRY_FAIL_HOW=agreement LD_PRELOAD=libfailing_mpi.so mpirun ...
namespace quarry::testing {

enum class MpiFailure {
  /// The call does its work, its received bytes become garbage, and it returns an error. All calls count
  /// except those of agreements.
  kError,
  /// A receive is not posted, and returns an error; the message stays behind. Receives count.
  kLost,
  /// The call changes a byte that it receives, and returns success. Calls that receive bytes count.
  kCorrupt,
  /// The call of an agreement does its work and returns an error. Agreements count: the smallest of one int.
  kAgreement,
};

/// The n-th call that counts from now on fails on this rank; 0: none.
void FailMpiCall(std::uint64_t n, MpiFailure how);
/// Whether that call has failed.
bool MpiHasFailed();

}  // namespace quarry::testing
