#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "quarry/base/file.h"
#include "quarry/dataset/dataset.h"
#include "quarry/store/patch_store.h"

namespace quarry {

/// Where the files of a plan are. Does not need dataset and plan any more: messages are made by tasks that may
/// outlive the read.
class PayloadPaths {
 public:
  PayloadPaths(const Dataset& dataset, const query::ReadPlan& plan);

  std::string Of(query::FileNumber number) const;

 private:
  std::filesystem::path root_;
  std::uint64_t step_;
  std::string field_;
  std::uint64_t mask_;
};

/// The bytes of a fetch, and the memory that they may take.
struct FetchedPayload {
  PatchStore::Memory memory;
  query::Fetch fetch;
  std::vector<Bytes> ranges;  ///< one per range of the fetch
  std::shared_ptr<const PayloadPaths> paths;
};

/// Payload and mask of one level of one patch; empty where the level has none.
struct LevelPayload {
  int level = 0;
  ByteSpan payload;
  ByteSpan mask;
};

/// Reads payload of a plan from the subfiles of a dataset, each opened once. One caller at a time.
class PayloadSource {
 public:
  PayloadSource(const Dataset& dataset, const query::ReadPlan& plan)
      : paths_(std::make_shared<const PayloadPaths>(dataset, plan)) {}

  /// Fills `ranges` and `paths` of a fetch.
  /// @param cancelled  asked between ranges
  /// @errors kDataLoss: a file is missing or too short; kInternal: it cannot be read; kCancelled
  Status Read(const std::function<bool()>& cancelled, FetchedPayload* fetched);

 private:
  Result<const RandomAccessFile*> Open(query::FileNumber number);
  Result<const RandomAccessFile*> OpenFor(const query::ByteRange& range);

  const std::shared_ptr<const PayloadPaths> paths_;
  std::map<query::FileNumber, RandomAccessFile> files_;
};

/// One level of a piece of a fetch, compared with its checksums.
/// @param piece  of the fetch
/// @errors kDataLoss with file, patch, level and bytes
Result<LevelPayload> TakePayload(const FetchedPayload& fetched, std::size_t piece, int level,
                                 const query::PlannedPatch& patch);

}  // namespace quarry
