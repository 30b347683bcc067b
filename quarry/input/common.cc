// Shared by the readers of several formats.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "quarry/base/float16.h"
#include "quarry/base/utf8.h"
#include "quarry/description.h"
#include "quarry/format/description_rules.h"
#include "quarry/format/manifest.h"
#include "quarry/format/subfile.h"
#include "quarry/input/formats.h"

namespace quarry::input {

void PlaceAxis(const std::vector<double>& positions, std::optional<DataType> stored, SourceAxis* axis) {
  if (positions.empty() || !AreCoordinates(positions)) return;
  if (positions.size() == 1) {
    axis->origin = positions.front();
    return;
  }
  const double spacing = (positions.back() - positions.front()) / static_cast<double>(positions.size() - 1);
  if (!IsSpacing(spacing)) return;
  axis->origin = positions.front();
  axis->spacing = spacing;
  const double largest = std::max(std::abs(positions.front()), std::abs(positions.back()));
  // Positions near `largest`, rounded to float32, are off by at most half of 2^-23 of it; in float64 by
  // 2^-53, and sums of spacings by some times as much.
  const int digits = stored == DataType::kFloat32 ? 23 : 50;
  const double rounding = std::max(1e-6 * std::abs(spacing), std::ldexp(largest, -digits));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (std::abs(positions[i] - (positions.front() + spacing * static_cast<double>(i))) > rounding) {
      axis->coordinates = positions;
      return;
    }
  }
}

Result<Bytes> ReadBox(const Input& input, const Box& box) {
  Bytes samples(static_cast<std::size_t>(box.volume()) * SizeOf(input.info().type));
  if (!samples.empty()) QUARRY_RETURN_IF_ERROR(input.ReadBox(box, samples));
  return samples;
}

namespace internal {

namespace fs = std::filesystem;

std::string InputName::Source(const std::string& chosen) const {
  const fs::path plain = fs::path(file).lexically_normal();
  // A folder may end in a slash.
  std::string source = (plain.has_filename() ? plain : plain.parent_path()).filename().string();
  return chosen.empty() ? source : fmt::format("{}:{}", source, chosen);
}

InputName ParseInputName(const std::string& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return {path, path, ""};
  // The longest name that is a file: names like wrfout_d01_2019-07-04_12:00:00 have colons of their own.
  for (std::size_t colon = path.rfind(':'); colon != std::string::npos && colon > 0;
       colon = path.rfind(':', colon - 1)) {
    const std::string file = path.substr(0, colon);
    if (fs::is_regular_file(file, ignored)) return {path, file, path.substr(colon + 1)};
  }
  return {path, path, ""};
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Status CheckNoVariable(const InputName& input) {
  if (input.variable.empty()) return Status::Ok();
  return InvalidArgument("\"{}\" holds one field without a name; leave \":{}\" out", input.file,
                         input.variable);
}

std::string FieldFromName(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') c = '_';
  }
  while (!name.empty() && name[0] == '.') name.erase(0, 1);
  name.resize(std::min(name.size(), format::kMaxFieldName));
  return name.empty() ? "field" : name;
}

void NameField(const std::string& name, const InputOptions& options, InputInfo* info) {
  info->field = options.field.empty() ? FieldFromName(name) : options.field;
  std::string joined = name;
  std::ranges::replace(joined, '/', '_');
  if (options.field.empty() && info->field != joined) {
    info->warnings.push_back(
        fmt::format("the field is called \"{}\" here, and {} in the dataset; --field chooses another name",
                    Printable(name), info->field));
  }
}

std::string FieldFromPath(const std::string& path) { return FieldFromName(fs::path(path).stem().string()); }

std::optional<DataType> FloatOf(std::size_t bytes) {
  if (bytes == 4) return DataType::kFloat32;
  return bytes == 8 ? std::optional(DataType::kFloat64) : std::nullopt;
}

std::optional<DataType> IntegerOf(std::size_t bytes, bool is_signed) {
  if (bytes == 1) return is_signed ? DataType::kInt8 : DataType::kUint8;
  if (bytes == 2) return is_signed ? DataType::kInt16 : DataType::kUint16;
  if (bytes == 4) return is_signed ? DataType::kInt32 : DataType::kUint32;
  if (bytes == 8) return is_signed ? DataType::kInt64 : DataType::kUint64;
  return std::nullopt;
}

void SwapBytes(std::span<std::byte> samples, std::size_t size) {
  if (size == 1) return;
  for (std::size_t i = 0; i < samples.size(); i += size) {
    const auto sample = samples.subspan(i, size);
    std::reverse(sample.begin(), sample.end());
  }
}

std::span<std::byte> PlaceOfHalves(std::span<std::byte> samples) { return samples.last(samples.size() / 2); }

void WidenHalves(std::span<std::byte> samples) {
  const std::span<std::byte> halves = PlaceOfHalves(samples);
  for (std::size_t i = 0; i < samples.size() / sizeof(float); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, halves.data() + i * sizeof(half), sizeof(half));
    const float wide = FloatOfHalf(half);
    std::memcpy(samples.data() + i * sizeof(wide), &wide, sizeof(wide));
  }
}

