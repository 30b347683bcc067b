#pragma once

#include <map>
#include <string>
#include <vector>

#include "quarry/base/file.h"
#include "quarry/dataset/dataset.h"
#include "quarry/store/patch_store.h"

namespace quarry {

/// The bytes of a fetch, and the memory that they may take.
struct FetchedPayload {
  PatchStore::Memory memory;
  query::Fetch fetch;
  std::vector<Bytes> ranges;  ///< one per range of the fetch
};

/// Payload and mask of one level of one patch; empty where the level has none.
struct LevelPayload {
  int level = 0;
  ByteSpan payload;
  ByteSpan mask;
};

/// Reads payload of a plan from the subfiles of a dataset, each opened once. One caller at a time; both
/// arguments outlive it.
class PayloadSource {
 public:
  PayloadSource(const Dataset& dataset, const query::ReadPlan& plan) : dataset_(dataset), plan_(plan) {}

  /// Fills `ranges` of a fetch.
  /// @errors kDataLoss: a file is missing or too short; kInternal: it cannot be read
  Status Read(FetchedPayload* fetched);

  std::string Path(query::FileNumber number) const;

 private:
  Result<const RandomAccessFile*> Open(query::FileNumber number);

  const Dataset& dataset_;
  const query::ReadPlan& plan_;
  std::map<query::FileNumber, RandomAccessFile> files_;
};

/// Where a patch's payload comes from, for messages.
struct PayloadPaths {
  std::string field;
  std::string mask;  ///< empty for a patch without one
};

/// One level of a piece of a fetch, compared with its checksums.
/// @param piece  of the fetch
/// @errors kDataLoss with file, patch, level and bytes
Result<LevelPayload> TakePayload(const FetchedPayload& fetched, std::size_t piece, int level,
                                 const query::PlannedPatch& patch, const PayloadPaths& paths);

}  // namespace quarry
