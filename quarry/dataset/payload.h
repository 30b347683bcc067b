#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
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
  /// The same of which the size is known, from step.json. Does not outlive the storage.
  /// @errors those of Dataset::FieldOf; kDataLoss: step.json does not list it
  Result<std::shared_ptr<const StoredObject>> Refer(const Dataset& dataset, query::FileNumber number) const;

 private:
  Location root_;
  std::string field_;
  std::vector<query::ReferenceStep> steps_;  ///< that of the plan, and its reference steps
};

/// Payloads that were read a second time, because the first bytes were those of a wrong copy. Thread-safe.
class SecondReads {
 public:
  /// @returns the bytes, which live as long as this
  Result<ByteSpan> Read(const StoredObject& file, std::uint64_t offset, std::uint64_t size) const;

 private:
  mutable std::mutex mutex_;
  mutable std::deque<Bytes> bytes_;
};

/// The bytes of a fetch, and the memory reserved for them.
struct FetchedPayload {
  PatchStore::Memory memory;
  query::Fetch fetch;
  std::vector<Bytes> ranges;                               ///< one per range of the fetch
  std::vector<std::shared_ptr<const StoredObject>> files;  ///< the file of each range
  std::shared_ptr<const PayloadPaths> paths;
  SecondReads again;
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

/// Reads payload of a plan from the subfiles of a dataset. One caller at a time.
class PayloadSource {
 public:
  /// @param usage  counts what is read; may be null
  PayloadSource(const Dataset& dataset, const query::ReadPlan& plan, ReadUsage* usage)
      : dataset_(dataset), paths_(std::make_shared<const PayloadPaths>(dataset, plan)), usage_(usage) {}

  /// Begins to fill `ranges` of a fetch, and sets `paths`.
  /// @param fetched    not null; kept until all ranges were reported
  /// @param done       see Storage::BeginRead
  /// @param cancelled  asked between ranges where the calling thread reads
  /// @errors kDataLoss: step.json does not list a file. Of a range: kDataLoss: its file is missing or too
  /// short; kInternal: it cannot be read; kCancelled
  Result<std::unique_ptr<Reading>> Begin(std::shared_ptr<FetchedPayload> fetched, RangeDone done,
                                         const std::function<bool()>& cancelled);

 private:
  Result<std::shared_ptr<const StoredObject>> FileOf(query::FileNumber number);

  const Dataset& dataset_;
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