namespace {

class WidenedInput final : public Input {
 public:
  explicit WidenedInput(std::unique_ptr<Input> halves) : Input(halves->info()), halves_(std::move(halves)) {
    info_.type = StoredTypeOf(GivenType::kFloat16);
    info_.given = GivenType::kFloat16;
  }

  Status ReadBox(const Box& box, std::span<std::byte> samples) const override {
    QUARRY_RETURN_IF_ERROR(halves_->ReadBox(box, PlaceOfHalves(samples)));
    WidenHalves(samples);
    return Status::Ok();
  }
  std::uint64_t images_read() const override { return halves_->images_read(); }

 private:
  std::unique_ptr<Input> halves_;
};

}  // namespace

std::unique_ptr<Input> WidenInput(std::unique_ptr<Input> halves) {
  return std::make_unique<WidenedInput>(std::move(halves));
}

namespace {

/// Paths of variables may be written with or without the slash of the root.
std::string_view WithoutSlash(std::string_view name) { return name.substr(name.starts_with('/') ? 1 : 0); }

std::string List(const std::vector<Variable>& variables) {
  std::string list;
  constexpr std::size_t kListed = 30;
  for (std::size_t i = 0; i < std::min(variables.size(), kListed); ++i) {
    const Variable& variable = variables[i];
    if (!list.empty()) list += ", ";
    list += variable.name;
    list += variable.obstacle.empty() ? " " + ToString(variable.dims) : " (" + variable.obstacle + ")";
  }
  if (variables.size() > kListed) list += fmt::format(", and {} more", variables.size() - kListed);
  return list;
}

}  // namespace

Result<std::size_t> ChooseVariable(const InputName& name, const std::vector<Variable>& variables) {
  const auto convertible = [](const Variable& variable) { return variable.obstacle.empty(); };
  if (!name.variable.empty()) {
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const Variable& variable = variables[i];
      if (WithoutSlash(variable.name) != WithoutSlash(name.variable)) continue;
      if (convertible(variable)) return i;
      return InvalidArgument("\"{}\" cannot be converted: {}", name.path, variable.obstacle);
    }
    if (variables.empty()) return NotFound("\"{}\" has no variables", name.file);
    return NotFound("\"{}\" has no variable \"{}\"; it holds {}", name.file, name.variable, List(variables));
  }
  // The field of a file has the most axes of all its variables: if it cannot be converted, nothing else is
  // taken in its place.
  int axes = 0;
  for (const Variable& variable : variables) axes = std::max(axes, variable.axes);
  std::vector<Variable> fields;
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (axes == 0 || variables[i].axes != axes) continue;
    fields.push_back(variables[i]);
    if (convertible(variables[i])) candidates.push_back(i);
  }
  if (candidates.size() == 1) return candidates.front();
  if (candidates.empty() && fields.size() == 1 && fields.front().name.empty())
    return InvalidArgument("\"{}\" cannot be converted as it is: {}", name.file, fields.front().obstacle);
  if (candidates.empty() && fields.size() == 1) {
    return InvalidArgument("\"{}\": its field {} cannot be converted as it is: {}", name.file,
                           fields.front().name, fields.front().obstacle);
  }
  if (candidates.empty()) {
    return InvalidArgument("\"{}\" has no field that can be converted{}{}", name.file,
                           variables.empty() ? "" : "; it holds ", List(variables));
  }
  std::vector<Variable> named;
  named.reserve(candidates.size());
  for (const std::size_t i : candidates) named.push_back(variables[i]);
  return InvalidArgument("\"{}\" holds several variables; name one, as in \"{}:{}\", out of {}", name.file,
                         name.file, named.front().name, List(named));
}

