#pragma once

#include <mpi.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "quarry/description.h"
#include "quarry/input/input.h"
#include "writer/convert/report.h"
#include "writer/distribution/decomposition.h"
#include "writer/pipeline/dataset_writer.h"

namespace quarry::writer {

/// One conversion. Everything optional has the default that docs and --help give.
struct WriteOptions {
  std::vector<std::string> inputs;  ///< consecutive steps of each field; see input::FindInputs
  std::string output;
  input::InputOptions input;

  /// Unset: 0; of a field that is continued (OpenMode::kAppend), the one after its last.
  std::optional<std::uint64_t> first_step;
  std::optional<double> time;
  std::optional<std::array<double, 3>> spacing;
  std::optional<std::array<double, 3>> origin;
  std::string units;

  std::optional<double> tolerance;
  std::optional<double> relative_tolerance;
  std::optional<double> pointwise_relative_tolerance;
  bool lossless = false;
  std::vector<double> layers;  ///< see FieldRequest
  bool relative_layers = false;
  std::optional<int> keyframe;  ///< see FieldRequest
  bool keep_zeros = false;
  bool keep_sign = false;
  std::string codec;                 ///< empty: chosen by type and bound
  std::optional<DataType> store_as;  ///< kFloat32 for float64 input: rounding counts towards the tolerance
  std::string fill;  ///< value of missing samples, as the user wrote it; empty: only NaN and infinity

  std::optional<Index3> patch;
  std::optional<int> levels;
  std::optional<format::PayloadOrder> order;
  distribution::ReadingOrder reading = distribution::ReadingOrder::kConsecutive;
  PipelineOptions pipeline;

  OpenMode mode = OpenMode::kCreate;
  bool dry_run = false;
  bool patch_sizes =
      false;  ///< whether the report has a size grid: rank 0 then holds the sizes of all patches
};

/// Converts dumps to steps of a dataset: read, exchange, encode, assign, transfer, write, publish, one step
/// after the other. Rank 0 talks to the user. The bytes do not depend on the number of ranks.
///
/// OpenMode::kResume skips fields of steps that are already published.
///
/// @param[out] report  complete on rank 0
/// @errors the same on every rank; published steps stay, the failed one leaves nothing
/// @collective over `comm`
/// @source Fan et al., Load-balancing Parallel I/O of Compressed Hierarchical Layouts, section IV
Status WriteDataset(MPI_Comm comm, const WriteOptions& options, WriteReport* report);

}  // namespace quarry::writer
