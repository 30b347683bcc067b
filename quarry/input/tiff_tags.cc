#include "quarry/input/tiff_tags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "quarry/base/numbers.h"
#include "quarry/data_type.h"

namespace quarry::input::internal {
namespace {

// Registered by Adobe for others, and unknown to libtiff.
constexpr std::uint32_t kMetaMorph = 33629;   // UIC2: planes of a .stk file
constexpr std::uint32_t kFluoView = 34361;    // MM_Header
constexpr std::uint32_t kZeissLsm = 34412;    // CZ_LSMINFO
constexpr std::uint32_t kImageDepth = 32997;  // tag of SGI: planes in a page
constexpr std::uint32_t kModelPixelScale = 33550;
constexpr std::uint32_t kModelTiepoint = 33922;
constexpr std::uint32_t kModelTransformation = 34264;
constexpr std::uint32_t kGeoKeyDirectory = 34735;
constexpr std::uint32_t kImageJByteCounts = 50838;
constexpr std::uint32_t kImageJMetadata = 50839;
constexpr std::uint32_t kGdalMetadata = 42112;
constexpr std::uint32_t kGdalNoData = 42113;

/// The values of a tag that libtiff does not know, if they have this type.
template <typename T>
std::span<const T> Values(TIFF* tiff, std::uint32_t tag, TIFFDataType type) {
  const TIFFField* field = TIFFFindField(tiff, tag, TIFF_ANY);
  if (field == nullptr || TIFFFieldPassCount(field) == 0) return {};
  T* values = nullptr;
  std::uint32_t count = 0;
  if (TIFFFieldReadCount(field) == TIFF_VARIABLE2) {
    if (TIFFGetField(tiff, tag, &count, &values) == 0) return {};
  } else {
    std::uint16_t short_count = 0;
    if (TIFFGetField(tiff, tag, &short_count, &values) == 0) return {};
    count = short_count;
  }
  if (values == nullptr || TIFFFieldDataType(field) != type) return {};
  return {values, count};
}

bool Has(TIFF* tiff, std::uint32_t tag) {
  const TIFFField* field = TIFFFindField(tiff, tag, TIFF_ANY);
  if (field == nullptr || TIFFFieldPassCount(field) == 0) return false;
  void* values = nullptr;
  std::uint32_t count = 0;
  return TIFFGetField(tiff, tag, &count, &values) != 0;
}

std::string Text(TIFF* tiff, std::uint32_t tag) {
  const std::span<const char> text = Values<char>(tiff, tag, TIFF_ASCII);
  return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

/// libtiff gives rational numbers as float32: the shortest number that is the same.
double Shortest(float value) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  double shortest = 0;
  std::from_chars(text.data(), written.ptr, shortest);
  return shortest;
}

/// "-9999", "nan": as a sample of the type, or a warning.
void TakeNoData(TIFF* tiff, InputInfo* info) {
  std::string text = Text(tiff, kGdalNoData);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  if (text.empty()) return;
  double value = 0;
  if (!ReadNumber(text, &value)) {
    info->warnings.push_back(fmt::format("GDAL's nodata value \"{}\" is not a number and is ignored", text));
    return;
  }
  const bool fits = DispatchType(info->type, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (std::is_integral_v<T>) {
      if (!(value >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
            value <= static_cast<double>(std::numeric_limits<T>::max())) ||
          value != std::floor(value))
        return false;
    }
    value = static_cast<double>(static_cast<T>(value));
    return true;
  });
  if (fits) {
    info->fill = value;
  } else {
    info->warnings.push_back(
        fmt::format("GDAL's nodata value {} is not a {}, so no sample has it", text, Name(info->type)));
  }
}

/// The text of an item of GDAL's metadata with this role: <Item name="SCALE" sample="0"
/// role="scale">0.1</Item>.
std::string ItemOf(const std::string& xml, const std::string& role) {
  const std::size_t at = xml.find("role=\"" + role + "\"");
  const std::size_t begin = at == std::string::npos ? at : xml.find('>', at);
  const std::size_t end = begin == std::string::npos ? begin : xml.find('<', begin);
  return end == std::string::npos ? "" : xml.substr(begin + 1, end - begin - 1);
}

void TakeGdal(TIFF* tiff, InputInfo* info) {
  TakeNoData(tiff, info);
  const std::string metadata = Text(tiff, kGdalMetadata);
  info->units = ItemOf(metadata, "unittype");
  const std::string scale = ItemOf(metadata, "scale");
  const std::string offset = ItemOf(metadata, "offset");
  if ((scale.empty() || scale == "1") && (offset.empty() || offset == "0")) return;
  info->warnings.push_back(fmt::format(
      "GDAL's scale and offset are not applied: samples are as stored, and stand for {} * sample + {}",
      scale.empty() ? "1" : scale, offset.empty() ? "0" : offset));
}

/// A short of GeoTIFF's keys: rows of key, place, count and value behind a head of four.
int GeoKey(std::span<const std::uint16_t> keys, int key) {
  for (std::size_t i = 4; i + 3 < keys.size(); i += 4) {
    if (keys[i] == key && keys[i + 1] == 0) return keys[i + 3];
  }
  return 0;
}

/// @source OGC GeoTIFF 1.1, section 7
void TakeGeo(TIFF* tiff, InputInfo* info) {
  const auto scale = Values<double>(tiff, kModelPixelScale, TIFF_DOUBLE);
  const auto tie = Values<double>(tiff, kModelTiepoint, TIFF_DOUBLE);
  const auto keys = Values<std::uint16_t>(tiff, kGeoKeyDirectory, TIFF_SHORT);
  if (Has(tiff, kModelTransformation) || (!tie.empty() && (scale.size() < 2 || tie.size() != 6))) {
    info->warnings.emplace_back(
        "GeoTIFF's positions (ModelTransformation or several ModelTiepoints) are not kept; give --origin and "
        "--spacing");
    return;
  }
  if (scale.size() < 2 || tie.size() < 6) return;
  // Samples of areas lie in their middle. Rows go down.
  const double middle = GeoKey(keys, 1025) == 2 ? 0 : 0.5;
  const std::array<double, 2> spacing = {scale[0], -scale[1]};
  const bool is_degrees = GeoKey(keys, 1024) == 2;
  const int length = GeoKey(keys, 3076);
  for (std::size_t a = 0; a < 2; ++a) {
    const double origin = tie[3 + a] + (middle - tie[a]) * spacing[a];
    if (!std::isfinite(origin) || !std::isfinite(spacing[a]) || spacing[a] == 0) return;
    info->axes[a].spacing = spacing[a];
    info->axes[a].origin = origin;
    info->axes[a].units = is_degrees       ? (a == 0 ? "degrees_east" : "degrees_north")
                          : length == 9001 ? "m"
                                           : "";
    if (is_degrees) info->axes[a].name = a == 0 ? "lon" : "lat";
  }
  const int system = GeoKey(keys, is_degrees ? 2048 : 3072);
  if (system != 0 && system != 4326)
    info->warnings.push_back(fmt::format("its coordinate reference system (EPSG:{}) is not kept", system));
}

void TakeColours(TIFF* tiff, InputInfo* info) {
  std::uint16_t photometric = PHOTOMETRIC_MINISBLACK;
  TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
  if (photometric == PHOTOMETRIC_MINISWHITE)
    info->warnings.emplace_back("0 is white in its images (MINISWHITE); samples are kept as stored");
  if (photometric == PHOTOMETRIC_PALETTE)
    info->warnings.emplace_back("its colour map is not kept; samples are the indices of colours");
  std::uint16_t orientation = ORIENTATION_TOPLEFT;
  TIFFGetField(tiff, TIFFTAG_ORIENTATION, &orientation);
  if (orientation != ORIENTATION_TOPLEFT) {
    info->warnings.push_back(
        fmt::format("its images are to be shown turned (Orientation {}); rows and columns are kept as stored",
                    orientation));
  }
}

/// Text of ASCII in UTF-16; empty if it is more.
std::string FromUtf16(std::span<const std::uint8_t> bytes, bool little_endian) {
  std::string text;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const std::uint8_t high = bytes[i + (little_endian ? 1 : 0)];
    const std::uint8_t low = bytes[i + (little_endian ? 0 : 1)];
    if (high != 0 || low >= 128) return "";
    text += static_cast<char>(low);
  }
  return text;
}

}  // namespace

