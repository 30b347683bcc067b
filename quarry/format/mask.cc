#include "quarry/format/mask.h"

#include "quarry/base/checksum.h"

namespace quarry::format {

std::uint64_t MaskDigest(const PatchEntry& row) {
  Bytes bytes;
  for (std::size_t l = row.levels.size(); l-- > 0;) {
    PutLittleEndian(&bytes, row.levels[l].size);
    PutLittleEndian(&bytes, row.levels[l].checksum);
  }
  return Checksum(bytes);
}

void MaskNaming::Add(std::span<const std::uint64_t> digests) {
  for (const std::uint64_t digest : digests) {
    std::byte bytes[sizeof(digest)];
    StoreLittleEndian(digest, bytes);
    checksum_.Update(bytes);
  }
}

std::uint64_t MaskNaming::Name(std::size_t grid) {
  // The first grid is the only one of older versions, which do not count it.
  const auto number = static_cast<std::uint64_t>(grid);
  if (grid > 0) Add(std::span(&number, 1));
  const std::uint64_t name = checksum_.Finish();
  return name == 0 ? 1 : name;  // 0 stands for no mask
}

std::uint64_t MaskName(std::span<const std::uint64_t> digests, std::size_t grid) {
  MaskNaming naming;
  naming.Add(digests);
  return naming.Name(grid);
}

std::string MaskText(std::uint64_t name) { return ChecksumText(name); }
std::string MaskFolder(std::uint64_t name) { return "masks/" + MaskText(name); }

SubfileHeader MaskHeader(std::uint64_t name, const GridDescription& grid, PayloadOrder order) {
  SubfileHeader header;
  header.dims = grid.dims;
  header.patch = grid.patch;
  header.levels = grid.levels;
  header.type = DataType::kUint8;
  header.coder = CoderId::kValidity;
  header.SetOrder(order);
  header.field_name = MaskText(name);
  return header;
}

}  // namespace quarry::format
