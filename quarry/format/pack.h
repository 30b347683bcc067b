#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/format/step_runs.h"

/// Bytes and structs of a pack: the files of many small steps, one after the other. Nothing here opens a
/// file. docs/format.md, "Packs".
namespace quarry::format {

/// Limits of readers.
inline constexpr std::uint64_t kMaxPackSteps = 4096;
inline constexpr std::uint64_t kMaxPackFiles = std::uint64_t{1} << 16;
inline constexpr std::uint64_t kPackTableLimit = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kPackedManifestLimit = std::uint64_t{1} << 20;
/// Steps of a dataset that are in packs.
inline constexpr std::uint64_t kMaxPackedSteps = std::uint64_t{1} << 20;

/// [bytes] of the begin of a pack; the first file follows.
inline constexpr std::uint64_t kPackBegin = 16;
inline constexpr std::uint64_t kPackFooter = 48;

/// The name of a pack, which says which steps it has: the first one and the distances of the others.
/// Example: steps 0, 1, 2, 3 -> pack-0_1x3.qsp; steps 0, 103, 223, 343 -> pack-0_103_120x2.qsp
class PackName {
 public:
  /// @param step  above those before
  /// @returns false: the name would be too long for a file, or the pack for readers; nothing has changed
  bool Add(std::uint64_t step);
  std::string text() const;

 private:
  std::string front_;  ///< without the last run
  std::uint64_t last_ = 0;
  std::uint64_t distance_ = 0;  ///< that of the last run; 0: there is none
  std::uint64_t times_ = 0;
  std::uint64_t steps_ = 0;
};

/// Whether a file in "steps" is a pack, or pretends to be one.
bool IsPackName(std::string_view name);
/// The steps of a pack, from its name, in ascending order. @errors kDataLoss: it is not the name of a pack
Result<std::vector<StepRun>> StepsOfPack(std::string_view name);

/// Where the files of a pack lie.
struct PackTable {
  struct File {
    std::uint32_t name = 0;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  struct Step {
    std::uint64_t step = 0;
    std::uint64_t offset = 0;  ///< where step.json begins
    std::uint64_t size = 0;    ///< size of step.json
    std::uint64_t stored = 0;  ///< bytes of it in the pack; below `size`: as differences to the first one
    std::vector<File> files;   ///< its subfiles, ascending by name
  };

  std::vector<std::string> names;  ///< paths of subfiles in a step, "pressure/0000.qsf", ascending
  std::vector<Step> steps;         ///< ascending

  /// Null: the pack does not have it.
  const Step* FindStep(std::uint64_t step) const;
  const File* FindFile(const Step& step, std::string_view name) const;
};

/// [bytes] of memory.
std::uint64_t MemoryOf(const PackTable& table);

struct PackFooter {
  std::uint64_t table_offset = 0;
  std::uint64_t table_size = 0;
  std::uint64_t table_checksum = 0;
  std::uint64_t file_size = 0;
};

Bytes EncodePackBegin();
/// Table and footer. Offsets follow from the sizes. @param table_offset  size of the pack so far
Bytes EncodePackEnd(const PackTable& table, std::uint64_t table_offset);

/// @param bytes  the first kPackBegin bytes @errors kDataLoss: no pack, or of another version
Status CheckPackBegin(ByteSpan bytes);
/// @param bytes  the last kPackFooter bytes @param file_size  of the pack @errors kDataLoss
Result<PackFooter> DecodePackFooter(ByteSpan bytes, std::uint64_t file_size);
/// @param bytes  at the place that the footer names @errors kDataLoss
Result<PackTable> DecodePackTable(ByteSpan bytes, const PackFooter& footer);

}  // namespace quarry::format
