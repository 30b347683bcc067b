#include "quarry/query/plan.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "quarry/base/checksum.h"

namespace quarry::query {
namespace {

/// Of a mask.
const format::LevelEntry& MaskLevel(const LocatedPatch& mask, int level) {
  return mask.patch.levels[static_cast<std::size_t>(level)];
}

const format::LevelEntry& PartOf(const LocatedPatch& entry, const PatchParts& parts, int layer, int level) {
  return entry.patch.levels[parts.Of(layer, level)];
}

/// Payload of one level in some layers.
/// @param layers  first and last
std::uint64_t LayersOf(const LocatedPatch& entry, const PatchParts& parts, std::pair<int, int> layers,
                       int level) {
  std::uint64_t bytes = 0;
  for (int k = layers.first; k <= layers.second; ++k) bytes += PartOf(entry, parts, k, level).size;
  return bytes;
}

std::uint64_t LevelSampleBytes(const ReadPlan& plan, const PlannedPatch& patch, int level) {
  return static_cast<std::uint64_t>(LevelBox(patch.samples, level).volume()) * SizeOf(plan.type);
}

/// Memory of decoded samples; if some are missing, with a second copy with the missing ones in place, and a
/// byte of validity for each.
std::uint64_t DecodedBytes(std::uint64_t samples, DataType type, bool masked) {
  return samples * (masked ? 2 * SizeOf(type) + 1 : SizeOf(type));
}

std::uint64_t DecodedBytes(const ReadPlan& plan, const PlannedPatch& patch, int level) {
  const auto samples = static_cast<std::uint64_t>(LevelBox(patch.samples, level).volume());
  return DecodedBytes(samples, plan.type, patch.mask != nullptr);
}

/// What the C library adds to an allocation.
constexpr std::uint64_t kAllocation = 16;
/// Of a plan without patches: its names, levels, passes and open files.
constexpr std::uint64_t kPlanObjects = 16 << 10;
/// Of a box that is left out: in the plan, in the header, in its message, and in the bytes of the message.
constexpr std::uint64_t kLeftOutBytes = 512;

/// Memory of the parts of a row, and of the row of the mask.
std::uint64_t RowMemory(const PatchParts& parts, bool masked) {
  const auto row = [](int count) {
    return static_cast<std::uint64_t>(count) * sizeof(format::LevelEntry) + kAllocation;
  };
  const std::uint64_t bytes = row(parts.count());
  return masked ? bytes + row(parts.levels) + sizeof(LocatedPatch) + 2 * kAllocation : bytes;
}

/// Memory that decoding a piece takes beside its payload.
std::uint64_t PieceMemory(const ReadPlan& plan, const Piece& piece) {
  constexpr std::uint64_t kObjects = 2 << 10;  // table rows in the task, the decoder, its place in the store
  // Three times: coders hold a working form of the level beside its samples, and the coarser level. So do
  // those of the layers before.
  const auto layers = static_cast<std::uint64_t>(plan.query.layer) + 1;
  const PlannedPatch& patch = plan.patches[piece.patch];
  return kObjects + 3 * layers * (1 + patch.references.size()) * DecodedBytes(plan, patch, piece.finest);
}

/// What is held of a patch that is delivered, in decoded patches: itself with its layers, and what is cut out
/// of it.
std::uint64_t DeliveredForms(const Query& query) { return 2 * (static_cast<std::uint64_t>(query.layer) + 1); }

/// One payload that a batch needs, before neighbours are joined.
struct Wanted {
  FileNumber file;
  std::uint64_t offset;
  std::uint64_t size;
  Slice* slice;
};

/// Memory of the fetches of a batch while they are planned: the batch itself, and a half of it beside it.
std::uint64_t FetchMemory(std::uint64_t patches, const PatchParts& parts, bool masked) {
  const auto layers = static_cast<std::uint64_t>(parts.layers);
  const std::uint64_t of_level =
      (layers + 1) * sizeof(Slice) + (layers + (masked ? 1 : 0)) * (sizeof(Wanted) + sizeof(ByteRange));
  const std::uint64_t of_patch = sizeof(Piece) + sizeof(std::vector<Slice>) + kAllocation +
                                 static_cast<std::uint64_t>(parts.levels) * of_level;
  return 2 * std::min<std::uint64_t>(patches, kBatchPatches) * of_patch;
}

/// Sorts the wanted payloads by place and joins those with at most `gap` bytes between them.
std::vector<ByteRange> JoinNeighbours(std::vector<Wanted> wanted, std::uint64_t gap) {
  std::sort(wanted.begin(), wanted.end(), [](const Wanted& a, const Wanted& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  std::vector<ByteRange> ranges;
  for (const Wanted& want : wanted) {
    const bool joins = !ranges.empty() && ranges.back().file == want.file &&
                       want.offset <= ranges.back().offset + ranges.back().size + gap;
    if (!joins) ranges.push_back({want.file, want.offset, 0});
    ByteRange& range = ranges.back();
    range.size = std::max(range.size, want.offset + want.size - range.offset);
    *want.slice = {ranges.size() - 1, want.offset - range.offset};
  }
  return ranges;
}

void CutIntoBatches(const ReadPlan& plan, Pass* pass) {
  std::size_t first = 0;
  std::uint64_t payload = 0;
  std::uint64_t samples = 0;
  for (std::size_t i = 0; i < plan.patches.size(); ++i) {
    payload += PayloadBytes(plan, pass->PieceOf(i, plan.patches[i]), pass->layer);
    samples += LevelSampleBytes(plan, plan.patches[i], pass->finest);
    const bool full =
        payload >= kBatchPayloadBytes || samples >= kBatchSampleBytes || i + 1 - first >= kBatchPatches;
    if (full || i + 1 == plan.patches.size()) {
      pass->batches.push_back({first, i + 1 - first});
      first = i + 1;
      payload = samples = 0;
    }
  }
}

/// Coarse to fine in the first layer, then the finest level in each layer after it; without batches.
std::vector<Pass> PassesOf(const ReadPlan& plan) {
  const Query& query = plan.query;
  std::vector<Pass> passes;
  int coarsest = plan.dataset_levels - 1;
  for (int level = query.first_level; level >= query.level; --level) {
    passes.push_back({coarsest, level, 0, query.first_layer, {}});
    coarsest = level - 1;
  }
  for (int layer = query.first_layer + 1; layer <= query.layer; ++layer)
    passes.push_back({plan.dataset_levels - 1, query.level, layer, layer, {}});
  return passes;
}

/// The fetch of a whole batch, when nothing is in memory yet.
Fetch WholeFetch(const ReadPlan& plan, const Pass& pass, const Batch& batch) {
  std::vector<Piece> pieces;
  pieces.reserve(batch.patch_count);
  for (std::size_t i = batch.first_patch; i < batch.end(); ++i)
    pieces.push_back(pass.PieceOf(i, plan.patches[i]));
  return PlanFetch(plan, std::move(pieces), pass.layer);
}

LevelExtent DescribePass(const ReadPlan& plan, const Pass& pass) {
  const int level = pass.finest;
  LevelExtent described;
  described.level = level;
  described.layer = pass.layer;
  described.spacing = SpacingAt(plan.query, level);
  described.extent = SpacedBox(plan.query.box, described.spacing);
  double valid = 0;
  double covered = 0;
  for (std::size_t i = 0; i < plan.patches.size(); ++i) {
    const PlannedPatch& patch = plan.patches[i];
    const format::LevelEntry& entry = PartOf(patch.entry, plan.parts, pass.layer, level);
    described.max_error = std::max(described.max_error, entry.max_error);
    valid += static_cast<double>(patch.entry.patch.valid);
    covered += static_cast<double>(patch.entry.patch.valid) * static_cast<double>(entry.coverage);
    described.bytes += PayloadBytes(plan, pass.PieceOf(i, patch), pass.layer);
  }
  described.coverage = valid > 0 ? covered / valid : 1;
  return described;
}

Status MaskMismatch(std::uint64_t step, const format::PatchEntry& row, std::int64_t samples, bool masked) {
  return DataLoss("patch {} of step {} has {} valid samples of {}, but {} mask", row.patch_index, step,
                  row.valid, samples, masked ? "a" : "no");
}

/// Attaches the rows of the mask to the patches that have one.
/// @param masks  rows of the patches that meet the box
Status AddMasks(const Query& query, std::vector<LocatedPatch> masks, std::vector<PlannedPatch>* patches) {
  auto next = masks.begin();
  for (PlannedPatch& patch : *patches) {
    const std::uint64_t index = patch.entry.patch.patch_index;
    while (next != masks.end() && next->patch.patch_index != index) ++next;
    const bool masked = next != masks.end() && next->patch.payload_bytes() > 0;
    if (masked != (static_cast<std::int64_t>(patch.entry.patch.valid) < patch.samples.volume())) {
      return MaskMismatch(query.step, patch.entry.patch, patch.samples.volume(), masked);
    }
    if (masked) patch.mask = std::make_shared<const LocatedPatch>(std::move(*next));
  }
  return Status::Ok();
}

/// What the patches of a box refer to.
struct FoundReferences {
  References steps;
  std::map<std::uint64_t, std::vector<ReferredPatch>> of_patches;  ///< by their indices

  std::span<const ReferredPatch> Of(std::uint64_t patch_index) const {
    const auto found = of_patches.find(patch_index);
    return found == of_patches.end() ? std::span<const ReferredPatch>() : std::span(found->second);
  }
};

/// Finds what patches refer to: first the steps, each after those to which it refers; then, from the step of
/// the query on, the patches of each that others refer to.
class ReferenceSearch {
 public:
  /// @param most  steps that a step may need
  ReferenceSearch(const PatchLocator& locator, const FindReferences& find, const Query& query,
                  const PatchGrid& grid, int most)
      : locator_(locator),
        find_(find),
        query_(query),
        grid_(grid),
        positions_(grid.PatchesMeeting(query.box)),
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
                            locator_.Find(node.step.step, query_.field_number, positions_));
    std::map<std::uint64_t, LocatedPatch> masks;
    if (node.step.mask != 0) {
      QUARRY_ASSIGN_OR_RETURN(std::vector<LocatedPatch> rows,
                              locator_.FindMask(node.step.step, query_.field_number, positions_));
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
      if (masked != (static_cast<std::int64_t>(entry.patch.valid) < samples))
        return MaskMismatch(node.step.step, entry.patch, samples, masked);
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
  const Box positions_;
  const std::size_t most_;
  std::vector<Node> nodes_;  ///< that of the query last
  std::map<std::uint64_t, std::size_t> places_;
  std::set<std::uint64_t> open_;  ///< steps whose references are being added
};

/// Whether a level shows all of a patch's valid samples in the box within `max_error`.
bool Keeps(const PatchGrid& grid, const PatchParts& parts, const LocatedPatch& entry,
           const LevelChoice& choice, const Box& box, double max_error) {
  const Box samples = grid.PatchBox(static_cast<std::int64_t>(entry.patch.patch_index));
  const format::LevelEntry& record = PartOf(entry, parts, choice.layer, choice.level);
  return !LevelBox(Intersect(box, samples), choice.level).empty() && record.max_error <= max_error &&
         record.coverage >= 1;
}

/// Payload of these patches for an answer at a level, with all layers up to one and all that they refer to.
/// @param references  null: of masks
std::uint64_t PayloadAt(const PatchGrid& grid, const PatchParts& parts,
                        const std::vector<LocatedPatch>& entries, const FoundReferences* references,
                        const Box& box, const LevelChoice& choice) {
  std::uint64_t bytes = 0;
  for (const LocatedPatch& entry : entries) {
    const Box samples = grid.PatchBox(static_cast<std::int64_t>(entry.patch.patch_index));
    if (LevelBox(Intersect(box, samples), choice.level).empty()) continue;
    for (int level = choice.level; level < parts.levels; ++level) {
      bytes += LayersOf(entry, parts, {0, choice.layer}, level);
      if (references == nullptr) continue;
      for (const ReferredPatch& reference : references->Of(entry.patch.patch_index)) {
        bytes += LayersOf(reference.entry, parts, {0, choice.layer}, level);
        if (reference.mask) bytes += MaskLevel(*reference.mask, level).size;
      }
    }
  }
  return bytes;
}

/// Squared distance of a point from the nearest sample of a box.
double SquaredDistance(const std::array<double, 3>& point, const Box& box) {
  double sum = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const double nearest =
        std::clamp(point[a], static_cast<double>(box.begin[a]), static_cast<double>(box.end[a] - 1));
    sum += (point[a] - nearest) * (point[a] - nearest);
  }
  return sum;
}

void SortByDistance(const std::array<double, 3>& focus, std::vector<PlannedPatch>* patches) {
  std::vector<std::pair<double, std::size_t>> order;
  order.reserve(patches->size());
  for (std::size_t i = 0; i < patches->size(); ++i)
    order.emplace_back(SquaredDistance(focus, (*patches)[i].samples), i);
  std::sort(order.begin(), order.end());
  std::vector<PlannedPatch> sorted;
  sorted.reserve(order.size());
  for (const auto& [distance, i] : order) sorted.push_back(std::move((*patches)[i]));
  *patches = std::move(sorted);
}

/// Whether a patch may hold a value between these, in the original or at level 0 of any layer.
bool MayHold(const format::PatchEntry& row, const PatchParts& parts, const Bounds& values) {
  // Rounding never narrows the range. Without valid samples the infinite ends stay as they are.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double error = 0;
  for (int k = 0; k < parts.layers; ++k) error = std::max(error, row.levels[parts.Of(k, 0)].max_error);
  return std::nextafter(row.min - error, -kInfinity) <= values.high &&
         std::nextafter(row.max + error, kInfinity) >= values.low && row.valid > 0;
}

/// Removes the patches that hold none of the requested values.
/// @returns the samples of the box in them
std::vector<Box> LeaveOut(const PatchGrid& grid, const PatchParts& parts, const Query& query,
                          std::vector<LocatedPatch>* entries, std::vector<LocatedPatch>* masks) {
  if (!query.values) return {};
  std::vector<Box> boxes;
  std::set<std::uint64_t> out;
  for (const LocatedPatch& entry : *entries) {
    if (MayHold(entry.patch, parts, *query.values)) continue;
    out.insert(entry.patch.patch_index);
    boxes.push_back(Intersect(query.box, grid.PatchBox(static_cast<std::int64_t>(entry.patch.patch_index))));
  }
  const auto is_out = [&](const LocatedPatch& entry) { return out.contains(entry.patch.patch_index); };
  std::erase_if(*entries, is_out);
  std::erase_if(*masks, is_out);
  return JoinBoxes(std::move(boxes));
}

/// Samples of an answer with this spacing between neighbours.
std::uint64_t SampleCount(const Box& box, const std::vector<Box>& left_out, const Index3& spacing) {
  std::int64_t samples = SpacedBox(box, spacing).volume();
  for (const Box& part : LeftOutAt(left_out, spacing)) samples -= part.volume();
  return static_cast<std::uint64_t>(samples);
}

void Widen(const format::PatchEntry& row, Bounds* range) {
  range->low = std::min(range->low, row.min);
  range->high = std::max(range->high, row.max);
}

/// The level and layer with the least payload at which every patch that meets the box has samples in the box,
/// covers all its valid samples, and is recorded with an error of at most `max_error`. Of one layer that is
/// the coarsest such level. Records are of whole patches: a box that cuts a patch may lack outside samples
/// that the interpolation at its faces would take.
/// @param entries, masks  of the patches that meet the box
/// @param layers          first and last of those to choose from
/// @errors kNotFound with the error of level 0 of the last layer when no level keeps it
Result<LevelChoice> ChooseLevel(const PatchGrid& grid, const PatchParts& parts,
                                const std::vector<LocatedPatch>& entries, const FoundReferences& references,
                                const std::vector<LocatedPatch>& masks, const Box& box, double max_error,
                                std::pair<int, int> layers) {
  const PatchParts mask_parts{parts.levels, 1};
  std::optional<LevelChoice> cheapest;
  std::uint64_t least = 0;
  for (int layer = layers.first; layer <= layers.second; ++layer) {
    for (int level = parts.levels - 1; level >= 0; --level) {
      const LevelChoice choice{level, layer};
      if (!std::all_of(entries.begin(), entries.end(), [&](const LocatedPatch& entry) {
            return Keeps(grid, parts, entry, choice, box, max_error);
          }))
        continue;
      const std::uint64_t bytes = PayloadAt(grid, parts, entries, &references, box, choice) +
                                  PayloadAt(grid, mask_parts, masks, nullptr, box, {level, 0});
      if (!cheapest || bytes < least) {
        cheapest = choice;
        least = bytes;
      }
      break;  // finer levels of the layer cost more
    }
  }
  if (cheapest) return *cheapest;
  double best = 0;
  for (const LocatedPatch& entry : entries)
    best = std::max(best, PartOf(entry, parts, layers.second, 0).max_error);
  return NotFound(
      "no level of {} keeps an error of {}: level 0, the finest, has {}; ask for an error of at least that, "
      "or for level 0",
      ToString(box), max_error, best);
}

/// Of the finest level of each layer whose whole answer, with the coarser levels from first_level on, has at
/// most `max_bytes` of payload and at most `max_bytes` of samples, the one with the smallest recorded error:
/// whichever of them travels, no more arrives. Levels without samples in the box are skipped.
/// @param entries, masks  of the patches that meet the box
/// @param left_out  of the answer
/// @param layers    as for ChooseLevel
/// @errors kNotFound with the least number of bytes that brings samples
Result<LevelChoice> ChooseLevelWithin(const DatasetDescription& dataset, const PatchGrid& grid,
                                      const std::vector<LocatedPatch>& entries,
                                      const FoundReferences& references,
                                      const std::vector<LocatedPatch>& masks,
                                      const std::vector<Box>& left_out, const Query& query,
                                      std::uint64_t max_bytes, std::pair<int, int> layers) {
  const FieldDescription& field = dataset.fields[query.field_number];
  const int levels = dataset.GridOf(field).levels;
  const PatchParts parts{levels, field.layers()};
  const PatchParts mask_parts{levels, 1};
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::optional<LevelChoice> best;
  double least_error = 0;
  for (int layer = layers.first; layer <= layers.second; ++layer) {
    for (int level = 0; level < levels; ++level) {
      if (LevelBox(query.box, level).empty()) continue;
      std::uint64_t samples = 0;
      for (int l = level; l <= std::max(level, query.first_level); ++l)
        samples += SampleCount(query.box, left_out, SpacingAt(query, l));
      const int again = std::max(layer - query.first_layer, 0);
      samples +=
          static_cast<std::uint64_t>(again) * SampleCount(query.box, left_out, SpacingAt(query, level));
      const std::uint64_t bytes =
          std::max(samples * SizeOf(field.type),
                   PayloadAt(grid, parts, entries, &references, query.box, {level, layer}) +
                       PayloadAt(grid, mask_parts, masks, nullptr, query.box, {level, 0}));
      least = std::min(least, bytes);
      if (bytes > max_bytes) continue;
      double error = 0;
      for (const LocatedPatch& entry : entries)
        error = std::max(error, PartOf(entry, parts, layer, level).max_error);
      if (!best || error < least_error) {
        best = LevelChoice{level, layer};
        least_error = error;
      }
      break;  // coarser levels of the layer show less
    }
  }
  if (best) return *best;
  return NotFound(
      "no level of {} fits into {} bytes: the least that brings samples is {}; allow at least that, "
      "or ask for a smaller box",
      ToString(query.box), max_bytes, least);
}

}  // namespace

std::uint64_t PayloadAt(const ReadPlan& plan, int level) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < plan.patches.size(); ++i) {
    const Box part = Intersect(plan.query.box, plan.patches[i].samples);
    if (SpacedBox(part, SpacingAt(plan.query, level)).empty()) continue;
    bytes += PayloadBytes(plan, {i, plan.dataset_levels - 1, level}, plan.query.layer);
  }
  return bytes;
}

