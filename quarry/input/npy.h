#pragma once

#include <memory>

#include "quarry/input/dense.h"
#include "quarry/input/exported.h"
#include "quarry/input/formats.h"

/// NumPy's header of an array, in .npy and .npz.
/// @source numpy.lib.format
namespace quarry::input::internal {

struct NpyHeader {
  std::string type;  ///< NumPy's letters: "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  ///< slowest first
  std::uint64_t bytes = 0;          ///< bytes of the header; the samples follow
};

/// @param start  of the array: at least its header, if it has one
/// @returns nothing if it is not an array of NumPy
std::optional<NpyHeader> ParseNpy(std::span<const std::byte> start);

/// The most bytes that ParseNpy needs.
inline constexpr std::size_t kMostNpyHeader = (std::size_t{1} << 20) + 12;

/// Bytes of a header by its own count, though `start` may hold only the first; 0 if it is not an array.
std::uint64_t NpyHeaderBytes(std::span<const std::byte> start);

/// "float32" of "<f4", and whether it is big-endian; nothing for types that fields cannot have.
struct NpyType {
  DataType type = DataType::kFloat32;
  bool big_endian = false;
  GivenType given = GivenType::kStored;  ///< meaning of `type`
  bool is_complex = false;               ///< a sample has two parts of `type`

  /// Bytes of a sample in the file.
  std::size_t bytes() const {
    return given == GivenType::kFloat16 ? 2 : is_complex ? 2 * SizeOf(type) : SizeOf(type);
  }
};
std::optional<NpyType> ParseNpyType(const std::string& letters);

/// An array of a file.
struct NpyArray {
  std::string name;   ///< in .npz; empty: it has none
  std::string field;  ///< its name if the user gives none
  NpyHeader header;
  std::uint64_t bytes = 0;  ///< bytes of header and samples, as they are there
  std::shared_ptr<const SampleBytes> samples;
};

/// Opens a field of the arrays of a file.
/// @param size      bytes of the file
/// @param exported  what an export says of them
Result<Inputs> OpenNpyArrays(const InputName& name, const InputOptions& options, std::vector<NpyArray> arrays,
                             std::uint64_t size, const std::optional<Exported>& exported = {});

}  // namespace quarry::input::internal
