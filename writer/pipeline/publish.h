#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "quarry/description.h"
#include "quarry/storage/writable_storage.h"
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

/// kAlreadyExists for a dataset that was not there when this writer began.
Status CreatedMeanwhile(const std::string& dataset);

/// The side of the writer that decides what readers see. Used by one rank alone. Readers see whole steps
/// only, and after a crash at any moment all that were published: docs/format.md, "Publishing", is the
/// protocol of directories and of stores, which have a class each.
class Publisher {
 public:
  /// Keeps other writers out, and removes what an interrupted run left behind.
  /// @param append  true: the dataset must exist; false: it must not
  /// @param break_lock  see LockOptions
  /// @errors kAlreadyExists, kNotFound, kDataLoss (existing dataset is damaged), kUnavailable (another
  /// process is writing, or has left its owner file behind)
  static Result<std::unique_ptr<Publisher>> Open(const WritableLocation& place, bool append,
                                                 bool break_lock = false);
  virtual ~Publisher() = default;
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  /// Whether a step of an existing dataset has a time. Looks at steps until one has. @errors kDataLoss
  static Result<bool> HasTimes(const Location& dataset);
  /// The last step that has a field, without lock or change; nothing if none has.
  static Result<std::optional<std::uint64_t>> LastStep(const Location& dataset, const std::string& field);
  /// Whether a step has a field, without lock or change. Looks at steps until one has, the first of them
  /// first.
  static Result<bool> Holds(const Location& dataset, const std::string& field);

  /// The existing dataset.json, when appending or after the first step was published.
  const std::optional<DatasetDescription>& existing() const { return existing_; }
  /// The published fields of a step; nothing if there is no such step.
  virtual Result<PublishedStep> Published(std::uint64_t step) const = 0;

  /// Path of the folder in which the subfiles of `field` are to be created before PublishStep.
  virtual Result<std::string> StageField(std::uint64_t step, const std::string& field) = 0;

  /// The mask of this name, if it exists: from this run or an earlier one.
  /// @param grid  number of its grid in `dataset`
  /// @errors kDataLoss: it is damaged
  Result<std::optional<MaskDescription>> FindMask(std::uint64_t name, const DatasetDescription& dataset,
                                                  std::size_t grid);
  /// Path of the folder in which the subfiles of a mask are to be created, which PublishStep then publishes.
  virtual Result<std::string> StageMask(std::uint64_t name) = 0;
  /// The staged mask is complete.
  void AddMask(const MaskDescription& mask) { masks_[mask.name] = mask; }

  /// Makes the staged masks visible, then the staged fields as `step`, or as more fields of it, and `dataset`
  /// as dataset.json where it has new fields, or a unit of times.
  /// @errors kUnknown: the step is published, but may not survive a power cut; after any other it is not
  /// published
  virtual Status PublishStep(const DatasetDescription& dataset, const StepDescription& step) = 0;
  /// A warning for the user about the steps that were published, once; empty: none.
  std::string TakeWarning() { return std::exchange(warning_, {}); }

  /// Removes everything that is staged, as after a failure.
  virtual void Abandon() = 0;

 protected:
  explicit Publisher(WritableLocation place) : place_(std::move(place)) {}

  /// Folder of the dataset, or the one in which it grows.
  virtual Location root() const = 0;
  static Result<PublishedStep> ReadPublished(const Location& folder, const DatasetDescription& description);
  /// Whether a dataset says more than dataset.json, which only grows.
  static bool Declares(const DatasetDescription& dataset, const DatasetDescription& existing);
  /// Writes the coarse object of a step into its folder. Without it, readers ask for each part of a file.
  /// @return whether there is one
  bool StageCoarse(const StepDescription& step, const DatasetDescription& dataset,
                   const Location& folder) const;
  /// Adds new fields to those of a step. @errors kInvalidArgument: it has another time
  Status AddFieldsTo(const StepDescription& step, StepDescription* whole) const;

  WritableLocation place_;
  std::optional<DatasetDescription> existing_;
  std::optional<CatalogueWriter> catalogue_;  ///< null until the dataset exists, and after it has failed
  std::string warning_;
  std::map<std::uint64_t, MaskDescription> masks_;  ///< known ones, by name
};

}  // namespace quarry::writer
