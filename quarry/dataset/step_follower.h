#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/storage/stamp_watch.h"

namespace quarry {

/// Returns the steps of a dataset that may still be written, each once. A step appears in a folder by one
/// rename, so a found step is complete. One caller at a time.
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
  Result<std::vector<std::shared_ptr<const StepDescription>>> Poll();

  /// The next Poll returns the steps of the last one again.
  void Repeat();

  /// The dataset with all steps that Poll has returned; null before the first.
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }

 private:
  Status CheckSameDirectory();
  Status OrGone(Status error) const;

  const Location root_;
  const std::optional<std::uint64_t> after_;
  std::shared_ptr<const Dataset> dataset_;
  std::string identity_;  ///< identity of the directory at the first call
  const std::shared_ptr<PatchStore> store_;
  std::set<std::uint64_t> seen_;
  std::vector<std::uint64_t> last_;  ///< steps of `seen_` from the last Poll
  StampWatch watch_;                 ///< watches the folder of steps
};

}  // namespace quarry
