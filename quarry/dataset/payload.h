#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/query/fetch.h"
#include "quarry/store/patch_store.h"

namespace quarry {

/// Bytes and reads of an answer so far.
struct ReadUsage {
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;          ///< with the gaps between payloads
  std::uint64_t payload_bytes = 0;  ///< without them
};

/// Where the files of a plan are. Does not need dataset and plan any more: messages are made by tasks that
/// may outlive the read.
class PayloadPaths {
 public:
  PayloadPaths(const Dataset& dataset, const query::ReadPlan& plan);

  Location Of(query::FileNumber number) const;

 private:
  Location root_;
  std::string field_;
  std::vector<query::ReferenceStep> steps_;  ///< that of the plan, and its reference steps
};

/// The bytes of a fetch, and the memory reserved for them.
struct FetchedPayload {
  PatchStore::Memory memory;
  query::Fetch fetch;
  std::vector<Bytes> ranges;  ///< one per range of the fetch
  std::shared_ptr<const PayloadPaths> paths;
};

/// Payload and mask of one level of one patch; empty if the level has none.
struct LevelPayload {
  int level = 0;
  int layers = 0;                              ///< that were taken
  std::array<ByteSpan, kMaxLayers> payload{};  ///< payload of these
  ByteSpan mask;

  std::span<const ByteSpan> payloads() const {
    return std::span(payload).first(static_cast<std::size_t>(layers));
  }
};

/// Reads payload of a plan from the subfiles of a dataset, each opened once. One caller at a time.
class PayloadSource {
 public:
  /// @param usage  counts what is read; may be null
  PayloadSource(const Dataset& dataset, const query::ReadPlan& plan, ReadUsage* usage)
      : storage_(dataset.root().storage),
        paths_(std::make_shared<const PayloadPaths>(dataset, plan)),
        usage_(usage) {}

  /// Fills `ranges` and `paths` of a fetch.
  /// @param cancelled  asked between ranges
  /// @errors kDataLoss: a file is missing or too short; kInternal: it cannot be read; kCancelled
  Status Read(const std::function<bool()>& cancelled, FetchedPayload* fetched);

 private:
  Result<const StoredObject*> Open(query::FileNumber number);
  Result<const StoredObject*> OpenFor(const query::ByteRange& range);

  const std::shared_ptr<const Storage> storage_;
  const std::shared_ptr<const PayloadPaths> paths_;
  ReadUsage* const usage_;
  std::map<query::FileNumber, std::shared_ptr<const StoredObject>> files_;
};

/// One level of a piece of a fetch, compared with its checksums; and the mask, if the first layer was
/// fetched.
/// @param piece   of the fetch
/// @param layers  to take, from the first that was fetched to this many in all
/// @param parts   of the field
/// @param reference  0: of the patch itself; k: of the k-th that it refers to
/// @errors kDataLoss with file, patch, level and bytes
Result<LevelPayload> TakePayload(const FetchedPayload& fetched, std::size_t piece, int level, int layers,
                                 const PatchParts& parts, const query::PlannedPatch& patch,
                                 std::size_t reference = 0);

}  // namespace quarry
