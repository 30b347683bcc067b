#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/payload.h"
#include "quarry/dataset/read_engine.h"

namespace quarry {

/// The stored payload that one level of the answer adds to a patch, or one layer of its last level.
struct StoredPayload {
  int level = 0;                                 ///< level of the answer
  int first_layer = 0;                           ///< first layer of the payload; above 0, the only one
  std::size_t patch = 0;                         ///< number in the answer
  const query::PlannedPatch* planned = nullptr;  ///< this patch
  /// Coarse to fine. They end before a damaged one; after one that lacks layers no finer one has them. Of a
  /// further layer all or none.
  std::vector<LevelPayload> levels;
  bool damaged = false;               ///< levels are missing
  std::shared_ptr<const void> owner;  ///< owner of the bytes
};

/// Receives payload that is not decoded, on the thread that called ExecutePayloads.
class PayloadSink {
 public:
  virtual ~PayloadSink() = default;
  virtual Status Deliver(const StoredPayload& payload) = 0;
  virtual Status LevelEnd(const query::LevelExtent& level) = 0;
  virtual void Damaged(const Status&) {}
};

/// Damage of a patch, and the part of it that was sent.
struct PayloadDamage {
  Status what;
  int level = 0;      ///< the finest
  int layers = 0;     ///< layers at that level; finer levels have at most as many
  bool ends = false;  ///< finer levels are useless
};
using PayloadDamages = std::map<std::uint64_t, PayloadDamage>;  ///< by the number of the patch in its grid

/// Fetches and delivers a plan as ExecuteRead does, with the payload as it is stored, for clients that
/// decode. Checksums are compared here. The caller has pinned PayloadMemory instead of query::DeliveryMemory.
/// @param damages  of the answer so far; finer levels of these patches are left out
Status ExecutePayloads(const Dataset& dataset, const query::ReadPlan& plan, ReadEngine* engine,
                       const Requester& requester, PayloadSink* sink, const query::Position& from,
                       PayloadDamages* damages, ReadUsage* usage);

/// Upper bound of the memory that ExecutePayloads takes beside the plan: what is read at a time, twice, and
/// where reading has to be begun early, once more.
/// @param costs  of the storage
std::uint64_t PayloadMemory(const query::ReadPlan& plan, const ReadEngine& engine, const ReadCosts& costs);

}  // namespace quarry
