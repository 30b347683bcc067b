// Writes fields to disk as raw binary files.

#pragma once

#include <stdexcept>
#include <string>

#include "domain.h"
#include "fields.h"

namespace lbm {

/// Thrown on all ranks together, with the same message, so that no rank is left
/// waiting for others in a collective call.
class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Creates `path` and its parents unless it exists. Throws IoError. Collective
/// over the domain's communicator.
void CreateDirectory(const Domain& domain, const std::string& path);

/// Writes each field to
///   OUTPUT/stepNNNNNN/lbm-FIELD-[X-Y-Z]-Float32.raw
/// X-Y-Z is the global number of cells: little-endian float32 values, x
/// fastest, z slowest, and nothing else. Existing files are replaced, and what
/// was written is read back and compared. Throws IoError. Collective over the
/// domain's communicator.
void WriteDump(const Domain& domain, const std::string& output, int step, const Fields& fields);

}  // namespace lbm