int LevelForStride(const GridDescription& grid, const PatchCoder& coder, const Index3& stride) {
  if (!coder.BoundsEveryLevel()) return 0;
  int level = grid.levels - 1;
  for (std::size_t a = 0; a < 3; ++a) {
    if (grid.dims[a] > 1) level = std::min(level, std::countr_zero(static_cast<std::uint64_t>(stride[a])));
  }
  return level;
}

Index3 SpacingAt(const Query& query, int level) {
  const std::int64_t spacing = std::int64_t{1} << level;
  return query.stride.value_or(Index3{spacing, spacing, spacing});
}

Result<ReadPlan> MakePlan(const DatasetDescription& dataset, const PatchLocator& locator,
                          const FindReferences& references, const Query& query, std::uint64_t read_gap) {
  const FieldDescription& field = dataset.fields[query.field_number];
  QUARRY_ASSIGN_OR_RETURN(const PatchGrid grid, PatchesOf(dataset.GridOf(field)));
  ReadPlan plan;
  plan.query = query;
  plan.field = field.name;
  plan.type = field.type;
  plan.coder = field.coder;
  plan.dataset_levels = dataset.GridOf(field).levels;
  plan.parts = {plan.dataset_levels, field.layers()};
  const std::pair<int, int> layers(query.any_layer ? 0 : query.layer, query.layer);
  plan.read_gap = read_gap;
  const Box positions = grid.PatchesMeeting(query.box);
  QUARRY_ASSIGN_OR_RETURN(std::vector<LocatedPatch> entries,
                          locator.Find(query.step, query.field_number, positions));
  std::vector<LocatedPatch> masks;
  if (query.mask != 0) {
    QUARRY_ASSIGN_OR_RETURN(masks, locator.FindMask(query.step, query.field_number, positions));
  }
  plan.left_out = LeaveOut(grid, plan.parts, query, &entries, &masks);
  QUARRY_ASSIGN_OR_RETURN(FoundReferences found,
                          ReferenceSearch(locator, references, query, grid, field.keyframe).Run(entries));
  const auto choose = [&](const LevelChoice& choice) {
    plan.query.level = choice.level;
    plan.query.layer = choice.layer;
  };
  if (query.max_error) {
    QUARRY_ASSIGN_OR_RETURN(const LevelChoice choice, ChooseLevel(grid, plan.parts, entries, found, masks,
                                                                  query.box, *query.max_error, layers));
    choose(choice);
  }
  if (query.stride) {
    const PatchCoder* coder = FindCoder(field.coder);
    if (coder == nullptr)
      return DataLoss("field \"{}\" has coder {}, which this version does not know; use a newer Quarry",
                      field.name, static_cast<int>(field.coder));
    plan.query.level = LevelForStride(dataset.GridOf(field), *coder, *query.stride);
  }
  if (query.max_bytes) {
    QUARRY_ASSIGN_OR_RETURN(const LevelChoice choice,
                            ChooseLevelWithin(dataset, grid, entries, found, masks, plan.left_out, query,
                                              *query.max_bytes, layers));
    choose(choice);
  }
  plan.query.first_level = std::max(query.first_level, plan.query.level);
  plan.query.first_layer = std::min(query.first_layer, plan.query.layer);
  plan.patches.reserve(query.only_patches ? std::min(query.only_patches->size(), entries.size())
                                          : entries.size());
  for (LocatedPatch& entry : entries) {
    const Box samples = grid.PatchBox(static_cast<std::int64_t>(entry.patch.patch_index));
    Widen(entry.patch, &plan.recorded.all);
    if (query.only_patches && !std::binary_search(query.only_patches->begin(), query.only_patches->end(),
                                                  entry.patch.patch_index)) {
      continue;
    }
    if (query.box.Contains(samples)) Widen(entry.patch, &plan.recorded.inside);
    // A box may be so thin that it misses all samples of a patch at this level: nothing to fetch there.
    if (SpacedBox(Intersect(query.box, samples), SpacingAt(plan.query, plan.query.level)).empty()) continue;
    const auto referred = found.of_patches.find(entry.patch.patch_index);
    plan.patches.push_back({std::move(entry), nullptr, samples, {}});
    if (referred != found.of_patches.end()) plan.patches.back().references = std::move(referred->second);
  }
  entries = {};
  QUARRY_RETURN_IF_ERROR(AddMasks(query, std::move(masks), &plan.patches));
  plan.references = std::move(found.steps);
  if (query.focus) SortByDistance(*query.focus, &plan.patches);
  for (const Pass& pass : PassesOf(plan)) plan.levels.push_back(DescribePass(plan, pass));
  plan.price.patches = plan.patches.size();
  for (const LevelExtent& level : plan.levels) {
    plan.price.bytes += level.bytes;
    plan.price.reply_bytes += SampleCount(query.box, plan.left_out, level.spacing) * SizeOf(plan.type);
  }
  for (const Pass& pass : MakePasses(plan)) {
    for (const Batch& batch : pass.batches) {
      const Fetch fetch = WholeFetch(plan, pass, batch);
      plan.price.reads += fetch.ranges.size();
      plan.price.bytes_read += fetch.bytes();
    }
  }
  return plan;
}

