#include "quarry/format/subfile_table.h"

namespace quarry::format {

Result<SubfileTable> ReadSubfileTable(const StoredObject& file, std::optional<std::uint64_t> patches) {
  const std::string where = fmt::format("\"{}\"", file.path());
  constexpr std::uint64_t kSmallest = SubfileHeader::kEncodedSize + SubfileFooter::kEncodedSize;
  if (file.size() < kSmallest)
    return DataLoss("{} has {} bytes, too few for a subfile; it is truncated", where, file.size());
  Bytes bytes(SubfileHeader::kEncodedSize);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(0, bytes));
  SubfileTable table;
  QUARRY_ASSIGN_OR_RETURN(table.header, SubfileHeader::DecodeFrom(bytes).Annotate(where));

  bytes.resize(SubfileFooter::kEncodedSize);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(file.size() - bytes.size(), bytes));
  QUARRY_ASSIGN_OR_RETURN(table.footer, SubfileFooter::DecodeFrom(bytes).Annotate(where));
  if (table.footer.file_size != file.size()) {
    return DataLoss("{} has {} bytes, its footer says {}", where, file.size(), table.footer.file_size);
  }

  if (patches && table.header.patch_count != *patches)
    return DataLoss("{} has {} patches, {} are expected", where, table.header.patch_count, *patches);
  QUARRY_RETURN_IF_ERROR(CheckTableSize(table.header, table.footer).Annotate(where));
  bytes.resize(table.footer.table_size);
  QUARRY_RETURN_IF_ERROR(file.ReadAt(table.footer.table_offset, bytes));
  QUARRY_ASSIGN_OR_RETURN(table.rows, DecodePatchTable(bytes, table.header, table.footer).Annotate(where));
  return table;
}

}  // namespace quarry::format
