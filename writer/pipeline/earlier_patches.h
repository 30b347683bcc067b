#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "quarry/codec/patch_codec.h"
#include "quarry/description.h"
#include "quarry/storage/location.h"

/// References for patches of a new step: the same patches of steps that are published, as readers have them.
namespace quarry::writer {

/// The published steps of a dataset while a run writes it, which has the lock: listed once, as that takes the
/// longer the more there are.
class StepNumbers {
 public:
  explicit StepNumbers(Location dataset) : dataset_(std::move(dataset)) {}

  /// Ascending. Steps that are removed meanwhile may be among them.
  /// @errors those of the storage
  Result<const std::vector<std::uint64_t>*> All();
  /// Adds a step that this run has published.
  void Add(std::uint64_t step);

 private:
  const Location dataset_;
  std::optional<std::vector<std::uint64_t>> steps_;
};

/// The steps to which a field of a new step may refer: those that were planned, if they have the field;
/// otherwise the last one before it that has, unless it is time for a keyframe, since the new step would need
/// as many others as that allows. It depends on the published steps alone, so that a run that goes on where
/// another ended writes the same bytes.
/// @param dataset  may not exist yet
/// @param planned  nothing: the step is on its own
/// @param published  of the dataset; needed where nothing is planned
/// @errors kDataLoss
Result<std::vector<std::uint64_t>> ChooseReferences(const Location& dataset, std::uint64_t step,
                                                    const FieldDescription& field,
                                                    const std::vector<std::uint64_t>* planned,
                                                    StepNumbers* published);

/// The patches of one field that this rank encodes, of the steps to which others will refer. They are kept
/// while there is room; others are read and decoded.
class EarlierPatches {
 public:
  /// @param dataset  as published
  /// @param most     [bytes] to keep
  EarlierPatches(Location dataset, std::string field, DataType type, std::uint64_t most);
  ~EarlierPatches();

  /// Begins with a step that is to be written.
  /// @param references  to which it refers; none: it is a keyframe
  /// @param later       steps, perhaps this one, to which those refer that are written afterwards
  void Begin(std::uint64_t step, std::vector<std::uint64_t> references, const std::set<std::uint64_t>& later);
  const std::vector<std::uint64_t>& references() const { return references_; }

  /// The mean of a patch at the reference steps; empty without one, or if it has no valid sample there.
  /// @param box  of the patch
  /// @errors kDataLoss, and those of reading
  /// @threads safe, as Keep
  Result<DecodedPatch> Find(std::int64_t patch, const Box& box);
  /// Keeps a patch of the step, if others will refer to it.
  void Keep(std::int64_t patch, DecodedPatch decoded);

 private:
  class Reader;
  using Kept = std::shared_ptr<const DecodedPatch>;
  using Patches = std::map<std::int64_t, Kept>;

  Result<Kept> FindAt(std::uint64_t step, std::int64_t patch, const Box& box);

  const Location dataset_;
  const std::string field_;
  const DataType type_;
  const std::uint64_t most_;
  std::uint64_t step_ = 0;
  std::vector<std::uint64_t> references_;
  bool needed_later_ = false;
  std::mutex mutex_;  ///< guards the members below
  std::map<std::uint64_t, Patches> steps_;
  std::uint64_t bytes_ = 0;  ///< size of all patches
  std::shared_ptr<Reader> reader_;
};

}  // namespace quarry::writer