std::string DescriptionOf(TIFF* tiff) {
  char* description = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_IMAGEDESCRIPTION, &description) == 0 || description == nullptr) return "";
  return description;
}

Resolution ResolutionOf(TIFF* tiff) {
  Resolution resolution;
  float x = 0;
  float y = 0;
  std::uint16_t unit = RESUNIT_INCH;  // default of a missing tag
  if (TIFFGetField(tiff, TIFFTAG_XRESOLUTION, &x) != 0 && std::isfinite(x)) resolution.x = Shortest(x);
  if (TIFFGetField(tiff, TIFFTAG_YRESOLUTION, &y) != 0 && std::isfinite(y)) resolution.y = Shortest(y);
  TIFFGetField(tiff, TIFFTAG_RESOLUTIONUNIT, &unit);
  resolution.unit = unit;
  return resolution;
}

std::string ImageJInfo(TIFF* tiff) {
  const auto counts = Values<std::uint32_t>(tiff, kImageJByteCounts, TIFF_LONG);
  const auto bytes = Values<std::uint8_t>(tiff, kImageJMetadata, TIFF_BYTE);
  // The head: a mark, and for each kind its name and how many parts it has. Names are numbers in the order of
  // the file.
  if (counts.empty() || counts[0] > bytes.size() || counts[0] < 4) return "";
  const bool swapped = bytes[0] == 'J';
  const auto number = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | bytes[at + (swapped ? 3 - i : i)];
    return value;
  };
  constexpr std::uint32_t kInfo = 0x696e666f;  // "info"
  std::size_t part = 1;
  std::size_t begin = counts[0];
  for (std::size_t at = 4; at + 8 <= counts[0]; at += 8) {
    for (std::uint32_t i = 0; i < number(at + 4) && part < counts.size(); ++i, begin += counts[part++]) {
      if (counts[part] > bytes.size() - begin) return "";
      if (number(at) == kInfo) return FromUtf16(bytes.subspan(begin, counts[part]), swapped);
    }
  }
  return "";
}

Status CheckKind(TIFF* tiff) {
  for (const auto& [tag, name] :
       {std::pair{kMetaMorph, "MetaMorph (.stk)"}, {kFluoView, "FluoView"}, {kZeissLsm, "Zeiss LSM"}}) {
    if (!Has(tiff, tag)) continue;
    return InvalidArgument(
        "it is of the kind {}, whose planes, channels and times are in tags of its own, which are not read; "
        "save it as OME-TIFF, as with Bio-Formats' bfconvert",
        name);
  }
  std::uint32_t depth = 1;
  if (TIFFGetField(tiff, kImageDepth, &depth) != 0 && depth > 1) {
    return InvalidArgument(
        "its pages have {} planes each (ImageDepth), which are not read; save a page for each", depth);
  }
  return Status::Ok();
}

void TakeTags(TIFF* tiff, InputInfo* info) {
  TakeGdal(tiff, info);
  TakeGeo(tiff, info);
  TakeColours(tiff, info);
}

}  // namespace quarry::input::internal
