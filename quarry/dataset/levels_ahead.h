#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "quarry/dataset/patch_keys.h"
#include "quarry/dataset/payload.h"

namespace quarry {

/// New connections carry little at first: only several times what is on the way keeps the way full.
constexpr std::uint64_t kFill = 4;

/// Ranges that are being read before anybody decodes them.
class EarlyReading final : public Reading {
 public:
  /// @errors those of PayloadSource::Begin
  static Result<std::unique_ptr<EarlyReading>> Begin(PayloadSource* source,
                                                     std::shared_ptr<FetchedPayload> fetched,
                                                     const std::function<bool()>& cancelled);

  /// Reports the ranges that have come, and each other one when it comes. Called once.
  void ReportTo(RangeDone done);

  Status Wait(const std::function<bool()>& cancelled) override { return reading_->Wait(cancelled); }

 private:
  void RangeIsThere(std::size_t range, const Status& status);

  std::mutex mutex_;                                      ///< guards the following
  RangeDone done_;                                        ///< set once
  std::vector<std::pair<std::size_t, Status>> reported_;  ///< before
  std::unique_ptr<Reading> reading_;                      ///< destroyed first: it reports
};

/// The payload that a patch needs beyond its stored one.
/// @param base  stored patch that it is refined from, or null
query::Piece PieceAfter(const query::ReadPlan& plan, const StoredPatch& base, std::size_t index, int level);

/// Payload of the levels behind the one that is delivered, where a storage answers late: an answer that comes
/// coarse to fine then waits once, instead of once for each level. One caller at a time.
class LevelsAhead {
 public:
  /// All outlive this.
  LevelsAhead(const Dataset& dataset, const query::ReadPlan& plan, PatchStore* store, const PatchKeys* keys,
              PayloadSource* source, const Requester& requester)
      : plan_(plan),
        store_(store),
        keys_(keys),
        source_(source),
        requester_(requester),
        most_(kFill * dataset.root().storage->costs().bytes_under_way()) {}

  /// Begins to read batches of the passes behind one, in their order, as far as they fill the way, and take
  /// at most half of a fair share of the memory. Errors come again when the patches are wanted.
  void Begin(std::span<const query::Pass> passes, std::size_t current);

  struct Batch {
    std::shared_ptr<FetchedPayload> payload;
    std::unique_ptr<EarlyReading> reading;
  };
  /// The payload of just these pieces in so many layers, if it was begun.
  std::optional<Batch> Take(std::span<const query::Piece> pieces, int layers);

  /// Gives up what was begun of a pass, and of those before it, and was not taken.
  void EndPass(std::size_t pass);

  /// Gives all up. Whoever waits for memory calls this before: nothing here goes on by itself and frees some.
  void GiveUp() { begun_.clear(); }

 private:
  struct Begun {
    std::size_t pass = 0;
    Batch batch;
  };

  bool BeginBatch(const query::Pass& coarser, const query::Pass& pass, std::size_t number,
                  const query::Batch& batch);
  std::optional<query::Piece> PieceOf(std::size_t index, const query::LevelChoice& wanted, int coarser) const;

  const query::ReadPlan& plan_;
  PatchStore* const store_;
  const PatchKeys* const keys_;
  PayloadSource* const source_;
  const Requester& requester_;
  const std::uint64_t most_;                        ///< [bytes] under way
  std::pair<std::size_t, std::size_t> next_{0, 0};  ///< pass and batch to be begun next
  std::vector<Begun> begun_;
};

}  // namespace quarry
