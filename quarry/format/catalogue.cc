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
/// Begin, steps, number of pages, checksum.
constexpr std::size_t kSmallestHead = kBegin + 16 + kChecksumBytes;

void PutBegin(const Magic& magic, std::uint64_t records, Bytes* out) {
  for (const unsigned char byte : magic) out->push_back(static_cast<std::byte>(byte));
  PutLittleEndian(out, kMajorVersion);
  PutLittleEndian(out, kMinorVersion);
  PutLittleEndian(out, static_cast<std::uint32_t>(records));
}

/// @param bytes  at least kBegin
/// @returns the number of records
Result<std::uint64_t> TakeBegin(const Magic& magic, ByteSpan bytes) {
  const auto same = [](unsigned char a, std::byte b) { return static_cast<std::byte>(a) == b; };
  if (!std::equal(magic.begin(), magic.end(), bytes.begin(), same))
    return DataLoss("it begins with other bytes");
  LittleEndianReader reader(bytes.data() + magic.size());
  const auto version = reader.Get<std::uint16_t>();
  if (version != kMajorVersion)
    return DataLoss("it has version {}, this program reads {}; use a newer Quarry", version, kMajorVersion);
  reader.Skip(sizeof(kMinorVersion));
  const auto records = reader.Get<std::uint32_t>();
  if (records > kMaxPageRecords)
    return DataLoss("it has {} records; the maximum is {}", records, kMaxPageRecords);
  return records;
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
  PutBegin(kPageMagic, encoder.records(), &page.bytes);
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
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t count, TakeBegin(kPageMagic, bytes));
  QUARRY_ASSIGN_OR_RETURN(std::vector<StepRecord> records, DecodeRecords(bytes.subspan(kBegin), count));
  if (count == ref.records && records.front().summary.step == ref.first &&
      records.back().summary.step == ref.last)
    return records;
  return DataLoss("it has {} records, and not those of the steps {} to {}", count, ref.first, ref.last);
}

Bytes EncodeHead(std::uint64_t steps, const std::vector<PageRef>& pages, const RecordEncoder& records) {
  Bytes out;
  PutBegin(kHeadMagic, records.records(), &out);
  PutLittleEndian(&out, steps);
  PutLittleEndian(&out, std::uint64_t{pages.size()});
  for (const PageRef& ref : pages) {
    for (const std::uint64_t number : {ref.name, ref.bytes, ref.first, ref.last, ref.records})
      PutLittleEndian(&out, number);
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
  QUARRY_ASSIGN_OR_RETURN(const std::uint64_t records, TakeBegin(kHeadMagic, checked));
  LittleEndianReader reader(checked.data() + kBegin);
  CatalogueHead head;
  head.steps = reader.Get<std::uint64_t>();
  const auto pages = reader.Get<std::uint64_t>();
  const ByteSpan rest = checked.subspan(kBegin + 16);
  if (pages > rest.size() / kRefBytes) return DataLoss("it names {} pages in {} bytes", pages, bytes.size());
  for (std::uint64_t p = 0; p < pages; ++p) {
    QUARRY_ASSIGN_OR_RETURN(head.pages.emplace_back(), TakeRef(rest.data() + p * kRefBytes));
  }
  QUARRY_ASSIGN_OR_RETURN(head.records, DecodeRecords(rest.subspan(pages * kRefBytes), records));
  return head;
}

}  // namespace quarry::format
