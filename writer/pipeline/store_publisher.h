#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "quarry/format/manifest.h"
#include "writer/pipeline/publish.h"
#include "writer/pipeline/store_claim.h"

namespace quarry::writer {

/// Publishes to a store, where files appear one by one and no folder is renamed. Files are put into their
/// places, masks and subfiles first, then the coarse object and step.json; a step counts when the head names
/// it, which is put under the condition that it is as we know it. dataset.json of a new dataset comes behind
/// the head of its first step.
class StorePublisher final : public Publisher {
 public:
  static Result<std::unique_ptr<Publisher>> Open(const WritableLocation& place, bool append, bool break_lock);

  Result<PublishedStep> Published(std::uint64_t step) const override;
  Result<std::string> StageField(std::uint64_t step, const std::string& field) override;
  Result<std::string> StageMask(std::uint64_t name) override;
  Status PublishStep(const DatasetDescription& dataset, const StepDescription& step) override;
  void Abandon() override;

 private:
  explicit StorePublisher(WritableLocation place) : Publisher(std::move(place)) {}

  Location root() const override { return place_.root; }
  Location FolderOf(std::uint64_t step) const { return root() / format::StepFolder(step); }
  Status Begin(bool append, bool break_lock);
  Status BeginNew(bool break_lock);
  Status BeginExisting(bool recover);
  Status Recover();
  Status Remove(const Location& folder) const;
  Status RemoveAll() const;
  Status PutStep(const DatasetDescription& dataset, const StepDescription& step);
  Status PublishNew(const DatasetDescription& dataset, const StepDescription& step);
  Status Declare(const DatasetDescription& dataset);
  Status AddFields(const StepDescription& step);
  /// Makes a step count. @errors kUnknown: perhaps it does
  Status PutHead(const StepDescription& step, const std::string& text, bool is_new);

  Status Sure(std::uint64_t step, Status put);

  std::optional<StoreClaim> claim_;
  bool ignores_conditions_ = false;
  bool is_broken_ = false;         ///< the catalogue has a step that is not published
  bool is_unsure_ = false;         ///< or that may be
  std::set<std::uint64_t> steps_;  ///< that are published
  std::set<std::string> staged_;   ///< folders of this run that nothing names yet
};

}  // namespace quarry::writer
