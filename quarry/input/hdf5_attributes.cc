#include "quarry/input/hdf5_attributes.h"

#include <algorithm>

#include "quarry/format/attribute_rules.h"
#include "quarry/format/description_rules.h"
#include "quarry/input/conventions.h"
#include "quarry/input/hdf5_types.h"

namespace quarry::input::internal {
namespace {

std::vector<std::string> TextsOf(hid_t attribute, hid_t type, std::size_t count) {
  constexpr std::size_t kMost = 1 << 20;
  std::vector<std::string> texts;
  if (H5Tis_variable_str(type) > 0) {
    const Handle space(H5Aget_space(attribute), H5Sclose);
    std::vector<char*> strings(count, nullptr);
    if (H5Aread(attribute, type, strings.data()) < 0) return {};
    for (const char* string : strings) texts.emplace_back(string == nullptr ? "" : string);
    H5Dvlen_reclaim(type, space.get(), H5P_DEFAULT, strings.data());
    return texts;
  }
  const std::size_t size = H5Tget_size(type);
  if (size == 0 || size > kMost / count) return {};
  std::string buffer(size * count, '\0');
  if (H5Aread(attribute, type, buffer.data()) < 0) return {};
  for (std::size_t i = 0; i < count; ++i) {
    std::string text = buffer.substr(i * size, size);
    text.resize(std::min(text.find('\0'), text.size()));
    while (!text.empty() && text.back() == ' ') text.pop_back();
    texts.push_back(std::move(text));
  }
  return texts;
}

/// Texts of variable length, some at a time: several may refer to one that is long.
/// @param space  of the file, with what is to be read selected
Status AddStrings(hid_t dataset, hid_t type, hid_t memory, hid_t space, std::vector<std::string>* texts) {
  std::vector<char*> strings(static_cast<std::size_t>(H5Sget_select_npoints(space)));
  if (H5Dread(dataset, type, memory, space, H5P_DEFAULT, strings.data()) < 0)
    return DataLoss("{}", Hdf5Error());
  for (const char* string : strings) texts->emplace_back(string == nullptr ? "" : string);
  H5Dvlen_reclaim(type, memory, H5P_DEFAULT, strings.data());
  return Status::Ok();
}

/// Numbers or texts of an attribute; nothing for other kinds, or attributes that are too long.
std::optional<FileAttribute> ReadAttribute(hid_t object, const char* name) {
  const Handle opened = OpenAttribute(object, name);
  if (!opened.ok()) return std::nullopt;
  const Handle type(H5Aget_type(opened.get()), H5Tclose);
  const Handle space(H5Aget_space(opened.get()), H5Sclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  constexpr auto kMost = static_cast<hssize_t>(kMaxAttributeBytes);
  if (count < 0 || count > kMost) return std::nullopt;
  FileAttribute attribute;
  attribute.is_list = H5Sget_simple_extent_ndims(space.get()) > 0 && count == 0;
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL && kind == H5T_STRING) {
    attribute.texts = {""};  // as h5py and netCDF write an empty text
    return attribute;
  }
  if (kind == H5T_STRING) {
    if (count == 0) return attribute;
    attribute.texts = TextsOf(opened.get(), type.get(), static_cast<std::size_t>(count));
    return attribute;
  }
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) return std::nullopt;
  // float16 and long double are float64 here.
  attribute.type = ToDataType(type.get()).value_or(DataType::kFloat64);
  attribute.numbers.resize(static_cast<std::size_t>(count));
  if (H5Aread(opened.get(), H5T_NATIVE_DOUBLE, attribute.numbers.data()) < 0) return std::nullopt;
  if (kind == H5T_INTEGER && H5Tget_size(type.get()) == 8) {
    const auto read = [&](auto sample, hid_t native) {
      std::vector<decltype(sample)> numbers(static_cast<std::size_t>(count));
      if (H5Aread(opened.get(), native, numbers.data()) >= 0)
        attribute.exact.assign(numbers.begin(), numbers.end());
    };
    H5Tget_sign(type.get()) == H5T_SGN_NONE ? read(std::uint64_t{}, H5T_NATIVE_UINT64)
                                            : read(std::int64_t{}, H5T_NATIVE_INT64);
  }
  return attribute;
}

}  // namespace

std::string Hdf5Error() {
  std::string text = "no reason given";
  const auto take_first = [](unsigned, const H5E_error2_t* error, void* data) -> herr_t {
    *static_cast<std::string*>(data) = error->desc == nullptr ? "no reason given" : error->desc;
    return 1;  // the first is the innermost
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  return text;
}

Handle OpenAttribute(hid_t object, const char* name) {
  if (H5Aexists(object, name) <= 0) return {};
  return {H5Aopen(object, name, H5P_DEFAULT), H5Aclose};
}

Result<std::vector<std::string>> ReadStrings(hid_t dataset, hid_t type, std::size_t count) {
  constexpr hsize_t kAtATime = 256;
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank > 1) return InvalidArgument("there are texts along {} dimensions; those of one are read", rank);
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  while (texts.size() < count && bytes <= kMaxTextBytes) {
    const std::size_t before = texts.size();
    const hsize_t start = before;
    const hsize_t some = rank == 0 ? 1 : std::min<hsize_t>(kAtATime, count - before);
    const Handle memory(rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &some, nullptr), H5Sclose);
    if (rank == 1 && H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, &start, nullptr, &some, nullptr) < 0)
      return DataLoss("{}", Hdf5Error());
    QUARRY_RETURN_IF_ERROR(AddStrings(dataset, type, memory.get(), space.get(), &texts));
    for (std::size_t i = before; i < texts.size(); ++i) bytes += texts[i].size();
  }
  if (bytes <= kMaxTextBytes) return texts;
  return InvalidArgument("there are more than {} bytes of text; so many are read", kMaxTextBytes);
}

FileAttributes ReadAttributes(hid_t object) {
  std::vector<std::string> names;
  const auto take = [](hid_t, const char* name, const H5A_info_t*, void* data) -> herr_t {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  };
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, take, &names);
  FileAttributes attributes;
  for (const std::string& name : names) {
    if (std::optional<FileAttribute> attribute = ReadAttribute(object, name.c_str())) {
      attributes[name] = *std::move(attribute);
    } else {
      attributes.left.push_back(name);
    }
  }
  return attributes;
}

std::vector<double> Numbers(hid_t object, const char* name) {
  const std::optional<FileAttribute> attribute = ReadAttribute(object, name);
  return attribute ? attribute->numbers : std::vector<double>();
}

std::optional<double> Number(hid_t object, const char* name) {
  const std::vector<double> values = Numbers(object, name);
  return values.empty() ? std::nullopt : std::optional(values.front());
}

std::vector<std::string> Texts(hid_t object, const char* name) {
  const std::optional<FileAttribute> attribute = ReadAttribute(object, name);
  return attribute ? attribute->texts : std::vector<std::string>();
}

std::string Text(hid_t object, const char* name) {
  const std::vector<std::string> texts = Texts(object, name);
  return texts.size() == 1 ? texts.front() : "";
}

std::string Parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

}  // namespace quarry::input::internal
