#include "quarry/format/catalogue.h"

#include <algorithm>
#include <array>

#include "quarry/base/checksum.h"
#include "quarry/format/subfile.h"

namespace quarry::format {
namespace {

using Magic = std::array<unsigned char, 8>;
constexpr Magic kPageMagic = {0x89, 'Q', 'S', 'C', '\r', '\n', 0x1a, '\n'};
constexpr Magic kHeadMagic = {0x89, 'Q', 'S', 'H', '\r', '\n', 0x1a, '\n'};

/// Magic, version, and number of records.
constexpr std::size_t kBegin = 16;
constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kRefBytes = 40;
constexpr std::size_t kRunBytes = 24;
/// Begin, steps, number of pages, checksum.
constexpr std::size_t kSmallestHead = kBegin + 16 + kChecksumBytes;

constexpr std::uint16_t kPageVersion = 4;
/// Version 4 has no runs of steps.
constexpr std::uint16_t kFirstHeadVersion = 4;
constexpr std::uint16_t kHeadVersion = 5;

/// Bits of the flags of a head.
constexpr std::uint64_t kPublishes = 1;

void PutBegin(const Magic& magic, std::uint16_t version, std::uint64_t records, Bytes* out) {
  for (const unsigned char byte : magic) out->push_back(static_cast<std::byte>(byte));
  PutLittleEndian(out, version);
  PutLittleEndian(out, kMinorVersion);
  PutLittleEndian(out, static_cast<std::uint32_t>(records));
}

struct Begin {
  std::uint16_t version = 0;
  std::uint64_t records = 0;
};

/// @param bytes  at least kBegin
Result<Begin> TakeBegin(const Magic& magic, std::uint16_t first_version, std::uint16_t last_version,
                        ByteSpan bytes) {
  const auto same = [](unsigned char a, std::byte b) { return static_cast<std::byte>(a) == b; };
  if (!std::equal(magic.begin(), magic.end(), bytes.begin(), same))
    return DataLoss("it begins with other bytes");
  LittleEndianReader reader(bytes.data() + magic.size());
  const auto version = reader.Get<std::uint16_t>();
  if (version < first_version || version > last_version)
    return DataLoss("it has version {}, this program reads {}; use a newer Quarry", version, last_version);
  reader.Skip(sizeof(kMinorVersion));
  const auto records = reader.Get<std::uint32_t>();
  if (records > kMaxPageRecords)
    return DataLoss("it has {} records; the maximum is {}", records, kMaxPageRecords);
  return Begin{version, records};
}

Result<PageRef> TakeRef(const std::byte* bytes) {
  LittleEndianReader reader(bytes);
  PageRef ref;
  for (std::uint64_t* const number : {&ref.name, &ref.bytes, &ref.first, &ref.last, &ref.records})
    *number = reader.Get<std::uint64_t>();
  if (ref.bytes < kBegin || ref.bytes > kPageLimit || ref.records == 0 || ref.records > kMaxPageRecords ||
      ref.first > ref.last || ref.records - 1 > ref.last - ref.first)
    return DataLoss("page {} has {} bytes and {} records of the steps {} to {}", ChecksumText(ref.name),
                    ref.bytes, ref.records, ref.first, ref.last);
  return ref;
}

StepRun TakeRun(const std::byte* bytes) {
  LittleEndianReader reader(bytes);
  StepRun run;
  for (std::uint64_t* const number : {&run.first, &run.distance, &run.steps})
    *number = reader.Get<std::uint64_t>();
  return run;
}

/// Takes an array off the front of some bytes.
/// @param what  its elements, for messages
template <typename T, typename Take>
Result<std::vector<T>> TakeArray(std::uint64_t count, std::size_t bytes_each, const char* what,
                                 ByteSpan* rest, const Take& take) {
  if (count > rest->size() / bytes_each)
    return DataLoss("it has {} {} in {} bytes", count, what, rest->size());
  std::vector<T> elements;
  elements.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    QUARRY_ASSIGN_OR_RETURN(T element, take(rest->data() + i * bytes_each));
    elements.push_back(std::move(element));
  }
  *rest = rest->subspan(count * bytes_each);
  return elements;
}

}  // namespace

std::string PagePath(std::uint64_t name) {
  return fmt::format("{}/{}", kCatalogueFolder, ChecksumText(name));
}

