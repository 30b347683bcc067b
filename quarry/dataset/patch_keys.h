#pragma once

#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/store/patch_store.h"

namespace quarry {

/// The keys in a PatchStore of what a plan decodes. Outlives neither the plan nor changes of it.
class PatchKeys {
 public:
  PatchKeys(const Dataset& dataset, const query::ReadPlan& plan);

  /// Keys of a patch, and of the stored patches that it can be refined from, the best first: this level in
  /// the layers before, the coarser levels.
  std::vector<PatchKey> Of(const query::PlannedPatch& patch, const query::LevelChoice& wanted) const;

 private:
  void AppendLevels(const query::PlannedPatch& patch, const query::LevelChoice& wanted,
                    std::vector<PatchKey>* keys) const;

  const query::ReadPlan& plan_;
  const std::uint64_t dataset_;
};

/// The patch of a plan in memory with which its answer best begins, the others following as in a ring: where
/// the store has most of it. 0 for an answer that fits into the requester's part of the store, where order
/// saves nothing. What is stored there becomes the newest in the store, its first patch the newest of all.
///
/// An answer that is larger, and asked for again, would otherwise find nothing: each patch makes room for
/// another shortly before its turn. An answer that is under way leaves behind it what the next one begins
/// with, and the two go on together.
/// @source Saule et al., An Out-of-Core Task-based Middleware for Data-Intensive Scientific Computing,
/// algorithm 1: the task with the least new bytes is next. Here a task is a patch, and positions need an
/// order that one number describes
/// @complexity linear in the patches of the plan
std::size_t BestStart(const Dataset& dataset, const query::ReadPlan& plan, PatchStore* store,
                      const Requester& requester);

/// The share of the patches of a plan that are in the store as the answer shows them, among the first
/// thousand; 0 of a plan in runs.
double StoredShare(const Dataset& dataset, const query::ReadPlan& plan, const PatchStore& store);

}  // namespace quarry
