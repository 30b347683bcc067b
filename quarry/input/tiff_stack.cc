#include "quarry/input/tiff_stack.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "quarry/base/split.h"

namespace quarry::input::internal {
namespace {

std::optional<double> ToNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Beyond what any program writes; bounds the time and memory that a damaged description takes.
constexpr std::int64_t kMostImages = 1 << 24;

std::optional<std::int64_t> ToCount(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > kMostImages) return std::nullopt;
  return value;
}

/// "um" for every way in which micrometres are written; else the text itself, without what says that there is
/// none.
std::string LengthUnit(std::string unit) {
  unit.erase(0, std::min(unit.find_first_not_of(" \t\r"), unit.size()));
  unit.resize(unit.find_last_not_of(" \t\r") + 1);
  for (const char* name : {"\\u00B5m", "\\u00b5m", "&#181;m", "&#xB5;m", "&#xb5;m", "&#956;m", "\xc2\xb5m",
                           "\xce\xbcm", "\xb5m", "micron", "microns", "micrometer"}) {
    if (unit == name) return "um";
  }
  if (unit == "pixel" || unit == "pixels" || unit == "null") return "";
  return unit;
}

/// The unit of time that CF knows, of the words that people write.
std::string TimeUnitName(const std::string& unit) {
  static const auto& kNames = *new const std::map<std::string, std::string>{
      {"sec", "s"}, {"seconds", "s"}, {"second", "s"}, {"msec", "ms"}, {"minutes", "min"}, {"hr", "h"}};
  const auto known = kNames.find(unit);
  return known == kNames.end() ? unit : known->second;
}

AxisDimension Planes(std::int64_t count) { return {"z", count, Role::kUnknown}; }
AxisDimension Frames(const std::string& name, std::int64_t count) { return {name, count, Role::kTime}; }
AxisDimension Others(const std::string& name, std::int64_t count) { return {name, count, Role::kOther}; }

void Place(SourceAxis* axis, std::optional<double> spacing, const std::string& unit) {
  if (!spacing || !(std::abs(*spacing) > 0)) return;
  axis->spacing = spacing;
  axis->origin = 0.0;
  axis->units = unit;
}

/// The size of a pixel from the tags; 72 pixels in an inch are what programs write that know nothing.
void PlaceByResolution(const Resolution& resolution, const std::string& unit, Stack* stack) {
  if (resolution.x > 0) Place(&stack->axes[0], 1 / resolution.x, unit);
  if (resolution.y > 0) Place(&stack->axes[1], 1 / resolution.y, unit);
}

// ---- ImageJ: lines of NAME=VALUE

using Lines = std::map<std::string, std::string>;

Lines ParseLines(const std::string& text) {
  Lines lines;
  for (const std::string_view line : Split(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      lines[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  return lines;
}

std::optional<double> NumberOf(const Lines& lines, const std::string& name) {
  const auto line = lines.find(name);
  return line == lines.end() ? std::nullopt : ToNumber(line->second);
}

std::string TextOf(const Lines& lines, const std::string& name) {
  const auto line = lines.find(name);
  return line == lines.end() ? "" : line->second;
}

std::int64_t CountOf(const Lines& lines, const std::string& name, std::int64_t otherwise) {
  const std::string text = TextOf(lines, name);
  return text.empty() ? otherwise : ToCount(text).value_or(0);
}

/// Samples of ImageJ may stand for other values. They are kept as they are.
void WarnOfCalibration(const Lines& lines, Stack* stack) {
  if (TextOf(lines, "cf").empty()) return;
  if (CountOf(lines, "cf", -1) == 0) {
    stack->warnings.push_back(fmt::format(
        "ImageJ's calibration is not applied: samples are as stored, and stand for {} + {} * sample{}",
        TextOf(lines, "c0"), TextOf(lines, "c1"),
        TextOf(lines, "vunit").empty() ? "" : fmt::format(" in \"{}\"", TextOf(lines, "vunit"))));
  } else {
    stack->warnings.push_back("ImageJ's calibration (cf) is not applied: samples are as stored");
  }
}

void PlaceByImageJ(const Lines& lines, const Resolution& resolution, Stack* stack) {
  std::string unit = LengthUnit(TextOf(lines, "unit"));
  const bool says_none = TextOf(lines, "unit").empty() && resolution.unit != 2 && resolution.unit != 3;
  if (unit.empty() && resolution.unit == 2) unit = "inch";
  if (unit.empty() && resolution.unit == 3) unit = "cm";
  if (!says_none) PlaceByResolution(resolution, unit, stack);
  Place(&stack->axes[2], NumberOf(lines, "spacing"), says_none ? "" : unit);
  // Origins of ImageJ are pixels.
  for (std::size_t a = 0; a < 3; ++a) {
    const std::optional<double> pixel = NumberOf(lines, std::string(1, "xyz"[a]) + "origin");
    if (pixel && stack->axes[a].spacing) stack->axes[a].origin = -*pixel * *stack->axes[a].spacing + 0.0;
  }
}

Result<Stack> DescribeImageJ(const std::string& description, std::int64_t pages,
                             const Resolution& resolution) {
  const Lines lines = ParseLines(description);
  Stack stack;
  stack.writer = "ImageJ";
  stack.may_be_contiguous = true;
  const std::int64_t images = CountOf(lines, "images", pages);
  const std::int64_t channels = CountOf(lines, "channels", 1);
  const std::int64_t frames = CountOf(lines, "frames", 1);
  // Each is at most 2^24.
  const std::int64_t others = std::max<std::int64_t>(1, channels * frames);
  const std::int64_t slices = CountOf(lines, "slices", images / others);
  std::int64_t product = 0;
  if (__builtin_mul_overflow(channels * frames, slices, &product) || product != images || images < 1) {
    return InvalidArgument(
        "ImageJ's description says {} channels, {} slices and {} frames, which are not its {} images",
        channels, slices, frames, images);
  }
  // Pages are in the order XYCZT, whatever the file is called.
  if (frames > 1) stack.dimensions.push_back(Frames("frame", frames));
  stack.dimensions.push_back(Planes(slices));
  if (channels > 1) stack.dimensions.push_back(Others("channel", channels));
  PlaceByImageJ(lines, resolution, &stack);
  if (const auto interval = NumberOf(lines, "finterval"); interval && *interval > 0) {
    for (std::int64_t t = 0; t < frames; ++t) stack.times.push_back(*interval * static_cast<double>(t));
    const std::string unit = TextOf(lines, "tunit");
    stack.time_unit.units = unit.empty() ? "s" : TimeUnitName(unit);
  }
  WarnOfCalibration(lines, &stack);
  return stack;
}

// ---- OME: XML

/// A tag of XML with its attributes. Enough for OME-XML, which programs write.
struct Tag {
  std::string_view text;  ///< between < and >

  std::string_view name() const {
    return text.substr(0, std::min(text.find_first_of(" \t\r\n/"), text.size()));
  }
  std::string_view Attribute(std::string_view wanted) const {
    for (std::size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + 1)) {
      const std::size_t equals = at + wanted.size();
      if (at == 0 || !std::isspace(static_cast<unsigned char>(text[at - 1])) || equals + 1 >= text.size() ||
          text[equals] != '=')
        continue;
      const std::size_t end = text.find(text[equals + 1], equals + 2);
      if (end != std::string_view::npos) return text.substr(equals + 2, end - equals - 2);
    }
    return {};
  }
};

/// All tags of a text, without comments and instructions, and without the prefix "OME:".
std::vector<Tag> ListTags(std::string_view text) {
  std::vector<Tag> tags;
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    if (text.substr(at).starts_with("<!--")) {
      at = text.find("-->", at);
      if (at == std::string_view::npos) break;
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == std::string_view::npos) break;
    std::string_view inside = text.substr(at + 1, end - at - 1);
    if (inside.starts_with("OME:")) inside.remove_prefix(4);
    if (!inside.empty() && inside[0] != '?' && inside[0] != '/' && inside[0] != '!') tags.push_back({inside});
  }
  return tags;
}

/// Dimensions of OME in the order of the pages, fastest first: "ZCT".
struct OmePixels {
  std::array<std::int64_t, 3> sizes = {1, 1, 1};  ///< z, c, t
  std::string order;                              ///< letters Z, C and T, fastest first

  std::int64_t images() const { return sizes[0] * sizes[1] * sizes[2]; }
  static std::size_t Number(char letter) { return letter == 'Z' ? 0 : letter == 'C' ? 1 : 2; }
};

Result<OmePixels> ReadPixels(const Tag& tag) {
  OmePixels pixels;
  const char* names[3] = {"SizeZ", "SizeC", "SizeT"};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto size = ToCount(tag.Attribute(names[i]));
    if (!size || *size < 1) return DataLoss("its OME-XML has no proper {}", names[i]);
    pixels.sizes[i] = *size;
  }
  if (pixels.sizes[0] * pixels.sizes[1] > kMostImages || pixels.images() > kMostImages)
    return DataLoss("its OME-XML says {} images, which are not possible", fmt::join(pixels.sizes, "x"));
  const std::string order(tag.Attribute("DimensionOrder"));
  std::string letters = order.size() == 5 && order.starts_with("XY") ? order.substr(2) : "";
  pixels.order = letters;
  std::sort(letters.begin(), letters.end());
  if (letters != "CTZ") return DataLoss("its OME-XML has the impossible DimensionOrder \"{}\"", order);
  return pixels;
}

/// One element TiffData: which pages have which images.
struct TiffData {
  std::optional<std::int64_t> page;
  std::array<std::int64_t, 3> first{};  ///< z, c, t
  std::optional<std::int64_t> count;
};

/// The page of each image, in the order [t][z][c]; -1: none.
Result<std::vector<std::int64_t>> PlacePages(const OmePixels& pixels, const std::vector<TiffData>& elements,
                                             std::int64_t pages) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(pixels.images()), -1);
  for (const TiffData& data : elements) {
    std::array<std::int64_t, 3> at = data.first;
    const std::int64_t first = data.page.value_or(0);
    const std::int64_t count = std::min({data.count.value_or(data.page ? 1 : pages), pages, pixels.images()});
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < 3; ++k) {
        if (at[k] < 0 || at[k] >= pixels.sizes[k])
          return DataLoss("its OME-XML (TiffData) places an image outside of its {}", pixels.images());
      }
      places[static_cast<std::size_t>((at[2] * pixels.sizes[0] + at[0]) * pixels.sizes[1] + at[1])] =
          first + i;
      for (const char letter : pixels.order) {
        const std::size_t k = OmePixels::Number(letter);
        if (++at[k] < pixels.sizes[k]) break;
        if (letter != pixels.order.back()) at[k] = 0;
      }
    }
  }
  return places;
}

