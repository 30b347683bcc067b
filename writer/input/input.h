#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "quarry/base/data_type.h"
#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/geometry/box.h"

namespace quarry::writer {

/// What the user said about raw files; everything may also come from the file's name or its own header.
struct InputOptions {
  std::string format;  ///< "raw", "npy", or empty: from the file name
  std::optional<Index3> dims;
  std::optional<DataType> type;
  bool big_endian = false;
  std::uint64_t offset = 0;  ///< bytes before the first sample
  std::string field;         ///< empty: from the file name
};

/// One dump of one field in one file: dense, x fastest.
struct Input {
  std::string path;
  std::string field;
  Index3 dims{};
  DataType type = DataType::kFloat32;
  bool big_endian = false;
  std::uint64_t offset = 0;
};

/// Finds out what `path` holds and checks that its size fits. Understands names like
/// `run-pressure-[128-64-64]-Float32.raw` and NumPy's .npy (C order, shape [z, y, x]).
/// @errors kNotFound: no such file; kInvalidArgument: dims, type or size do not fit, with both numbers
Result<Input> OpenInput(const std::string& path, const InputOptions& options);

/// Reads a box of samples, in native byte order, x fastest; reads as few and as long runs as the box allows.
/// @threads safe; local: every rank reads its own part
Result<Bytes> ReadBox(const Input& input, const Box& box);

}  // namespace quarry::writer
