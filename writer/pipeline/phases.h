#pragma once

#include <mpi.h>

#include <cstddef>
#include <exception>
#include <new>
#include <type_traits>

#include "quarry/base/status.h"
#include "quarry/pipeline_options.h"

namespace quarry::writer {

/// Adds the time of a scope to a number of seconds.
class Timer {
 public:
  explicit Timer(double* seconds) : seconds_(seconds), begin_(MPI_Wtime()) {}
  Timer(PhaseSeconds* seconds, Phase phase) : Timer(&(*seconds)[static_cast<std::size_t>(phase)]) {}
  ~Timer() { *seconds_ += MPI_Wtime() - begin_; }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double* seconds_;
  double begin_;
};

/// Runs the local part of a phase, which returns a Status or a Result. Exceptions of libraries, above all out
/// of memory, become an error, so that this rank still reaches the agreement with the others.
template <typename Work>
std::invoke_result_t<Work> Guarded(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return InternalError("out of memory; use more ranks or nodes, or smaller patches");
  } catch (const std::exception& error) {
    return InternalError("{}", error.what());
  }
}

}  // namespace quarry::writer
