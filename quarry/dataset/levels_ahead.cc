#include "quarry/dataset/levels_ahead.h"

#include <algorithm>

#include "quarry/query/plan_memory.h"

namespace quarry {

using query::LevelChoice;
using query::Pass;
using query::Piece;

// ---- EarlyReading

Result<std::unique_ptr<EarlyReading>> EarlyReading::Begin(PayloadSource* source,
                                                          std::shared_ptr<FetchedPayload> fetched,
                                                          const std::function<bool()>& cancelled) {
  auto early = std::make_unique<EarlyReading>();
  const auto done = [reading = early.get()](std::size_t range, const Status& status) {
    reading->RangeIsThere(range, status);
  };
  QUARRY_ASSIGN_OR_RETURN(early->reading_, source->Begin(std::move(fetched), done, cancelled));
  return early;
}

void EarlyReading::RangeIsThere(std::size_t range, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!done_) {
      reported_.emplace_back(range, status);
      return;
    }
  }
  done_(range, status);
}

void EarlyReading::ReportTo(RangeDone done) {
  std::vector<std::pair<std::size_t, Status>> reported;
  {
    const std::lock_guard lock(mutex_);
    done_ = std::move(done);
    reported.swap(reported_);
  }
  for (const auto& [range, status] : reported) done_(range, status);
}

// ---- LevelsAhead

Piece PieceAfter(const query::ReadPlan& plan, const StoredPatch& base, std::size_t index, int level) {
  if (!base) return {index, plan.dataset_levels - 1, level, 0};
  if (base->level() == level) return {index, plan.dataset_levels - 1, level, base->layers()};
  return {index, base->level() - 1, level, 0};
}

void LevelsAhead::Begin(std::span<const Pass> passes, std::size_t current) {
  if (most_ == 0) return;
  if (next_.first <= current) next_ = {current + 1, 0};
  for (auto& [number, batch] = next_; number < passes.size(); ++number, batch = 0) {
    const Pass& pass = passes[number];
    // A further layer refines what is decoded by then.
    if (pass.first_layer > 0 || pass.layer != passes[current].layer) return;
    for (; batch < pass.batches.size(); ++batch) {
      if (!BeginBatch(passes[number - 1], pass, number, pass.batches[batch])) return;
    }
  }
}

/// @returns false if there is no room, or a piece cannot be read
bool LevelsAhead::BeginBatch(const Pass& coarser, const Pass& pass, std::size_t number,
                             const query::Batch& batch) {
  /// The other half is for what is wanted sooner.
  constexpr std::uint64_t kPartOfShare = 2;
  std::uint64_t under_way = 0;
  std::uint64_t memory = 0;
  for (const Begun& begun : begun_) {
    under_way += begun.batch.payload->fetch.bytes();
    memory += query::DecodeMemory(plan_, begun.batch.payload->fetch);
  }
  if (under_way + batch.payload > most_) return false;

  std::vector<Piece> pieces;
  for (std::size_t i = batch.first_patch; i < batch.end(); ++i) {
    if (const auto piece = PieceOf(i, {pass.finest, pass.layer}, coarser.finest)) pieces.push_back(*piece);
  }
  if (pieces.empty()) return true;
  auto payload = std::make_shared<FetchedPayload>();
  payload->fetch = query::PlanFetch(plan_, std::move(pieces), pass.layer);
  const std::uint64_t bytes = query::DecodeMemory(plan_, payload->fetch);
  if (under_way + payload->fetch.bytes() > most_) return false;
  if (memory + bytes > store_->FairShare(requester_.client) / kPartOfShare) return false;
  std::optional<PatchStore::Memory> reserved = store_->TryReserve(bytes, requester_.client);
  if (!reserved) return false;
  payload->memory = *std::move(reserved);
  auto reading = EarlyReading::Begin(source_, payload, requester_.cancelled);
  if (!reading.ok()) return false;
  begun_.push_back({number, {std::move(payload), *std::move(reading)}});
  return true;
}

/// The payload that a patch will need when its turn comes; nothing if it is stored.
/// @param coarser  the level before, which is decoded by then
std::optional<Piece> LevelsAhead::PieceOf(std::size_t index, const LevelChoice& wanted, int coarser) const {
  const Piece expected{index, coarser - 1, wanted.level, 0};
  for (const PatchKey& key : keys_->Of(plan_.patches[index], wanted)) {
    const StoredPatch stored = store_->Find(key);
    if (!stored) continue;
    if (stored->level() == wanted.level && stored->layers() > wanted.layer) return std::nullopt;
    return stored->level() < coarser ? PieceAfter(plan_, stored, index, wanted.level) : expected;
  }
  return expected;
}

std::optional<LevelsAhead::Batch> LevelsAhead::Take(std::span<const Piece> pieces, int layers) {
  const auto found = std::ranges::find_if(begun_, [&](const Begun& begun) {
    const query::Fetch& fetch = begun.batch.payload->fetch;
    return fetch.layers == layers && std::ranges::equal(fetch.pieces, pieces);
  });
  if (found == begun_.end()) return std::nullopt;
  Batch batch = std::move(found->batch);
  begun_.erase(found);
  return batch;
}

void LevelsAhead::EndPass(std::size_t pass) {
  std::erase_if(begun_, [pass](const Begun& begun) { return begun.pass <= pass; });
}

}  // namespace quarry
