#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "quarry/dataset/levels_ahead.h"
#include "quarry/dataset/payload.h"
#include "quarry/dataset/read_tasks.h"
#include "quarry/store/decode_pool.h"

namespace quarry {

/// A batch whose payload is being read. Each of its tasks goes to the pool as soon as the ranges that it
/// needs are there; one whose ranges cannot be read is dropped, which gives its patches up: whoever wants
/// them reads them again. Destroying it cancels what has not come. One caller at a time.
class BatchUnderWay {
 public:
  /// @param held  complete tasks wait for TakeComplete instead
  BatchUnderWay(std::shared_ptr<FetchedPayload> fetched, DecodePool* pool, const DecodePriority& priority,
                bool held)
      : fetched_(std::move(fetched)), pool_(pool), priority_(priority), held_(held) {}

  /// @param first, end  pieces of the fetch that the task decodes
  void Add(std::shared_ptr<DecodeTask> task, std::size_t first, std::size_t end);

  /// After all tasks were added. @errors those of PayloadSource::Begin
  Status Begin(PayloadSource* source, const std::function<bool()>& cancelled);
  /// The same for a fetch that is being read already.
  Status Begin(std::unique_ptr<EarlyReading> early);

  /// Waits for all ranges. @errors the first of a range; kCancelled
  Status Wait(const std::function<bool()>& cancelled);

  /// The complete tasks; from here on the others go to the pool.
  std::vector<std::shared_ptr<DecodeTask>> TakeComplete();

  /// Hands the complete tasks to the pool, as all others from here on.
  void SubmitComplete();

  /// Whether all ranges were reported.
  bool ended() const;
  /// The first error of a range up to now.
  Status status() const;

 private:
  struct Waiting {
    std::shared_ptr<DecodeTask> task;  ///< null: it was handed on, or dropped
    std::size_t missing = 0;           ///< ranges
  };
  /// A range that a task needs.
  struct Need {
    std::size_t range = 0;
    std::size_t task = 0;
  };

  RangeDone Prepare();
  void SubmitWithoutRanges();
  void RangeIsThere(std::size_t range, const Status& status);
  std::shared_ptr<DecodeTask> TakeIfComplete(Waiting* waiting) const;
  void Submit(std::shared_ptr<DecodeTask> task) const;

  const std::shared_ptr<FetchedPayload> fetched_;
  DecodePool* const pool_;
  const DecodePriority priority_;
  std::vector<Need> needs_;   ///< by range; changed by none while ranges come
  mutable std::mutex mutex_;  ///< guards the following
  std::vector<Waiting> tasks_;
  bool held_;
  std::size_t left_ = 0;  ///< ranges that were not reported
  Status first_;
  std::unique_ptr<Reading> reading_;  ///< destroyed first: it uses the others
};

}  // namespace quarry
