#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/description.h"
#include "quarry/format/manifest.h"
#include "quarry/storage/storage.h"

/// A step.json whose fields can be read without the others: a root, which says where they lie, and sections
/// of the list of fields. docs/format.md, "Sections". Every number of a root is checked when it is decoded.
namespace quarry::format {

/// Records of consecutive fields.
struct StepSection {
  std::uint64_t offset = 0;  ///< its first byte in the file
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
  std::vector<std::uint32_t> names;  ///< NameDigest of each of its fields
};

/// The number of a step, and where its fields are. The time is behind them.
struct StepRoot {
  std::uint32_t version = 0;
  std::uint64_t step = 0;
  std::vector<StepSection> sections;  ///< at least one

  /// Where the last section ends.
  std::uint64_t end() const { return sections.back().offset + sections.back().bytes; }

  /// Numbers of the sections that may have a field: one, unless names have the same digest.
  std::vector<std::size_t> SectionsWith(std::string_view field) const;
};

/// The lower half of the XXH3 of the name of a field.
std::uint32_t NameDigest(std::string_view field);

/// Whether a step.json is in sections. @param front  the file, or its first kFrontBytes
bool IsInSections(std::string_view front);
/// [bytes] So many from the front of a step.json are read at once: all of most steps, and most roots.
inline constexpr std::uint64_t kFrontBytes = 16 << 10;

/// [bytes] of the root. @param front  of a step.json in sections
/// @errors kDataLoss: more than kMaxRootBytes, or no number
Result<std::uint64_t> RootBytes(std::string_view front);
inline constexpr std::uint64_t kMaxRootBytes = 1 << 20;

/// @param root       the first RootBytes of the file
/// @param file_size  [bytes] of all of it
/// @errors kDataLoss
Result<StepRoot> DecodeRoot(std::string_view root, std::uint64_t file_size,
                            const DatasetDescription& dataset);

/// The fields of a section. @param text  its bytes
/// @errors kDataLoss
Result<std::vector<FieldStepDescription>> DecodeSection(const StepRoot& root, std::size_t number,
                                                        std::string_view text,
                                                        const DatasetDescription& dataset);

/// A whole step.json in sections. @errors kDataLoss: says which section is damaged
Result<StepDescription> DecodeSections(const std::string& text, const DatasetDescription& dataset);

/// The text of a step.json in sections. @param whole  the same in one piece
std::string WithSections(std::string whole, const StepDescription& step, const SectionLimits& limits);

/// Reads root and section. @param front  the first kFrontBytes of the file
/// @errors kDataLoss, kInternal
Result<std::string> ReadRootText(const StoredObject& file, std::string_view front);
Result<StepRoot> ReadRoot(const StoredObject& file, std::string_view front,
                          const DatasetDescription& dataset);
Result<std::vector<FieldStepDescription>> ReadSection(const StoredObject& file, const StepRoot& root,
                                                      std::size_t number, const DatasetDescription& dataset);

/// Bytes of a file as text. @errors those of StoredObject::ReadAt
Result<std::string> ReadTextAt(const StoredObject& file, std::uint64_t offset, std::uint64_t bytes);

}  // namespace quarry::format
