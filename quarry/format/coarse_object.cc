#include "quarry/format/coarse_object.h"

#include <algorithm>
#include <array>
#include <utility>

#include "quarry/base/checksum.h"
#include "quarry/format/byte_reader.h"

namespace quarry::format {
namespace {

constexpr std::array<unsigned char, 8> kMagic = {0x89, 'Q', 'S', 'O', '\r', '\n', 0x1a, '\n'};
/// [bytes] Most of a path: that of a field with the longest name.
constexpr std::size_t kMaxPath = 255;

/// The levels that lie level by level at the begin of the payload, and are coarse.
std::size_t CoarseLevels(const SubfileHeader& header) {
  if (header.order == PayloadOrder::kPatch) return 0;
  return static_cast<std::size_t>(header.levels - FirstCoarseLevel(header.dims, header.patch, header.levels));
}

}  // namespace

std::uint64_t CoarseFront(const SubfileHeader& header, const SubfileFooter& footer, const TableIndex& root,
                          std::size_t levels) {
  const std::size_t runs = std::min(levels, CoarseLevels(header));
  if (runs == 0 || root.size() == 0) return SubfileHeader::kEncodedSize;
  return runs < root.runs() ? root.payload(0, runs) : footer.table_offset;
}

Bytes EncodeCoarseObject(const std::vector<CoarseFile>& files, const std::vector<Bytes>& bytes) {
  Bytes out;
  for (const unsigned char byte : kMagic) out.push_back(static_cast<std::byte>(byte));
  PutLittleEndian(&out, kMajorVersion);
  PutLittleEndian(&out, kMinorVersion);
  PutLittleEndian(&out, static_cast<std::uint32_t>(files.size()));
  for (const CoarseFile& file : files) {
    PutLittleEndian(&out, file.size);
    PutLittleEndian(&out, file.table_checksum);
    PutLittleEndian(&out, file.front);
    PutLittleEndian(&out, file.back);
    PutLittleEndian(&out, static_cast<std::uint16_t>(file.path.size()));
    const ByteSpan path = std::as_bytes(std::span(file.path));
    out.insert(out.end(), path.begin(), path.end());
  }
  for (const Bytes& part : bytes) out.insert(out.end(), part.begin(), part.end());
  PutLittleEndian(&out, Checksum(out));
  return out;
}

Result<CoarseObject> CoarseObject::Decode(Bytes bytes) {
  constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);
  const Status damaged = DataLoss("the coarse object is damaged");
  if (bytes.size() < kMagic.size() + kChecksumBytes || bytes.size() > kCoarseLimit) return damaged;
  const ByteSpan covered = ByteSpan(bytes).first(bytes.size() - kChecksumBytes);
  if (Checksum(covered) != GetLittleEndian<std::uint64_t>(covered.data() + covered.size())) return damaged;
  ByteReader reader(covered);
  const ByteSpan magic = reader.Take(kMagic.size());
  const auto same = [](unsigned char a, std::byte b) { return static_cast<std::byte>(a) == b; };
  if (!std::equal(kMagic.begin(), kMagic.end(), magic.begin(), same)) return damaged;
  const auto version = reader.Number<std::uint16_t>();
  if (version != kMajorVersion)
    return DataLoss("the coarse object has version {}, this program reads {}", version, kMajorVersion);
  reader.Number<std::uint16_t>();
  const auto count = reader.Number<std::uint32_t>();
  if (count > kMaxCoarseFiles) reader.Fail();
  CoarseObject object;
  for (std::uint32_t i = 0; reader.ok() && i < count; ++i) {
    CoarseFile file{};
    file.size = reader.Number<std::uint64_t>();
    file.table_checksum = reader.Number<std::uint64_t>();
    file.front = reader.Number<std::uint64_t>();
    file.back = reader.Number<std::uint64_t>();
    const auto length = reader.Number<std::uint16_t>();
    if (length > kMaxPath) reader.Fail();
    const ByteSpan path = reader.Take(length);
    file.path.assign(reinterpret_cast<const char*>(path.data()), path.size());
    if (!object.files_.empty() && file.path <= object.files_.back().path) reader.Fail();
    if (file.front > file.size || file.back > file.size - file.front) reader.Fail();
    object.files_.push_back(std::move(file));
  }
  std::uint64_t at = covered.size() - reader.left();
  for (const CoarseFile& file : object.files_) {
    object.begins_.push_back(at);
    reader.Take(file.front);
    reader.Take(file.back);
    at = covered.size() - reader.left();
  }
  if (!reader.ok() || !reader.at_end()) return damaged;
  object.bytes_ = std::move(bytes);
  return object;
}

std::size_t CoarseObject::Find(std::string_view path) const {
  const auto found = std::ranges::lower_bound(files_, path, {}, &CoarseFile::path);
  if (found == files_.end() || found->path != path) return files_.size();
  return static_cast<std::size_t>(found - files_.begin());
}

std::uint64_t CoarseObject::memory() const {
  std::uint64_t bytes = bytes_.capacity() + begins_.capacity() * sizeof(std::uint64_t);
  for (const CoarseFile& file : files_) bytes += sizeof(file) + file.path.capacity();
  return bytes;
}

}  // namespace quarry::format
