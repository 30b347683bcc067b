#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "quarry/base/directory_lock.h"
#include "quarry/description.h"
#include "quarry/pack/packed_steps.h"
#include "writer/upkeep/catalogue_writer.h"

namespace quarry::writer {

/// Contents of a published step.
struct PublishedStep {
  std::optional<double> time;
  std::map<std::string, std::string> sources;  ///< by field: the name of the input that it was made from

  bool has(const std::string& field) const { return sources.contains(field); }
};

/// Checks that a published field was made from the same input as a resumed run has: the time is the same, or,
/// where one is unknown, the name of the input.
/// @param published  has the field
/// @errors kAlreadyExists: it was made from something else, which a resumed run would lose
Status CheckSameInput(const std::string& dataset, std::uint64_t step, const PublishedStep& published,
                      const std::string& field, const std::string& source, std::optional<double> time);

/// The side of the writer that decides what readers see. Used by one rank alone. Everything is written into a
/// staging folder and becomes visible by one rename; a crash at any moment leaves the dataset with all its
/// published steps and at most a staging folder, which the next run removes. docs/format.md, "Publishing", is
/// the protocol.
class Publisher {
 public:
  /// Takes the writing lock and removes what an interrupted run left behind.
  /// @param append  true: the dataset must exist; false: it must not
  /// @param break_lock  see LockOptions
  /// @errors kAlreadyExists, kNotFound, kDataLoss (existing dataset is damaged), kUnavailable (another
  /// process is writing, or has left its owner file behind)
  static Result<Publisher> Open(const std::filesystem::path& dataset, bool append, bool break_lock = false);

  /// Whether a step of an existing dataset has a time. Looks at steps until one has. @errors kDataLoss
  static Result<bool> HasTimes(const std::filesystem::path& dataset);

  /// The existing dataset.json, when appending or after the first step was published.
  const std::optional<DatasetDescription>& existing() const { return existing_; }
  /// The published fields of a step; nothing if there is no such step.
  Result<PublishedStep> Published(std::uint64_t step) const;
  /// The last step that has a field, without lock or change; nothing if none has.
  static Result<std::optional<std::uint64_t>> LastStep(const std::filesystem::path& dataset,
                                                       const std::string& field);

  /// Whether a step has a field, without lock or change. Looks at steps until one has, the first of them
  /// first.
  static Result<bool> Holds(const std::filesystem::path& dataset, const std::string& field);

  /// Makes the folder in which the subfiles of `field` are to be created before PublishStep.
  Result<std::filesystem::path> StageField(std::uint64_t step, const std::string& field);

  /// The mask of this name, if it exists: from this run or an earlier one.
  /// @param grid  number of its grid in `dataset`
  /// @errors kDataLoss: it is damaged
  Result<std::optional<MaskDescription>> FindMask(std::uint64_t name, const DatasetDescription& dataset,
                                                  std::size_t grid);
  /// Makes the folder in which the subfiles of a mask are to be created, which PublishStep then publishes.
  Result<std::filesystem::path> StageMask(std::uint64_t name);
  /// The staged mask is complete.
  void AddMask(const MaskDescription& mask) { masks_[mask.name] = mask; }

  /// Makes the staged masks visible, then the staged fields as `step`, or as more fields of it, and `dataset`
  /// as dataset.json where it has new fields, or a unit of times.
  /// @errors kUnknown: the step is published, but may not survive a power cut; after any other it is not
  /// published
  Status PublishStep(const DatasetDescription& dataset, const StepDescription& step);
  /// A warning for the user about the steps that were published, once; empty: none.
  std::string TakeWarning() { return std::exchange(warning_, {}); }

  /// Removes everything that is staged, as after a failure.
  void Abandon();

 private:
  Publisher(std::filesystem::path dataset, DirectoryLock lock)
      : dataset_(std::move(dataset)), lock_(std::move(lock)) {}

  /// The dataset's folder, or the one in which it grows.
  std::filesystem::path Root() const;
  std::filesystem::path StepStaging(std::uint64_t step) const;
  std::filesystem::path MaskStaging(std::uint64_t name) const;
  Status PublishMasks();
  Status WriteManifest(const std::filesystem::path& directory, const std::string& name,
                       const std::string& text) const;
  void Catalogue(const StepDescription& step, const std::string& text, bool is_new);
  Status PublishNewDataset(const DatasetDescription& dataset, const StepDescription& step);
  bool IsPacked(std::uint64_t step) const;
  Status MakeFolder(std::uint64_t step);
  void Gather(const StepDescription& step, const std::string& text);
  Status PackGathered();
  Status AddFieldsToStep(const StepDescription& step);

  std::filesystem::path dataset_;
  /// Empty from the removal of a dataset that does not exist yet until its next step is staged: meanwhile
  /// another process may create one of this name.
  std::optional<DirectoryLock> lock_;
  std::optional<DatasetDescription> existing_;
  std::optional<CatalogueWriter> catalogue_;  ///< null until the dataset exists, and after it has failed
  std::vector<PackRef> packs_;                ///< in the existing dataset
  std::deque<std::uint64_t> gathered_;        ///< small steps of this run with folders, the oldest first
  bool gathers_ = true;                       ///< small steps of this run go to packs
  std::string warning_;
  std::map<std::uint64_t, MaskDescription> masks_;  ///< known ones, by name
  std::set<std::uint64_t> staged_masks_;
};

}  // namespace quarry::writer