Status CheckOptions(const InputInfo& info, const InputOptions& options) {
  if (options.dims && *options.dims != info.dims) {
    return InvalidArgument("--dims {} contradict \"{}\", which holds {} (x,y,z); leave the option out",
                           ToString(*options.dims), info.path, ToString(info.dims));
  }
  if (options.type == DataType::kFloat32 && info.type == DataType::kFloat64) {
    return InvalidArgument(
        "--type float32 contradicts \"{}\", which holds float64; to convert it to float32, give "
        "--store-as float32 instead",
        info.path);
  }
  const auto name = [](DataType type, GivenType given) {
    return given == GivenType::kStored ? Name(type) : Name(given);
  };
  if (options.type && (*options.type != info.type || options.given != info.given)) {
    return InvalidArgument("--type {} contradicts \"{}\", which holds {}; leave the option out",
                           name(*options.type, options.given), info.path, name(info.type, info.given));
  }
  return Status::Ok();
}

namespace {

template <std::size_t kSize>
void CopyStrided(const std::byte* from, std::byte* to, const std::array<std::int64_t, 3>& counts,
                 const std::array<std::int64_t, 3>& strides) {
  // Walks both sides in tiles: otherwise one of them would touch a cache line for every sample.
  constexpr std::int64_t kTile = 32;
  for (std::int64_t i0 = 0; i0 < counts[0]; i0 += kTile) {
    for (std::int64_t j = 0; j < counts[1]; ++j) {
      for (std::int64_t k0 = 0; k0 < counts[2]; k0 += kTile) {
        for (std::int64_t i = i0; i < std::min(counts[0], i0 + kTile); ++i) {
          const std::byte* row = from + static_cast<std::size_t>((i * counts[1] + j) * counts[2]) * kSize;
          for (std::int64_t k = k0; k < std::min(counts[2], k0 + kTile); ++k) {
            std::memcpy(
                to + static_cast<std::size_t>(i * strides[0] + j * strides[1] + k * strides[2]) * kSize,
                row + static_cast<std::size_t>(k) * kSize, kSize);
          }
        }
      }
    }
  }
}

}  // namespace

void CopyPermuted(std::span<const std::byte> block, const Box& part, const std::array<int, 3>& order,
                  std::size_t size, const Box& box, std::span<std::byte> samples) {
  const Index3 shape = box.shape();
  const Index3 stride = {1, shape[0], shape[0] * shape[1]};
  std::int64_t first = 0;
  for (std::size_t a = 0; a < 3; ++a) first += (part.begin[a] - box.begin[a]) * stride[a];
  std::array<std::int64_t, 3> counts{};
  std::array<std::int64_t, 3> strides{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto axis = static_cast<std::size_t>(order[i]);
    counts[i] = part.shape()[axis];
    strides[i] = stride[axis];
  }
  std::byte* to = samples.data() + static_cast<std::size_t>(first) * size;
  if (size == 1) return CopyStrided<1>(block.data(), to, counts, strides);
  if (size == 2) return CopyStrided<2>(block.data(), to, counts, strides);
  if (size == 4) return CopyStrided<4>(block.data(), to, counts, strides);
  CopyStrided<8>(block.data(), to, counts, strides);
}

}  // namespace internal
}  // namespace quarry::input
