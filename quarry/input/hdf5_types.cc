#include "quarry/input/hdf5_types.h"

namespace quarry::input::internal {

std::optional<DataType> ToDataType(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  if (H5Tget_class(type) == H5T_FLOAT) return FloatOf(size);
  if (H5Tget_class(type) != H5T_INTEGER) return std::nullopt;
  return IntegerOf(size, H5Tget_sign(type) != H5T_SGN_NONE);
}

std::optional<DataType> TypeOfParts(hid_t type) {
  if (H5Tget_class(type) != H5T_COMPOUND || H5Tget_nmembers(type) != 2) return std::nullopt;
  const auto name = [&](unsigned member) {
    char* const text = H5Tget_member_name(type, member);
    const std::string copy = text == nullptr ? "" : text;
    H5free_memory(text);
    return copy;
  };
  if (!IsComplex(name(0), name(1))) return std::nullopt;
  const Handle real(H5Tget_member_type(type, 0), H5Tclose);
  const Handle imaginary(H5Tget_member_type(type, 1), H5Tclose);
  const std::optional<DataType> part = ToDataType(real.get());
  if (!part || !IsFloat(*part) || ToDataType(imaginary.get()) != part) return std::nullopt;
  return part;
}

hid_t TypeOfPart(hid_t dataset, Part part, hid_t native) {
  const Handle type(H5Dget_type(dataset), H5Tclose);
  char* const name = H5Tget_member_name(type.get(), part == Part::kImaginary ? 1 : 0);
  const hid_t own = H5Tcreate(H5T_COMPOUND, H5Tget_size(native));
  H5Tinsert(own, name, 0, native);
  H5free_memory(name);
  return own;
}

hid_t NativeType(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return H5T_NATIVE_FLOAT;
    case DataType::kFloat64:
      return H5T_NATIVE_DOUBLE;
    case DataType::kInt8:
      return H5T_NATIVE_INT8;
    case DataType::kUint8:
      return H5T_NATIVE_UINT8;
    case DataType::kInt16:
      return H5T_NATIVE_INT16;
    case DataType::kUint16:
      return H5T_NATIVE_UINT16;
    case DataType::kInt32:
      return H5T_NATIVE_INT32;
    case DataType::kUint32:
      return H5T_NATIVE_UINT32;
    case DataType::kInt64:
      return H5T_NATIVE_INT64;
    case DataType::kUint64:
      break;
  }
  return H5T_NATIVE_UINT64;
}

hid_t BitsOfType(hid_t dataset) {
  const Handle type(H5Dget_type(dataset), H5Tclose);
  const hid_t own = H5Tcopy(type.get());
  if (H5Tget_class(own) == H5T_FLOAT) H5Tset_order(own, H5Tget_order(H5T_NATIVE_FLOAT));
  return own;
}

GivenType ToGivenType(hid_t type) {
  if (H5Tget_class(type) == H5T_FLOAT && H5Tget_size(type) == 2) {
    std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
    const bool is_half =
        H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0 && sign == 15 &&
        exponent == 10 && exponent_bits == 5 && mantissa == 0 && mantissa_bits == 10 &&
        H5Tget_ebias(type) == 15;
    return is_half ? GivenType::kFloat16 : GivenType::kStored;
  }
  if (H5Tget_class(type) != H5T_ENUM || H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2)
    return GivenType::kStored;
  std::int8_t no = -1;
  std::int8_t yes = -1;
  const bool is_bool = H5Tenum_valueof(type, "FALSE", &no) >= 0 && H5Tenum_valueof(type, "TRUE", &yes) >= 0 &&
                       no == 0 && yes == 1;
  return is_bool ? GivenType::kBool : GivenType::kStored;
}

}  // namespace quarry::input::internal