ReferenceGraph GraphOf(const ReadPlan& plan, const PlannedPatch& patch) {
  if (patch.references.empty()) return {};
  std::map<std::size_t, std::size_t> places;  // of steps among the references of the patch
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

AnswerHeader HeaderOf(const ReadPlan& plan) {
  AnswerHeader header;
  header.field = plan.field;
  header.type = plan.type;
  header.step = plan.query.step;
  header.levels = plan.levels;
  header.price = plan.price;
  header.left_out = plan.left_out;
  header.layer = plan.query.layer;
  header.may_miss =
      std::ranges::any_of(plan.patches, [](const PlannedPatch& patch) { return patch.mask != nullptr; });
  return header;
}

std::vector<Pass> MakePasses(const ReadPlan& plan) {
  std::vector<Pass> passes = PassesOf(plan);
  for (Pass& pass : passes) CutIntoBatches(plan, &pass);
  return passes;
}

void BeginWith(std::size_t start, ReadPlan* plan) {
  const auto begin = plan->patches.begin();
  std::rotate(begin, begin + static_cast<std::ptrdiff_t>(start), plan->patches.end());
}

std::uint64_t Fingerprint(const ReadPlan& plan) {
  StreamingChecksum checksum;
  const auto add = [&](const auto& value) { checksum.Update(std::as_bytes(std::span(&value, 1))); };
  add(plan.type);
  for (const LevelExtent& level : plan.levels) {
    add(level.level);
    if (plan.parts.layers > 1) add(level.layer);
    add(level.extent);
    add(level.spacing);
  }
  for (const Box& box : plan.left_out) add(box);
  for (const PlannedPatch& patch : plan.patches) {
    add(patch.entry.patch.patch_index);
    const auto add_rows = [&](const LocatedPatch& entry, const std::shared_ptr<const LocatedPatch>& mask) {
      for (const format::LevelEntry& level : entry.patch.levels) add(level.checksum);
      if (!mask) return;
      for (const format::LevelEntry& level : mask->patch.levels) add(level.checksum);
    };
    add_rows(patch.entry, patch.mask);
    for (const ReferredPatch& reference : patch.references) add_rows(reference.entry, reference.mask);
  }
  return checksum.Finish();
}

std::uint64_t Fetch::bytes() const {
  std::uint64_t sum = 0;
  for (const ByteRange& range : ranges) sum += range.size;
  return sum;
}

namespace {

std::size_t LevelsOf(const Piece& piece) {
  return static_cast<std::size_t>(piece.coarsest) + 1 - static_cast<std::size_t>(piece.finest);
}

}  // namespace

Fetch PlanFetch(const ReadPlan& plan, std::vector<Piece> pieces, int layer) {
  Fetch fetch;
  fetch.pieces = std::move(pieces);
  fetch.layers = layer + 1;
  fetch.slices.resize(fetch.pieces.size());
  std::vector<Wanted> wanted;
  std::size_t most_wanted = 0;
  const auto per_level = static_cast<std::size_t>(fetch.layers) + 1;
  for (const Piece& piece : fetch.pieces) {
    const PlannedPatch& patch = plan.patches[piece.patch];
    std::size_t payloads = patch.mask ? per_level : per_level - 1;
    for (const ReferredPatch& reference : patch.references)
      payloads += reference.mask ? per_level : per_level - 1;
    most_wanted += LevelsOf(piece) * payloads;
  }
  wanted.reserve(most_wanted);
  const auto want = [&](FileNumber file, const format::LevelEntry& payload, Slice* slice) {
    if (payload.size > 0) wanted.push_back({file, payload.offset, payload.size, slice});
  };
  for (std::size_t i = 0; i < fetch.pieces.size(); ++i) {
    const Piece& piece = fetch.pieces[i];
    const PlannedPatch& patch = plan.patches[piece.patch];
    fetch.slices[i].resize((1 + patch.references.size()) * LevelsOf(piece) * per_level);
    const auto want_levels = [&](const LocatedPatch& entry, const std::shared_ptr<const LocatedPatch>& mask,
                                 std::size_t number, std::size_t step) {
      for (int level = piece.finest; level <= piece.coarsest; ++level) {
        Slice* slices = fetch.slices[i].data() + fetch.SliceOf(i, level, number);
        for (int k = piece.first_layer; k < fetch.layers; ++k)
          want({false, entry.subfile, static_cast<std::uint32_t>(step)}, PartOf(entry, plan.parts, k, level),
               slices + k);
        if (mask && piece.first_layer == 0)
          want({true, mask->subfile, static_cast<std::uint32_t>(step)}, MaskLevel(*mask, level),
               slices + fetch.layers);
      }
    };
    want_levels(patch.entry, patch.mask, 0, 0);
    for (std::size_t r = 0; r < patch.references.size(); ++r) {
      const ReferredPatch& reference = patch.references[r];
      want_levels(reference.entry, reference.mask, r + 1, reference.step + 1);
    }
  }
  for (const Wanted& want : wanted) fetch.payload_bytes += want.size;
  fetch.ranges = JoinNeighbours(std::move(wanted), plan.read_gap);
  return fetch;
}

std::uint64_t PayloadBytes(const ReadPlan& plan, const Piece& piece, int layer) {
  std::uint64_t bytes = 0;
  const auto add = [&](const LocatedPatch& entry, const std::shared_ptr<const LocatedPatch>& mask) {
    for (int level = piece.finest; level <= piece.coarsest; ++level) {
      bytes += LayersOf(entry, plan.parts, {piece.first_layer, layer}, level);
      if (mask && piece.first_layer == 0) bytes += MaskLevel(*mask, level).size;
    }
  };
  const PlannedPatch& patch = plan.patches[piece.patch];
  add(patch.entry, patch.mask);
  for (const ReferredPatch& reference : patch.references) add(reference.entry, reference.mask);
  return bytes;
}

std::uint64_t DecodeMemory(const ReadPlan& plan, const Piece& piece) {
  return PayloadBytes(plan, piece, plan.query.layer) + PieceMemory(plan, piece);
}

std::uint64_t DecodeMemory(const ReadPlan& plan, const Fetch& fetch) {
  std::uint64_t bytes = fetch.bytes();
  for (const Piece& piece : fetch.pieces) bytes += PieceMemory(plan, piece);
  return bytes;
}

std::uint64_t DeliveryMemory(const ReadPlan& plan) {
  std::uint64_t largest = 0;
  for (const PlannedPatch& patch : plan.patches)
    largest = std::max(largest, DecodedBytes(plan, patch, plan.query.level));
  return DeliveredForms(plan.query) * largest;
}

std::uint64_t DeliveryMemory(const DatasetDescription& dataset, const Query& query) {
  const auto samples = static_cast<std::uint64_t>(
      LevelBox(Box{{0, 0, 0}, dataset.GridOf(query.field_number).patch}, query.level).volume());
  return DeliveredForms(query) *
         DecodedBytes(samples, dataset.fields[query.field_number].type, query.mask != 0);
}

std::uint64_t MostPatches(const DatasetDescription& dataset, const Query& query) {
  const Result<PatchGrid> grid = PatchesOf(dataset.GridOf(query.field_number));
  // Without a grid: MakePlan says why.
  return grid.ok() ? static_cast<std::uint64_t>(grid->PatchesMeeting(query.box).volume()) : 0;
}

std::uint64_t PlanningMemory(const DatasetDescription& dataset, const Query& query) {
  const std::uint64_t patches = MostPatches(dataset, query);
  const FieldDescription& field = dataset.fields[query.field_number];
  const PatchParts parts{dataset.GridOf(field).levels, field.layers()};
  // Of other steps that are needed, all may miss samples.
  const bool masked = query.mask != 0 || field.keyframe > 0;
  // The rows as they are located, beside the plan that takes them over.
  std::uint64_t each =
      RowMemory(parts, masked) + sizeof(LocatedPatch) * (masked ? 2 : 1) + sizeof(PlannedPatch);
  if (query.focus) each += sizeof(PlannedPatch) + sizeof(std::pair<double, std::size_t>);
  if (query.values) each += kLeftOutBytes;
  if (query.only_patches) each += sizeof(std::uint64_t);
  const auto steps = 1 + static_cast<std::uint64_t>(field.keyframe);
  return kPlanObjects + steps * (patches * each + FetchMemory(patches, parts, masked));
}

std::uint64_t PlanMemory(const ReadPlan& plan) {
  const std::size_t steps = 1 + plan.references.steps.size();
  const bool masked = plan.query.mask != 0 || steps > 1;
  constexpr std::uint64_t kFillingState = 1;  // of a patch, while an array is filled
  std::uint64_t bytes = kPlanObjects + plan.patches.capacity() * (sizeof(PlannedPatch) + kFillingState) +
                        plan.left_out.size() * kLeftOutBytes;
  for (const PlannedPatch& patch : plan.patches)
    bytes += (1 + patch.references.size()) * (RowMemory(plan.parts, masked) + sizeof(ReferredPatch));
  if (plan.query.only_patches) bytes += plan.query.only_patches->capacity() * sizeof(std::uint64_t);
  return bytes + steps * FetchMemory(plan.patches.size(), plan.parts, masked);
}

}  // namespace quarry::query
