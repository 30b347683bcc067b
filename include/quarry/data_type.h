#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quarry/result.h"

namespace quarry {

/// Type of one sample. The numbers are stored in subfiles and never change.
enum class DataType : std::uint8_t {
  kFloat32 = 1,
  kFloat64 = 2,
  kInt8 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kUint16 = 6,
  kInt32 = 7,
  kUint32 = 8,
  kInt64 = 9,
  kUint64 = 10,
};

/// Bytes of one sample.
std::size_t SizeOf(DataType type);

/// "float32", "uint8", ...: the names of command line and JSON.
std::string_view Name(DataType type);

/// Inverse of Name. @errors kInvalidArgument that lists the known names
Result<DataType> ParseDataType(std::string_view name);

inline bool IsFloat(DataType type) { return type == DataType::kFloat32 || type == DataType::kFloat64; }

/// Integers of 64 bits: float64 does not hold all of them, so they are stored without loss or not at all.
inline bool IsWideInteger(DataType type) { return type == DataType::kInt64 || type == DataType::kUint64; }

/// Calls `visit` with a value of the C++ type of `type`, a type whose samples all fit into float64.
/// @pre !IsWideInteger(type)
template <typename Visit>
auto DispatchNarrow(DataType type, Visit visit) {
  switch (type) {
    case DataType::kFloat32:
      return visit(float{});
    case DataType::kFloat64:
      return visit(double{});
    case DataType::kInt8:
      return visit(std::int8_t{});
    case DataType::kUint8:
      return visit(std::uint8_t{});
    case DataType::kInt16:
      return visit(std::int16_t{});
    case DataType::kUint16:
      return visit(std::uint16_t{});
    case DataType::kInt32:
      return visit(std::int32_t{});
    default:
      break;
  }
  return visit(std::uint32_t{});
}

/// Calls `visit` with a value of the C++ type of `type`; the type must be one of those above.
template <typename Visit>
auto DispatchType(DataType type, Visit visit) {
  if (type == DataType::kInt64) return visit(std::int64_t{});
  if (type == DataType::kUint64) return visit(std::uint64_t{});
  return DispatchNarrow(type, visit);
}

}  // namespace quarry
