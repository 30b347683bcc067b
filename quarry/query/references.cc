#include "quarry/query/references.h"

#include <set>

#include "quarry/query/patch_rows.h"

namespace quarry::query {
namespace {

/// Finds what patches refer to: first the steps, each after those to which it refers; then, from the step of
/// the query on, the patches of each that others refer to.
class ReferenceSearch {
 public:
  /// @param most  steps that a step may need
  ReferenceSearch(const PatchLocator& locator, const FindReferences& find, const Query& query,
                  const PatchRange& range, const PatchGrid& grid, int most)
      : locator_(locator),
        find_(find),
        query_(query),
        grid_(grid),
        range_(range),
        most_(static_cast<std::size_t>(most)) {}

  Result<FoundReferences> Run(const std::vector<LocatedPatch>& entries) {
    std::set<std::uint64_t> referring;
    for (const LocatedPatch& entry : entries) {
      if (entry.patch.refers) referring.insert(entry.patch.patch_index);
    }
    if (referring.empty()) return FoundReferences{};
    QUARRY_RETURN_IF_ERROR(AddStep({query_.step, query_.mask}).status());
    QUARRY_RETURN_IF_ERROR(Pass(nodes_.back(), referring));
    for (std::size_t i = nodes_.size() - 1; i-- > 0;) {
      if (!nodes_[i].needed.empty()) QUARRY_RETURN_IF_ERROR(Locate(i));
    }
    return Collect();
  }

 private:
  struct Node {
    ReferenceStep step;
    std::vector<std::size_t> refers_to;
    std::set<std::uint64_t> needed;  ///< patches to which others refer
    std::map<std::uint64_t, ReferredPatch> found;
  };

  /// @returns the place of the step, which comes after all that it refers to
  Result<std::size_t> AddStep(const ReferenceStep& step) {
    if (const auto known = places_.find(step.step); known != places_.end()) return known->second;
    if (!open_.insert(step.step).second)
      return DataLoss("step {} refers to itself by way of others", step.step);
    if (open_.size() + nodes_.size() > most_ + 1)
      return DataLoss("step {} needs more than {} others, the most that dataset.json allows", query_.step,
                      most_);
    Node node{step, {}, {}, {}};
    QUARRY_ASSIGN_OR_RETURN(const std::vector<ReferenceStep> referred, find_(step.step));
    for (const ReferenceStep& next : referred) {
      QUARRY_ASSIGN_OR_RETURN(node.refers_to.emplace_back(), AddStep(next));
    }
    open_.erase(step.step);
    nodes_.push_back(std::move(node));
    places_[step.step] = nodes_.size() - 1;
    return nodes_.size() - 1;
  }

  /// Patches of a step need those of the steps to which it refers.
  Status Pass(const Node& node, const std::set<std::uint64_t>& referring) {
    if (node.refers_to.empty() && !referring.empty())
      return DataLoss("patches of step {} refer to another step, but step.json names none", node.step.step);
    for (const std::size_t place : node.refers_to)
      nodes_[place].needed.insert(referring.begin(), referring.end());
    return Status::Ok();
  }

  /// Finds the needed patches of a step.
  Status Locate(std::size_t place) {
    Node& node = nodes_[place];
    QUARRY_ASSIGN_OR_RETURN(std::vector<LocatedPatch> entries,
                            locator_.Find(node.step.step, query_.field_number, range_));
    std::map<std::uint64_t, LocatedPatch> masks;
    if (node.step.mask != 0) {
      QUARRY_ASSIGN_OR_RETURN(std::vector<LocatedPatch> rows,
                              locator_.FindMask(node.step.step, query_.field_number, range_));
      for (LocatedPatch& row : rows) {
        if (row.patch.payload_bytes() > 0) masks.emplace(row.patch.patch_index, std::move(row));
      }
    }
    std::set<std::uint64_t> referring;
    for (LocatedPatch& entry : entries) {
      const std::uint64_t index = entry.patch.patch_index;
      if (!node.needed.contains(index)) continue;
      const auto mask = masks.find(index);
      const bool masked = mask != masks.end();
      const std::int64_t samples = grid_.PatchBox(static_cast<std::int64_t>(index)).volume();
      QUARRY_RETURN_IF_ERROR(CheckMask(node.step.step, entry.patch, samples, masked));
      if (entry.patch.refers) referring.insert(index);
      node.found[index] = {place, std::move(entry),
                           masked ? std::make_shared<const LocatedPatch>(std::move(mask->second)) : nullptr};
    }
    return Pass(node, referring);
  }

  /// In the order in which patches are decoded.
  FoundReferences Collect() {
    FoundReferences found;
    for (Node& node : nodes_) {
      found.steps.steps.push_back(node.step);
      found.steps.refers_to.push_back(std::move(node.refers_to));
      for (auto& [index, patch] : node.found) found.of_patches[index].push_back(std::move(patch));
    }
    found.steps.steps.pop_back();  // that of the query
    return found;
  }

  const PatchLocator& locator_;
  const FindReferences& find_;
  const Query& query_;
  const PatchGrid& grid_;
  const PatchRange& range_;
  const std::size_t most_;
  std::vector<Node> nodes_;  ///< that of the query last
  std::map<std::uint64_t, std::size_t> places_;
  std::set<std::uint64_t> open_;  ///< steps whose references are being added
};

}  // namespace

Result<FoundReferences> FollowReferences(const PatchLocator& locator, const FindReferences& find,
                                         const Query& query, const PatchRange& range, const PatchGrid& grid,
                                         int most, const std::vector<LocatedPatch>& entries) {
  return ReferenceSearch(locator, find, query, range, grid, most).Run(entries);
}

ReferenceGraph GraphOf(const ReadPlan& plan, const PlannedPatch& patch) {
  if (patch.references.empty()) return {};
  std::map<std::size_t, std::size_t> places;  // positions of steps among the references of the patch
  ReferenceGraph graph;
  const auto add = [&](const format::PatchEntry& row, std::size_t step) {
    std::vector<std::size_t>& refers_to = graph.emplace_back();
    if (!row.refers) return;
    for (const std::size_t referred : plan.references.refers_to[step])
      refers_to.push_back(places.at(referred));
  };
  for (const ReferredPatch& reference : patch.references) {
    add(reference.entry.patch, reference.step);
    places.emplace(reference.step, graph.size() - 1);
  }
  add(patch.entry.patch, plan.references.steps.size());
  return graph;
}

}  // namespace quarry::query
