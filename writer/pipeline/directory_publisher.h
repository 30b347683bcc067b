#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "quarry/base/directory_lock.h"
#include "quarry/pack/packed_steps.h"
#include "writer/pipeline/publish.h"

namespace quarry::writer {

/// Publishes to a directory. Everything is written into a staging folder and becomes visible by one rename; a
/// crash at any moment leaves the dataset with all its published steps and at most a staging folder, which
/// the next run removes.
class DirectoryPublisher final : public Publisher {
 public:
  static Result<std::unique_ptr<Publisher>> Open(const WritableLocation& place, bool append, bool break_lock);

  Result<PublishedStep> Published(std::uint64_t step) const override;
  Result<std::string> StageField(std::uint64_t step, const std::string& field) override;
  Result<std::string> StageMask(std::uint64_t name) override;
  Status PublishStep(const DatasetDescription& dataset, const StepDescription& step) override;
  void Abandon() override;

 private:
  DirectoryPublisher(WritableLocation place, DirectoryLock lock)
      : Publisher(std::move(place)), dataset_(place_.root.path), lock_(std::move(lock)) {}

  const WritableStorage& storage() const { return *place_.storage; }
  Location root() const override;
  /// For reading and writing. @param place  below the root
  Location At(std::string_view place) const { return root() / place; }
  Location StepStaging(std::uint64_t step) const;
  Location MaskStaging(std::uint64_t name) const;
  Status PublishMasks();
  Status WriteManifest(const Location& folder, const std::string& name, const std::string& text) const;
  Status PublishNewDataset(const DatasetDescription& dataset, const StepDescription& step);
  bool IsPacked(std::uint64_t step) const;
  Status MakeFolder(std::uint64_t step);
  void Gather(const StepDescription& step, const std::string& text);
  Status PackGathered();
  void Catalogue(const StepDescription& step, const std::string& text, bool is_new);
  Status AddFieldsToStep(const StepDescription& step);
  Status KeepPublished(std::uint64_t step, const std::string& folder) const;

  std::filesystem::path dataset_;
  /// Empty from the removal of a dataset that does not exist yet until its next step is staged: meanwhile
  /// another process may create one of this name.
  std::optional<DirectoryLock> lock_;
  std::vector<PackRef> packs_;          ///< in the existing dataset
  std::deque<std::uint64_t> gathered_;  ///< small steps of this run with folders, the oldest first
  bool gathers_ = true;                 ///< small steps of this run go to packs
  std::set<std::uint64_t> staged_masks_;
};

}  // namespace quarry::writer
