#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "quarry/dataset/dataset.h"

namespace quarry {

/// Hands out the steps of a dataset that may still be written, each once. A step appears in a directory by one
/// rename, so that what is found is whole. One caller at a time.
class StepFollower {
 public:
  /// @param after  only steps with larger numbers; left out: all
  explicit StepFollower(std::filesystem::path root, std::optional<std::uint64_t> after = {})
      : root_(std::move(root)), after_(after) {}

  /// Steps that were published since the call before, in ascending order; at first those that there are. Where
  /// there are many, the next calls have the others: until one has none. Cheap where nothing has changed. Steps
  /// before a damaged one come first, the error with the call after.
  /// @errors kNotFound: the dataset has gone, or another is in its place; kDataLoss: a manifest is damaged, and
  /// the same steps come with the next call
  Result<std::vector<std::shared_ptr<const StepDescription>>> Poll();

  /// The dataset with all steps that Poll has handed out; null before the first.
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }

 private:
  Status CheckSameDirectory();
  Status OrGone(Status error) const;

  const std::filesystem::path root_;
  const std::optional<std::uint64_t> after_;
  std::shared_ptr<const Dataset> dataset_;
  std::string identity_;  ///< of the directory that was followed from the start
  std::set<std::uint64_t> seen_;
  std::string stamp_;  ///< of the folder of steps when it was listed last; empty: list it again
};

/// What tells whether something was added to a folder, or a file replaced.
struct Stamp {
  std::string text;
  bool settled = true;  ///< false: it has changed so recently that another change may not show in `text`
};
Stamp StampOf(const std::filesystem::path& path);

}  // namespace quarry
