#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "quarry/base/status.h"
#include "quarry/box.h"
#include "writer/pipeline/phases.h"

namespace quarry::writer {

/// Smallest, largest and mean of a load over ranks or files.
struct Balance {
  double min = 0;
  double max = 0;
  double mean = 0;

  static Balance Of(const std::vector<std::uint64_t>& loads);
  double max_over_mean() const { return mean > 0 ? max / mean : 1; }
};

/// One field of one step, as the closing table lists it.
struct FieldReport {
  std::uint64_t step = 0;
  std::string field;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;      ///< bytes of subfiles, and of the mask if this field added it
  std::uint64_t payload_bytes = 0;  ///< bytes of all levels, without masks
  std::uint64_t mask_bytes = 0;     ///< part of bytes_out; 0 if the mask already existed
  double valid_fraction = 1;        ///< share of samples that are not missing
  bool lossless = false;
  double tolerance = 0;
  double max_error = 0;
  double psnr = 0;
  bool outlying = false;  ///< few samples make the range: the PSNR, relative to it, says nothing
  std::vector<std::uint64_t> bytes_per_file;
  std::uint64_t images_read = 0;  ///< images of a stack, by all ranks together; 0 for other inputs
};

/// Report of a run of the writer: the closing table, and --report.
struct WriteReport {
  int ranks = 1;
  std::vector<FieldReport> fields;
  std::vector<std::string> warnings;  ///< as the user has seen them
  /// Seconds of the slowest rank.
  PhaseSeconds seconds{};
  double total_seconds = 0;
  std::vector<std::uint64_t> patches_per_rank;
  /// Stored bytes of each patch, summed over the fields of the first step, x fastest; quarry-iobench and
  /// quarry-plan extrapolate them to other scales.
  Index3 size_grid_shape{};
  std::vector<std::uint64_t> size_grid;

  /// One more field, unless it is on another grid than the first one.
  /// @param shape         of its grid, in patches
  /// @param stored_bytes  by patch index
  void AddToSizeGrid(const Index3& shape, const std::vector<std::uint64_t>& stored_bytes);

  std::uint64_t bytes_in() const;
  std::uint64_t bytes_out() const;
  double ratio() const;
  /// The largest over all fields, in each field's own unit.
  double max_error() const;
  /// The lowest over all fields.
  double psnr() const;

  /// Bytes per file of the field and step whose files differ most: fields are not balanced against each
  /// other.
  Balance bytes_per_file() const;

  std::string ToTable() const;
  std::string ToJson() const;
};

}  // namespace quarry::writer
