#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "quarry/format/catalogue.h"
#include "quarry/format/step_records.h"
#include "writer/copy/selection.h"
#include "writer/upkeep/catalogue_writer.h"

namespace quarry::writer {

/// The target of a copy: a dataset that grows where no reader sees it, or one that is there and gets steps.
/// Where folders can be renamed, files gather in folders that readers ignore; in a store they gather in their
/// places, and dataset.json comes last.
class Destination {
 public:
  /// @errors kFailedPrecondition: something else is there; those of LockFolder unless `look_only`
  static Result<Destination> Open(const CopyTarget& to, const Selection& selection, bool look_only,
                                  const LockOptions& locking);

  /// Whether readers see the dataset.
  bool shown() const { return shown_; }
  /// Whether it is in a store, and its readers take the steps from the head, so that steps can be added.
  bool publishes_by_head() const { return catalogue_.has_value(); }
  const WritableStorage& storage() const { return *to_.storage; }
  const Location& place() const { return to_.root; }
  /// Steps that are there, complete or not.
  const std::set<std::uint64_t>& steps() const { return steps_; }
  /// A file as it lies there, for reading.
  Location Plain(std::string_view place) const { return Location(to_.root.storage, root_) / place; }
  /// Path of the folder that has the files.
  const std::string& root() const { return root_; }
  /// A path for writing.
  std::string PathOf(std::string_view place) const;

  /// The text of a step.json there; nothing: the step is not there, or not complete.
  Result<std::optional<std::string>> StepText(std::uint64_t step) const;

  /// Folders, below the root, in which files of a step or a mask gather.
  std::string StepPlace(std::uint64_t step) const;
  std::string MaskPlace(std::uint64_t mask) const;
  bool HasMask(std::uint64_t mask) const;

  /// Whether the head counts all steps.
  bool has_catalogue() const;

  /// dataset.json says what the steps that come will need. Nothing is written for a dataset that is not shown
  /// yet.
  Status Declare(bool has_packs);
  /// Puts step.json, and shows the step. Its files are there, their names durable.
  Status ShowStep(const StepToCopy& step);
  Status ShowMask(std::uint64_t mask);
  /// After the last step: head and catalogue, then dataset.json.
  /// @param records  of the steps that were chosen
  Status Finish(std::map<std::uint64_t, format::StepRecord> records);

 private:
  Destination(CopyTarget to, DatasetDescription description)
      : to_(std::move(to)), description_(std::move(description)) {}

  WritableLocation Writable() const { return {Location(to_.root.storage, root_), to_.storage}; }
  Status OpenShown(const DatasetDescription& wishes);
  Status OpenHead();
  Status OpenHidden();
  Status ListSteps();
  Status RemoveTemporary() const;
  Status PutOnce(const std::string& path, const std::string& text) const;
  Status WriteCatalogue(std::map<std::uint64_t, format::StepRecord> records);
  Status AddToCatalogue(const std::map<std::uint64_t, format::StepRecord>& records);
  Status MakeCatalogue(std::map<std::uint64_t, format::StepRecord> records) const;

  CopyTarget to_;
  DatasetDescription description_;            ///< as it will be
  std::string text_;                          ///< dataset.json of the source, if it is copied as it is
  std::string before_;                        ///< dataset.json as it is; empty: none
  std::string tag_;                           ///< its tag
  std::optional<CatalogueWriter> catalogue_;  ///< in a store whose head publishes
  std::string root_;                          ///< path of the folder that has the files
  Location with_packs_;                       ///< the same for reading, with packed steps as folders
  bool shown_ = false;
  std::set<std::uint64_t> steps_;
  std::shared_ptr<void> lock_;
};

/// Adds to a description what another one of the same dataset has besides.
/// @param wishes  its fields that `known` lacks are added
/// @errors kFailedPrecondition: they are not of the same dataset, and why
Result<DatasetDescription> Joined(const DatasetDescription& known, const DatasetDescription& wishes);

/// The folder in which a new dataset of this path grows.
std::string HiddenRoot(const CopyTarget& to);

}  // namespace quarry::writer
