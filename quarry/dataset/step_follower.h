#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/storage/stamp_watch.h"

namespace quarry {

/// Returns the steps of a dataset that may still be written, each once. A step appears in a folder by one
/// rename, so a found step is complete. The folder is listed once for each change of it, however many calls
/// return the steps of a listing. Steps come from the catalogue: one that is removed or damaged after the
/// listing is returned as it was, where the catalogue has it. One caller at a time.
class StepFollower {
 public:
  /// Descriptions of about so many bytes come with one call, at least one.
  static constexpr std::uint64_t kMostBytes = 1 << 20;

  /// @param after  only steps with larger numbers; left out: all
  /// @param store  see Dataset::Open
  explicit StepFollower(Location root, std::optional<std::uint64_t> after = {},
                        std::shared_ptr<PatchStore> store = nullptr)
      : root_(std::move(root)), after_(after), store_(std::move(store)) {}

  /// Whether Poll has anything to look at. Cheap.
  bool Changed();

  /// Steps published since the last call, in ascending order; at first all that exist. If there are many, the
  /// next calls return the rest: call until none is left. Cheap if nothing has changed. Steps before a
  /// damaged one come first, the error with the next call.
  /// @errors kNotFound: the dataset has gone, or another is in its place; kDataLoss: a manifest is damaged,
  /// and the next call returns the same steps
  Result<std::vector<std::shared_ptr<const StepSummary>>> Poll();

  /// The next Poll returns the steps of the last one again.
  void Repeat();

  /// The next call looks at the folder, however long the storage trusts the last look.
  void LookAnew() { trusted_until_ = {}; }

  /// The dataset with all steps that Poll has returned; null before the first.
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }

 private:
  using Found = std::vector<std::shared_ptr<const StepSummary>>;

  using Clock = std::chrono::steady_clock;

  bool Holds();
  Status CheckSameDirectory();
  Status OrGone(Status error) const;
  Status Gone() const;
  bool HasUnread() const { return next_ < unread_.size(); }
  Status List();
  Result<Found> ReadSome();

  const Location root_;
  const std::optional<std::uint64_t> after_;
  std::shared_ptr<const Dataset> dataset_;  ///< as of the last listing
  std::string identity_;                    ///< identity of the directory at the first call
  const std::shared_ptr<PatchStore> store_;
  std::vector<std::uint64_t> seen_;    ///< ascending; steps that were returned before the last listing
  std::vector<std::uint64_t> unread_;  ///< ascending; the other steps of the last listing
  std::size_t next_ = 0;               ///< the first of `unread_` that was not returned
  std::size_t last_ = 0;               ///< steps of `unread_` before `next_` that the last Poll has returned
  Catalogue::Hold hold_;
  StampWatch watch_;                 ///< watches the folder of steps
  Clock::time_point trusted_until_;  ///< the last look, see Storage::trust
};

}  // namespace quarry