/// An image of OME: its tags between <Image> and the next one.
struct OmeImage {
  std::optional<Tag> pixels;
  std::vector<TiffData> data;
  std::set<std::string> files;
  std::vector<std::string> channels;
  std::map<std::int64_t, double> deltas;  ///< time of plane 0 of channel 0, by t
  std::string delta_unit;
};

void TakePlane(const Tag& tag, OmeImage* image) {
  const auto delta = ToNumber(tag.Attribute("DeltaT"));
  const auto t = ToCount(tag.Attribute("TheT"));
  if (!delta || !t || tag.Attribute("TheZ") != "0" || tag.Attribute("TheC") != "0") return;
  image->deltas[*t] = *delta;
  image->delta_unit = std::string(tag.Attribute("DeltaTUnit"));
}

void TakeTag(const Tag& tag, OmeImage* image) {
  if (tag.name() == "Pixels" && !image->pixels) image->pixels = tag;
  if (tag.name() == "Channel") image->channels.emplace_back(tag.Attribute("Name"));
  if (tag.name() == "UUID") image->files.emplace(tag.Attribute("FileName"));
  if (tag.name() == "Plane") TakePlane(tag, image);
  if (tag.name() != "TiffData") return;
  TiffData data;
  data.page = ToCount(tag.Attribute("IFD"));
  data.first = {ToCount(tag.Attribute("FirstZ")).value_or(0), ToCount(tag.Attribute("FirstC")).value_or(0),
                ToCount(tag.Attribute("FirstT")).value_or(0)};
  data.count = ToCount(tag.Attribute("PlaneCount"));
  image->data.push_back(data);
}

