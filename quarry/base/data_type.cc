#include "quarry/data_type.h"

#include <array>

#include "quarry/base/status.h"

namespace quarry {
namespace {

struct TypeRow {
  DataType type;
  std::string_view name;
  std::size_t size;
};

constexpr std::array kTypes = {
    TypeRow{DataType::kFloat32, "float32", 4}, TypeRow{DataType::kFloat64, "float64", 8},
    TypeRow{DataType::kInt8, "int8", 1},       TypeRow{DataType::kUint8, "uint8", 1},
    TypeRow{DataType::kInt16, "int16", 2},     TypeRow{DataType::kUint16, "uint16", 2},
    TypeRow{DataType::kInt32, "int32", 4},     TypeRow{DataType::kUint32, "uint32", 4},
    TypeRow{DataType::kInt64, "int64", 8},     TypeRow{DataType::kUint64, "uint64", 8},
};

}  // namespace

std::size_t SizeOf(DataType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.size;
  }
  return 0;
}

std::string_view Name(DataType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.name;
  }
  return "unknown";
}

Result<DataType> ParseDataType(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return InvalidArgument(
      "unknown type \"{}\"; known are float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, "
      "uint64",
      name);
}

}  // namespace quarry
