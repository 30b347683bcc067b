#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "quarry/dataset/metadata_cache.h"
#include "quarry/description.h"
#include "quarry/format/step_sections.h"
#include "quarry/storage/location.h"

namespace quarry {

/// step.json of a step of the dataset at `root`.
Location StepManifest(const Location& root, std::uint64_t step);

/// [bytes] to read and parse a manifest: its text, the messages and the structs that it becomes.
std::uint64_t ParsingMemory(std::uint64_t bytes);

/// The part of a step.json that every question about a field needs: all of one in one piece, the root of one
/// in sections.
struct OpenedStep {
  StepDescription step;  ///< if there is a root, the number alone
  std::optional<format::StepRoot> root;
};

/// [bytes] of memory.
std::uint64_t MemoryOf(const OpenedStep& opened);

/// The same as StepManifests::Field for a dataset that is not open, and keeps nothing.
/// @errors kNotFound: there is no such step; kDataLoss
Result<std::shared_ptr<const FieldStepDescription>> ReadFieldOfStep(const Location& root, std::uint64_t step,
                                                                    const std::string& field,
                                                                    const DatasetDescription& dataset);

/// The only reader of the step.json files of an open dataset. A question about one field reads its section,
/// where a step.json has sections; these are kept while there is room. Thread-safe.
class StepManifests {
 public:
  /// @param dataset, cache  outlive this object
  StepManifests(Location root, const DatasetDescription& dataset, const MetadataCache* cache)
      : root_(std::move(root)), dataset_(dataset), cache_(cache) {}

  /// A field of a step; null if the step does not have it. @errors kNotFound, kDataLoss
  Result<std::shared_ptr<const FieldStepDescription>> Field(std::uint64_t step,
                                                            const std::string& field) const;
  /// All of a step. @errors kNotFound, kDataLoss
  Result<std::shared_ptr<const StepDescription>> Whole(std::uint64_t step) const;
  /// The same from the storage, not kept. @param text  gets that of step.json
  Result<StepDescription> Load(std::uint64_t step, std::string* text) const;

  /// Looks whether a step.json was replaced since it was read, unless the storage trusts its stamp still.
  void LookForReplacement(std::uint64_t step) const;
  /// True when one was.
  bool outdated() const { return outdated_; }

 private:
  using Fields = std::vector<FieldStepDescription>;
  using File = std::shared_ptr<const StoredObject>;

  using Clock = std::chrono::steady_clock;

  /// A step.json, as it was at its first read.
  struct Known {
    Stamp stamp;
    std::size_t replacements = 0;  ///< that readers of sections have met
    Clock::time_point asked = {};  ///< when the stamp was asked for last
  };

  Result<std::shared_ptr<const OpenedStep>> Open(std::uint64_t step, File* file) const;
  Result<std::shared_ptr<const FieldStepDescription>> Find(std::uint64_t step, const std::string& field,
                                                           const OpenedStep& opened, File file) const;
  Result<StepDescription> Read(std::uint64_t step, const File& file, const Result<std::string>& front,
                               std::string* text) const;
  MetadataCache::Key KeyOf(MetadataCache::Key::Kind kind, std::uint64_t step) const;
  void Remember(std::uint64_t step, const Stamp& stamp) const;
  bool WasReplaced(std::uint64_t step) const;

  const Location root_;
  const DatasetDescription& dataset_;
  const MetadataCache* const cache_;
  mutable std::mutex mutex_;  ///< never held over a look at the storage
  mutable std::map<std::uint64_t, Known> known_;
  mutable std::atomic<bool> outdated_ = false;
};

}  // namespace quarry