std::string UnitOr(std::string_view unit, const char* otherwise) {
  return unit.empty() ? otherwise : std::string(unit);
}

void TakeTimes(const OmeImage& image, const OmePixels& pixels, Stack* stack) {
  const std::int64_t frames = pixels.sizes[2];
  if (static_cast<std::int64_t>(image.deltas.size()) == frames &&
      image.deltas.rbegin()->first == frames - 1) {
    for (const auto& [t, delta] : image.deltas) stack->times.push_back(delta);
    stack->time_unit.units = TimeUnitName(UnitOr(image.delta_unit, "s"));
    return;
  }
  const auto increment = ToNumber(image.pixels->Attribute("TimeIncrement"));
  if (!increment || !(*increment > 0)) return;
  for (std::int64_t t = 0; t < frames; ++t) stack->times.push_back(*increment * static_cast<double>(t));
  stack->time_unit.units = TimeUnitName(UnitOr(image.pixels->Attribute("TimeIncrementUnit"), "s"));
}

Result<Stack> DescribeOme(const std::string& description, std::int64_t pages, const std::string& file_name) {
  std::vector<OmeImage> images;
  for (const Tag& tag : ListTags(description)) {
    if (tag.name() == "BinaryOnly") {
      return InvalidArgument(
          "its OME-XML is in another file, \"{}\"; save the images as one OME-TIFF, as with Bio-Formats' "
          "bfconvert",
          tag.Attribute("MetadataFile"));
    }
    if (tag.name() == "Image") images.emplace_back();
    if (!images.empty()) TakeTag(tag, &images.back());
  }
  if (images.empty() || !images.front().pixels) return DataLoss("its OME-XML has no image");
  if (images.size() > 1) {
    return InvalidArgument(
        "its OME-XML has {} images of their own (series); save the one that you want as a file",
        images.size());
  }
  const OmeImage& image = images.front();
  QUARRY_ASSIGN_OR_RETURN(const OmePixels pixels, ReadPixels(*image.pixels));
  if (image.files.size() > 1) {
    return InvalidArgument(
        "its OME-XML spreads the image over {} files, of which this (\"{}\") is one; save it as one file, as "
        "with Bio-Formats' bfconvert",
        image.files.size(), file_name);
  }
  Stack stack;
  stack.writer = "OME-XML";
  stack.dimensions = {Frames("frame", pixels.sizes[2]), Planes(pixels.sizes[0]),
                      Others("channel", pixels.sizes[1])};
  QUARRY_ASSIGN_OR_RETURN(
      stack.pages,
      PlacePages(pixels, image.data.empty() ? std::vector<TiffData>{{{}, {}, pixels.images()}} : image.data,
                 pages));
  for (const char* axis : {"X", "Y", "Z"}) {
    const std::string name = fmt::format("PhysicalSize{}", axis);
    Place(&stack.axes[static_cast<std::size_t>(axis[0] - 'X')], ToNumber(image.pixels->Attribute(name)),
          LengthUnit(UnitOr(image.pixels->Attribute(name + "Unit"), "um")));
  }
  TakeTimes(image, pixels, &stack);
  if (static_cast<std::int64_t>(image.channels.size()) == pixels.sizes[1]) stack.channels = image.channels;
  return stack;
}

