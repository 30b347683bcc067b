#include "writer/input/input.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "quarry/format/manifest.h"
#include "writer/input/formats.h"

namespace quarry::writer {

namespace fs = std::filesystem;

namespace {

using Open = Result<internal::Inputs> (*)(const std::string& path, const InputOptions& options);

struct Format {
  const char* name;
  std::vector<std::string> endings;  ///< of file names, lower case
  Open open;
};

const std::vector<Format>& Formats() {
  static const std::vector<Format> formats = {
      {"raw", {}, internal::OpenRaw},
      {"npy", {".npy"}, internal::OpenNpy},
  };
  return formats;
}

/// The format that the user named, or that the file's name ends in; else raw.
Result<const Format*> ChooseFormat(const std::string& path, const InputOptions& options) {
  const std::vector<Format>& formats = Formats();
  if (!options.format.empty()) {
    for (const Format& format : formats) {
      if (format.name == options.format) return &format;
    }
    return InvalidArgument("unknown format \"{}\"; this build reads {}", options.format,
                           fmt::join(KnownFormats(), ", "));
  }
  std::string ending = fs::path(path).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Format& format : formats) {
    if (std::find(format.endings.begin(), format.endings.end(), ending) != format.endings.end()) return &format;
  }
  return &formats.front();
}

}  // namespace

std::vector<std::string> KnownFormats() {
  std::vector<std::string> names;
  for (const Format& format : Formats()) names.emplace_back(format.name);
  return names;
}

Result<std::vector<std::unique_ptr<Input>>> OpenInputs(const std::string& path, const InputOptions& options) {
  QUARRY_ASSIGN_OR_RETURN(const Format* format, ChooseFormat(path, options));
  QUARRY_ASSIGN_OR_RETURN(internal::Inputs inputs, format->open(path, options));
  for (const std::unique_ptr<Input>& input : inputs)
    QUARRY_RETURN_IF_ERROR(format::CheckFieldName(input->info().field));
  return inputs;
}

Result<Bytes> ReadBox(const Input& input, const Box& box) {
  Bytes samples(static_cast<std::size_t>(box.volume()) * SizeOf(input.info().type));
  if (!samples.empty()) QUARRY_RETURN_IF_ERROR(input.ReadBox(box, samples));
  return samples;
}

}  // namespace quarry::writer
