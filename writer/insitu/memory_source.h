#pragma once

#include "writer/pipeline/field_source.h"
#include "writer/redistribute/copy_part.h"

namespace quarry::insitu {

/// Samples in the memory of a simulation, seen where they are.
class MemorySource final : public writer::FieldSource {
 public:
  /// @param owned  boxes of every rank; owned by the caller
  /// @param views  one for each box of this rank
  MemorySource(const distribution::Ownership& owned, int rank, std::vector<writer::BoxView> views)
      : owned_(owned), rank_(static_cast<std::size_t>(rank)), views_(std::move(views)) {}

  distribution::Ownership Owned(const Box& region) const override {
    distribution::Ownership parts(owned_.size());
    for (std::size_t rank = 0; rank < owned_.size(); ++rank) {
      for (const Box& box : owned_[rank]) {
        const Box part = Intersect(box, region);
        if (!part.empty()) parts[rank].push_back(part);
      }
    }
    return parts;
  }

  Result<std::vector<writer::BoxView>> Load(const std::vector<Box>& boxes) override {
    std::vector<writer::BoxView> parts;
    for (const Box& part : boxes) parts.push_back(View(part));
    return parts;
  }

 private:
  /// Owned boxes are disjoint, so that a part lies in one of them.
  writer::BoxView View(const Box& part) const {
    const std::vector<Box>& mine = owned_[rank_];
    std::size_t b = 0;
    while (!mine[b].Contains(part)) ++b;
    return {redistribute::FirstSample(views_[b], mine[b], part), views_[b].stride};
  }

  const distribution::Ownership& owned_;
  const std::size_t rank_;
  const std::vector<writer::BoxView> views_;
};

}  // namespace quarry::insitu