// ---- tifffile: {"shape": [2, 3, 16, 16], "axes": "TZYX"}

std::vector<std::int64_t> NumbersOf(const std::string& text, const std::string& key) {
  std::vector<std::int64_t> numbers;
  std::size_t at = text.find("\"" + key + "\":");
  if (at == std::string::npos || (at = text.find('[', at)) == std::string::npos) return numbers;
  const std::size_t end = text.find(']', at);
  while (end != std::string::npos && ++at < end) {
    const std::size_t next = std::min(text.find_first_of(",]", at), end);
    std::string_view word = std::string_view(text).substr(at, next - at);
    word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
    const auto number = ToCount(word);
    if (!number) return {};
    numbers.push_back(*number);
    at = next;
  }
  return numbers;
}

/// The letters that the user or the file gives the dimensions; empty: none.
std::string AxesOf(const std::string& text) {
  const std::size_t at = text.find("\"axes\": \"");
  if (at == std::string::npos) return "";
  return text.substr(at + 9, text.find('"', at + 9) - at - 9);
}

Result<Stack> DescribeShaped(const std::string& description, std::int64_t pages) {
  Stack stack;
  stack.writer = "tifffile";
  std::vector<std::int64_t> shape = NumbersOf(description, "shape");
  const std::string axes = AxesOf(description);
  if (shape.size() < 2) return Stack{};
  if (!axes.empty() && (axes.size() != shape.size() || !axes.ends_with("YX"))) {
    return InvalidArgument(
        "its description has the axes \"{}\" for {} dimensions; save it with y and x last, one "
        "letter for each",
        axes, shape.size());
  }
  shape.resize(shape.size() - 2);
  std::int64_t images = 1;
  for (const std::int64_t n : shape) {
    if (n < 1 || __builtin_mul_overflow(images, n, &images) || images > kMostImages)
      return DataLoss("its description has the impossible shape {}", fmt::join(shape, "x"));
  }
  stack.may_be_contiguous = pages == 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const char letter = axes.empty() ? ' ' : axes[i];
    if (letter == 'Z' || letter == ' ')
      stack.dimensions.push_back({letter == 'Z' ? "z" : "", shape[i], Role::kUnknown});
    if (letter == 'T') stack.dimensions.push_back(Frames("frame", shape[i]));
    if (letter == 'C') stack.dimensions.push_back(Others("channel", shape[i]));
    if (letter != 'Z' && letter != ' ' && letter != 'T' && letter != 'C')
      stack.dimensions.push_back(Others(std::string(1, letter), shape[i]));
  }
  return stack;
}

}  // namespace

std::int64_t Stack::images() const {
  std::int64_t images = 1;
  for (const AxisDimension& dimension : dimensions) images *= dimension.length;
  return images;
}

Result<Stack> DescribeStack(const std::string& description, std::int64_t pages, const Resolution& resolution,
                            const std::string& file_name) {
  if (description.starts_with("ImageJ=")) return DescribeImageJ(description, pages, resolution);
  const auto has = [&](const char* text) { return description.find(text) != std::string::npos; };
  if (has("<OME") && (has("<Pixels") || has("BinaryOnly"))) return DescribeOme(description, pages, file_name);
  Stack stack;
  if (description.starts_with('{') && has("\"shape\": [")) {
    QUARRY_ASSIGN_OR_RETURN(stack, DescribeShaped(description, pages));
  }
  const bool is_default = resolution.x == 72 && resolution.y == 72;
  if (resolution.unit == 2 && !is_default) PlaceByResolution(resolution, "inch", &stack);
  if (resolution.unit == 3) PlaceByResolution(resolution, "cm", &stack);
  return stack;
}

}  // namespace quarry::input::internal
