#pragma once

#include <optional>
#include <vector>

#include "quarry/format/subfile.h"
#include "quarry/storage/storage.h"

namespace quarry::format {

/// Header, footer and patch table of one subfile, all checked.
struct SubfileTable {
  SubfileHeader header;
  SubfileFooter footer;
  std::vector<PatchEntry> rows;
};

/// Reads and checks the tables of an open subfile.
/// @param patches  as many the file must have, if that is known: no memory is taken for more
/// @errors kDataLoss, naming the file
Result<SubfileTable> ReadSubfileTable(const StoredObject& file, std::optional<std::uint64_t> patches = {});

}  // namespace quarry::format
