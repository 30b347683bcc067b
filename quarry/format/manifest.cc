#include "quarry/format/manifest.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "quarry/base/checksum.h"
#include "quarry/base/numbers.h"
#include "quarry/format/manifest_text.h"
#include "quarry/format/proto_convert.h"
#include "quarry/format/step_sections.h"
#include "quarry/format/subfile.h"

namespace quarry::format {
namespace {

template <typename Message>
std::string ToText(Message message) {
  message.set_checksum(std::string(kChecksumDigits, '0'));
  std::string text = PrintText(message);
  if (text.empty()) return text;
  text.replace(ChecksumPosition(text), kChecksumDigits, OwnChecksum(text));
  return text;
}

/// Puts the grid of a dataset.json from before there were several into the list.
Status TakeOneGrid(std::string_view text, const Cancelled& cancelled, pb::DatasetManifest* manifest) {
  pb::OneGrid one;
  QUARRY_RETURN_IF_ERROR(ParseText(text, cancelled, &one));
  if (!one.has_grid()) return DataLoss("there is no grid");
  *manifest->add_grids() = GridOf(std::move(one));
  return Status::Ok();
}

}  // namespace

std::string EncodeManifest(const DatasetDescription& dataset) {
  pb::DatasetManifest manifest = ToProto(dataset);
  if (dataset.has_packs) manifest.set_format_version(kManifestVersionWithPacks);
  if (dataset.has_coarse_objects) manifest.set_coarse_objects(true);
  return ToText(std::move(manifest));
}
std::string EncodeManifest(const StepDescription& step, const SectionLimits& limits) {
  std::string text = ToText(ToProto(step));
  return text.size() <= limits.whole ? text : WithSections(std::move(text), step, limits);
}

Result<DatasetDescription> DecodeDatasetManifest(const std::string& text, const Cancelled& cancelled) {
  QUARRY_RETURN_IF_ERROR(CheckOwnChecksum(text));
  pb::DatasetManifest manifest;
  QUARRY_RETURN_IF_ERROR(ParseText(text, cancelled, &manifest));
  if (manifest.grids().empty()) QUARRY_RETURN_IF_ERROR(TakeOneGrid(text, cancelled, &manifest));
  const bool has_packs = manifest.format_version() == kManifestVersionWithPacks;
  if (has_packs) manifest.set_format_version(kManifestVersion);
  QUARRY_ASSIGN_OR_RETURN(DatasetDescription dataset, FromProto(manifest));
  dataset.has_packs = has_packs;
  dataset.has_coarse_objects = manifest.coarse_objects();
  return dataset;
}

Result<StepDescription> DecodeStepManifest(const std::string& text, const DatasetDescription& dataset) {
  if (IsInSections(text)) return DecodeSections(text, dataset);
  QUARRY_RETURN_IF_ERROR(CheckOwnChecksum(text));
  pb::StepManifest manifest;
  QUARRY_RETURN_IF_ERROR(ParseText(text, {}, &manifest));
  return FromProto(manifest, dataset);
}

std::optional<std::uint64_t> StoredChecksum(std::string_view text) {
  const std::size_t position = ChecksumPosition(text);
  if (position == std::string_view::npos) return std::nullopt;
  const Result<std::uint64_t> stored = ParseChecksum(text.substr(position, kChecksumDigits));
  return stored.ok() ? std::optional(*stored) : std::nullopt;
}

Status CheckManifestSize(const DatasetDescription& dataset) {
  constexpr std::uint64_t kBesides = sizeof("      ,");  // each has a line of its own
  std::uint64_t bytes = 0;
  for (const GridDescription& grid : dataset.grids) {
    for (const std::vector<double>& axis : grid.coordinates) {
      for (const double position : axis) bytes += fmt::formatted_size("{}", position) + kBesides;
    }
  }
  if (bytes <= kManifestLimit) return Status::Ok();
  return InvalidArgument(
      "the positions along the axes would take {} bytes of dataset.json, of which readers accept at most {}; "
      "cut the grid into several datasets, or give an origin and a spacing instead",
      bytes, kManifestLimit);
}

Status CheckFieldName(const std::string& name) {
  // A field's folder lies beside step.json.
  bool good = !name.empty() && name.size() <= kMaxFieldName && name[0] != '.' && !name.ends_with(".json");
  for (const char c : name)
    good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-');
  if (good) return Status::Ok();
  return InvalidArgument(
      "\"{}\" cannot be a field name; use 1 to {} letters, digits, \"_\", \".\" or \"-\", not starting with "
      "a dot or ending in .json",
      name, kMaxFieldName);
}

std::string StepFolder(std::uint64_t step) { return fmt::format("steps/{:06}", step); }
std::optional<std::uint64_t> StepOfFolder(const std::string& name) {
  std::uint64_t step = 0;
  // Zeros in front only up to six digits.
  constexpr std::size_t kDigits = 6;
  const bool well_formed = name.size() == kDigits || (name.size() > kDigits && name.front() != '0');
  return well_formed && ReadNumber(name, &step) ? std::optional(step) : std::nullopt;
}

std::string SubfileName(std::size_t number) { return fmt::format("{:04}.qsf", number); }

}  // namespace quarry::format
