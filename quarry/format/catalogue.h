#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/format/step_records.h"
#include "quarry/format/step_runs.h"

/// The head of a dataset and the pages of its catalogue: what lists of steps need of each step.json. Both are
/// derived from the step.json files. Nothing here opens a file. docs/format.md, "Head and catalogue".
namespace quarry::format {

inline constexpr std::string_view kHeadFile = "head";
inline constexpr std::string_view kCatalogueFolder = "catalogue";
/// The file in "steps" without which no record counts before it was compared with its step.json. A program
/// that does not know the catalogue removes it before it changes anything.
inline constexpr std::string_view kCurrentFile = ".partial-catalogue-is-current";

/// [bytes] The largest files that are read.
inline constexpr std::uint64_t kPageLimit = 32 << 20;
inline constexpr std::uint64_t kHeadLimit = 16 << 20;
/// Most records of a page, and of the head.
inline constexpr std::uint64_t kMaxPageRecords = 4096;
/// Most runs of steps in a head.
inline constexpr std::uint64_t kMaxHeadRuns = 4096;

/// A page, as the head names it.
struct PageRef {
  std::uint64_t name = 0;  ///< XXH3 of its bytes
  std::uint64_t bytes = 0;
  std::uint64_t first = 0;  ///< its smallest step
  std::uint64_t last = 0;   ///< its largest
  std::uint64_t records = 0;

  friend bool operator==(const PageRef&, const PageRef&) = default;
};

/// The head. Records of the head stand for those of the same step in pages, and those of a page for those in
/// the pages before.
struct CatalogueHead {
  std::uint64_t steps = 0;    ///< that have a record
  bool publishes = false;     ///< in a store: a step is published when the head has it
  std::vector<StepRun> runs;  ///< all steps that were published; empty although there are some: too many runs
  std::vector<PageRef> pages;
  std::vector<StepRecord> records;  ///< in the head itself, by step
};

/// A page with its name.
struct EncodedPage {
  PageRef ref;
  Bytes bytes;
};

/// @param records  ascending by step, at least one; those that are too large are left out
EncodedPage EncodePage(const std::vector<StepRecord>& records);
/// @errors kDataLoss: these are not the bytes that the head names, or they are no page
Result<std::vector<StepRecord>> DecodePage(ByteSpan bytes, const PageRef& ref);

/// @param head     without its records, with at most kMaxHeadRuns runs
/// @param records  those of the head
Bytes EncodeHead(const CatalogueHead& head, const RecordEncoder& records);
/// @errors kDataLoss: damaged, or of a version that is not known
Result<CatalogueHead> DecodeHead(ByteSpan bytes);

/// "catalogue/0123456789abcdef"
std::string PagePath(std::uint64_t name);

}  // namespace quarry::format