EncodedPage EncodePage(const std::vector<StepRecord>& records) {
  RecordEncoder encoder;
  EncodedPage page;
  for (const StepRecord& record : records) {
    if (!encoder.Add(record)) continue;
    if (encoder.records() == 1) page.ref.first = record.summary.step;
    page.ref.last = record.summary.step;
  }
  PutBegin(kPageMagic, kPageVersion, encoder.records(), &page.bytes);
  page.bytes.insert(page.bytes.end(), encoder.bytes().begin(), encoder.bytes().end());
  page.ref.name = Checksum(page.bytes);
  page.ref.bytes = page.bytes.size();
  page.ref.records = encoder.records();
  return page;
}

Result<std::vector<StepRecord>> DecodePage(ByteSpan bytes, const PageRef& ref) {
  if (bytes.size() != ref.bytes || bytes.size() < kBegin)
    return DataLoss("it has {} bytes instead of {}", bytes.size(), ref.bytes);
  if (Checksum(bytes) != ref.name)
    return DataLoss("its checksum is {}, so it should be called that", ChecksumText(Checksum(bytes)));
  QUARRY_ASSIGN_OR_RETURN(const Begin begin, TakeBegin(kPageMagic, kPageVersion, kPageVersion, bytes));
  const std::uint64_t count = begin.records;
  QUARRY_ASSIGN_OR_RETURN(std::vector<StepRecord> records, DecodeRecords(bytes.subspan(kBegin), count));
  if (count == ref.records && records.front().summary.step == ref.first &&
      records.back().summary.step == ref.last)
    return records;
  return DataLoss("it has {} records, and not those of the steps {} to {}", count, ref.first, ref.last);
}

Bytes EncodeHead(const CatalogueHead& head, const RecordEncoder& records) {
  Bytes out;
  PutBegin(kHeadMagic, kHeadVersion, records.records(), &out);
  PutLittleEndian(&out, head.steps);
  PutLittleEndian(&out, std::uint64_t{head.pages.size()});
  PutLittleEndian(&out, head.publishes ? kPublishes : 0);
  PutLittleEndian(&out, std::uint64_t{head.runs.size()});
  for (const PageRef& ref : head.pages) {
    for (const std::uint64_t number : {ref.name, ref.bytes, ref.first, ref.last, ref.records})
      PutLittleEndian(&out, number);
  }
  for (const StepRun& run : head.runs) {
    for (const std::uint64_t number : {run.first, run.distance, run.steps}) PutLittleEndian(&out, number);
  }
  out.insert(out.end(), records.bytes().begin(), records.bytes().end());
  PutLittleEndian(&out, Checksum(out));
  return out;
}

Result<CatalogueHead> DecodeHead(ByteSpan bytes) {
  if (bytes.size() < kSmallestHead)
    return DataLoss("it has {} bytes, too few; it is truncated", bytes.size());
  const ByteSpan checked = bytes.first(bytes.size() - kChecksumBytes);
  const auto stored = GetLittleEndian<std::uint64_t>(checked.data() + checked.size());
  if (Checksum(checked) != stored)
    return DataLoss("checksum {} stored, {} computed; it is damaged", ChecksumText(stored),
                    ChecksumText(Checksum(checked)));
  QUARRY_ASSIGN_OR_RETURN(const Begin begin, TakeBegin(kHeadMagic, kFirstHeadVersion, kHeadVersion, checked));
  const bool has_runs = begin.version > kFirstHeadVersion;
  if (has_runs && checked.size() < kBegin + 32)
    return DataLoss("it has {} bytes, too few; it is truncated", bytes.size());
  LittleEndianReader reader(checked.data() + kBegin);
  CatalogueHead head;
  head.steps = reader.Get<std::uint64_t>();
  const auto pages = reader.Get<std::uint64_t>();
  const auto flags = has_runs ? reader.Get<std::uint64_t>() : 0;
  const auto runs = has_runs ? reader.Get<std::uint64_t>() : 0;
  if (flags > kPublishes) return DataLoss("it has the flags {}; use a newer Quarry", flags);
  if (runs > kMaxHeadRuns) return DataLoss("it has {} runs of steps; the maximum is {}", runs, kMaxHeadRuns);
  head.publishes = flags == kPublishes;
  ByteSpan rest = checked.subspan(kBegin + (has_runs ? 32 : 16));
  QUARRY_ASSIGN_OR_RETURN(head.pages, TakeArray<PageRef>(pages, kRefBytes, "pages", &rest, TakeRef));
  const auto take_run = [](const std::byte* at) { return Result<StepRun>(TakeRun(at)); };
  QUARRY_ASSIGN_OR_RETURN(head.runs, TakeArray<StepRun>(runs, kRunBytes, "runs of steps", &rest, take_run));
  QUARRY_RETURN_IF_ERROR(CheckRuns(head.runs));
  QUARRY_ASSIGN_OR_RETURN(head.records, DecodeRecords(rest, begin.records));
  return head;
}

}  // namespace quarry::format
