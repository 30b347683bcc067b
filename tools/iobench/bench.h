#pragma once

#include "tools/iobench/pipelines.h"
#include "tools/iobench/spread.h"

namespace quarry::iobench {

struct BenchOptions {
  std::vector<Pipeline> pipelines;
  std::size_t files = 1;  ///< see LayOutFiles
  int repeat = 10;        ///< timed runs, at least 1, after an untimed one
  std::filesystem::path directory;
  bool verify = true;  ///< read back what the untimed run wrote
  bool keep = false;   ///< leave the files of the last run
  bool progress = false;
};

struct PipelineResult {
  Pipeline pipeline = Pipeline::kBalanced;
  Spread seconds;         ///< time of the slowest rank, over the timed runs
  Spread bytes_per_file;  ///< over the files
  std::size_t files = 0;
};

struct BenchResult {
  std::filesystem::path kept;  ///< the folder with the files; empty unless kept
  std::vector<PipelineResult> pipelines;
};

/// Runs the pipelines in turns, so that a machine that slows down does so for all of them.
/// @errors the same on every rank; the files are then removed
/// @collective over `comm`
Result<BenchResult> RunBench(MPI_Comm comm, const Load& load, const BenchOptions& options);

}  // namespace quarry::iobench
