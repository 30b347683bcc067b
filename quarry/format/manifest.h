#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "quarry/description.h"

namespace quarry::format {

using Cancelled = std::function<bool()>;

/// Version of dataset.json and step.json that this program writes, and the newest that it reads.
inline constexpr std::uint32_t kManifestVersion = 4;
/// Version of a dataset.json whose steps may be in packs; all else in it is of kManifestVersion.
inline constexpr std::uint32_t kManifestVersionWithPacks = 5;

/// When a step.json is in sections, of which readers of one field read one.
struct SectionLimits {
  std::uint64_t whole = 64 << 10;    ///< [bytes] the largest text in one piece
  std::uint64_t section = 24 << 10;  ///< [bytes] of a section, unless one field has more
};

/// The text of dataset.json or step.json: JSON form of the protobuf message, with the file's own checksum at
/// the end.
std::string EncodeManifest(const DatasetDescription& dataset);
/// A large step is in sections.
std::string EncodeManifest(const StepDescription& step, const SectionLimits& limits = {});

/// @errors kDataLoss: checksum, JSON or a value; the message does not name the file, the caller annotates it
/// @param cancelled  asked from time to time, for large ones; empty: never
/// @errors besides: kCancelled
Result<DatasetDescription> DecodeDatasetManifest(const std::string& text, const Cancelled& cancelled = {});
/// @param dataset  to which the step belongs, see CheckStep
Result<StepDescription> DecodeStepManifest(const std::string& text, const DatasetDescription& dataset);

/// The checksum at the end of a dataset.json or step.json, as it stands there; nothing where there is none.
/// @param text  the file, or its last kChecksumTail bytes
std::optional<std::uint64_t> StoredChecksum(std::string_view text);
/// [bytes] The checksum is within so many from the end.
inline constexpr std::uint64_t kChecksumTail = 64;

/// Largest dataset.json or step.json that is read.
inline constexpr std::uint64_t kManifestLimit = std::uint64_t{256} << 20;

/// Whether dataset.json may be small enough to be read, before it is made: most of a large one are positions.
/// @errors kInvalidArgument
Status CheckManifestSize(const DatasetDescription& dataset);

/// Field names double as folder names: letters, digits, "_", "." and "-", not starting with a dot or ending
/// in .json, at most 63.
/// @errors kInvalidArgument
Status CheckFieldName(const std::string& name);

/// "steps/000123"
std::string StepFolder(std::uint64_t step);
/// The step of a folder in "steps"; nothing for other names.
std::optional<std::uint64_t> StepOfFolder(const std::string& name);
/// "0007.qsf"
std::string SubfileName(std::size_t number);

}  // namespace quarry::format
