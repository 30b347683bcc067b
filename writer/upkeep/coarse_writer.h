#pragma once

#include "quarry/base/endian.h"
#include "quarry/description.h"
#include "quarry/format/coarse_object.h"
#include "quarry/storage/writable_storage.h"

namespace quarry::writer {

/// Where the files of a step lie: its fields in `folder`, its masks in the dataset.
struct StepFiles {
  Location dataset;
  Location folder;
};

/// The coarse object that a step should have, from its files; empty: none. docs/format.md, "Coarse objects".
/// @param room  [bytes] that the files may take in it
/// @errors kDataLoss: a subfile is damaged; kInternal
Result<Bytes> CoarseObjectOf(const StepFiles& files, const DatasetDescription& dataset,
                             const StepDescription& step, std::uint64_t room = format::kMostCoarseBytes);

/// Brings the object in the folder of a step to what it should be: writes it, or removes one of other files.
/// @param changed  gets whether it was not as it is now; may be null
/// @return whether the step has one now
/// @errors those of CoarseObjectOf; kResourceExhausted: no memory
Result<bool> WriteCoarseObject(const StepFiles& files, const DatasetDescription& dataset,
                               const StepDescription& step, const WritableStorage& storage,
                               bool* changed = nullptr);

}  // namespace quarry::writer
