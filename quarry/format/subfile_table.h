#pragma once

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

/// Reads and checks the tables of an open subfile. @errors kDataLoss, naming the file
Result<SubfileTable> ReadSubfileTable(const StoredObject& file);

}  // namespace quarry::format
