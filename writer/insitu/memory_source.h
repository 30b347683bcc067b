#pragma once

#include "writer/pipeline/field_source.h"
#include "writer/redistribute/copy_part.h"

namespace quarry::insitu {

/// Samples in the memory of a simulation, seen where they are.
class MemorySource final : public writer::FieldSource {
 public:
  /// @param owned  boxes of every rank; owned by the caller
  /// @param mine   those of this rank, with empty ones
  /// @param views  one for each of `mine`
  MemorySource(const distribution::RankBoxes& owned, std::vector<Box> mine,
               std::vector<writer::BoxView> views)
      : owned_(owned), mine_(std::move(mine)), views_(std::move(views)) {}

  std::unique_ptr<distribution::RankBoxes> Owned(const Box& region) const override {
    return std::make_unique<distribution::BoxesInRegion>(owned_, region, Index3{0, 0, 0});
  }

  Result<std::vector<writer::BoxView>> Load(const std::vector<Box>& boxes) override {
    std::vector<writer::BoxView> parts;
    for (const Box& part : boxes) parts.push_back(View(part));
    return parts;
  }

 private:
  /// Owned boxes are disjoint, so that a part lies in one of them.
  writer::BoxView View(const Box& part) const {
    std::size_t b = 0;
    while (!mine_[b].Contains(part)) ++b;
    return {redistribute::FirstSample(views_[b], mine_[b], part), views_[b].stride};
  }

  const distribution::RankBoxes& owned_;
  const std::vector<Box> mine_;
  const std::vector<writer::BoxView> views_;
};

}  // namespace quarry::insitu
