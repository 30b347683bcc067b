#pragma once

#include <functional>

#include "quarry/input/dense.h"
#include "quarry/input/formats.h"

/// NumPy's header of an array, in .npy and .npz.
/// @source numpy.lib.format
namespace quarry::input::internal {

struct NpyHeader {
  std::string type;  ///< NumPy's letters: "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  ///< slowest first
  std::uint64_t bytes = 0;          ///< of the header; the samples follow
};

/// @param start  of the array: at least its header, if it has one
/// @returns nothing for what is no array of NumPy
std::optional<NpyHeader> ParseNpy(std::span<const std::byte> start);

/// The most bytes that ParseNpy needs.
inline constexpr std::size_t kMostNpyHeader = (std::size_t{1} << 20) + 12;

/// The bytes that a header says it has, of which `start` may hold the first only; 0 for what is no array.
std::uint64_t NpyHeaderBytes(std::span<const std::byte> start);

/// "float32" of "<f4", and whether it is big-endian; nothing for types that fields cannot have.
struct NpyType {
  DataType type = DataType::kFloat32;
  bool big_endian = false;
};
std::optional<NpyType> ParseNpyType(const std::string& letters);

/// An array of a file.
struct NpyArray {
  std::string name;  ///< in .npz; empty: it has none
  NpyHeader header;
  std::uint64_t bytes = 0;  ///< of header and samples, as they are there
};

/// What the array is among others of its file, and why it cannot be converted, if it cannot.
Variable SummariseNpy(const NpyArray& array, const InputOptions& options);

/// Opens the fields of an array.
/// @param open  its samples, behind the header; once for each input
Result<Inputs> OpenNpyArray(const InputName& name, const NpyArray& array, const InputOptions& options,
                            const std::function<Result<std::unique_ptr<SampleBytes>>()>& open);

}  // namespace quarry::input::internal
