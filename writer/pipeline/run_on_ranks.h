#pragma once

#include <new>
#include <optional>
#include <string>

#include "quarry/base/output.h"
#include "quarry/command_line/command_line.h"
#include "writer/pipeline/comm.h"
#include "writer/redistribute/mpi_status.h"

namespace quarry::writer {

/// The same as command_line::RunProgram for a program with MPI, which links command_line itself; rank 0
/// prints. After an error on which the ranks cannot agree, or without memory between two agreements, the
/// others may wait for this rank: it ends them too.
template <typename Run>
int RunOnRanks(command_line::Parser* parser, int argc, char** argv, Run run,
               const std::string& out_of_memory) {
  const MpiSession mpi(&argc, &argv);
  const int rank = Rank(MPI_COMM_WORLD);
  const auto end = [&](const Result<int>& outcome, bool speaks) {
    return command_line::EndProgram(parser->program(), outcome, speaks);
  };
  const Result<std::optional<std::string>> answer = parser->Parse(argc, argv);
  if (!answer.ok()) return end(answer.status(), rank == 0);
  if (*answer) {
    if (rank == 0) WriteOut(**answer);
    return end(0, rank == 0);
  }
  try {
    const Result<int> outcome = run();
    if (redistribute::CannotAgree(outcome.status())) MPI_Abort(MPI_COMM_WORLD, end(outcome, true));
    return end(outcome, rank == 0);
  } catch (const std::bad_alloc&) {
    const Status memory = InternalError("rank {} is out of memory; {}", rank, out_of_memory);
    return MPI_Abort(MPI_COMM_WORLD, end(memory, true));
  }
}

}  // namespace quarry::writer
