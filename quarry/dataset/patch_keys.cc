#include "quarry/dataset/patch_keys.h"

#include <algorithm>
#include <array>

#include "quarry/base/checksum.h"

namespace quarry {
namespace {

using query::LevelChoice;
using query::PlannedPatch;
using query::ReadPlan;

/// [bytes] samples of all patches at a level.
std::uint64_t SampleBytes(const ReadPlan& plan, int level) {
  std::uint64_t bytes = 0;
  for (const PlannedPatch& patch : plan.patches)
    bytes += static_cast<std::uint64_t>(LevelBox(patch.samples, level).volume()) * SizeOf(plan.type);
  return bytes;
}

/// Consecutive patches of a plan, as in a ring.
struct Stretch {
  std::size_t first = 0;
  std::size_t length = 0;
};

/// The stretch of a ring with the most true values, among stretches as long as the ring has true values.
Stretch FullestStretch(const std::vector<bool>& ring) {
  const auto length = static_cast<std::size_t>(std::ranges::count(ring, true));
  if (length == 0) return {};
  auto held = static_cast<std::size_t>(
      std::count(ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(length), true));
  Stretch best{0, length};
  std::size_t most = held;
  for (std::size_t first = 1; first < ring.size(); ++first) {
    held += (ring[(first + length - 1) % ring.size()] ? 1 : 0);
    held -= (ring[first - 1] ? 1 : 0);
    if (held <= most) continue;
    most = held;
    best.first = first;
  }
  return best;
}

/// Whether the store has each of these patches of a plan at its finest level.
std::vector<bool> AreStored(const PatchKeys& keys, const ReadPlan& plan, std::size_t first, std::size_t count,
                            const PatchStore& store) {
  const LevelChoice finest{plan.levels.back().level, plan.query.layer};
  std::vector<PatchKey> some;
  some.reserve(count);
  for (std::size_t i = first; i < first + count; ++i)
    some.push_back(keys.Of(plan.patches[i], finest).front());
  return store.Has(some);
}

constexpr std::size_t kAtATime = 1024;  // a plan may have a million patches, and keys are large

}  // namespace

PatchKeys::PatchKeys(const Dataset& dataset, const ReadPlan& plan)
    : plan_(plan), dataset_(Checksum(std::as_bytes(std::span(dataset.root().path)))) {}

std::vector<PatchKey> PatchKeys::Of(const PlannedPatch& patch, const LevelChoice& wanted) const {
  std::vector<PatchKey> keys;
  keys.reserve(static_cast<std::size_t>(plan_.dataset_levels) + static_cast<std::size_t>(wanted.layer));
  // From the finest level on; all of the last layer but for the first, which may be refined by a layer.
  AppendLevels(patch, wanted, &keys);
  if (!patch.references.empty()) return keys;  // it refers in each layer: none is added to another alone
  for (int rougher = 0; rougher < wanted.layer; ++rougher) {
    std::vector<PatchKey> of_layer;
    AppendLevels(patch, {wanted.level, rougher}, &of_layer);
    keys.insert(keys.begin() + 1, of_layer.front());
  }
  return keys;
}

void PatchKeys::AppendLevels(const PlannedPatch& patch, const LevelChoice& wanted,
                             std::vector<PatchKey>* keys) const {
  const Index3 shape = patch.samples.shape();
  const std::array<std::int64_t, 7> layout = {static_cast<std::int64_t>(plan_.type),
                                              static_cast<std::int64_t>(plan_.coder),
                                              plan_.dataset_levels,
                                              wanted.layer,
                                              shape[0],
                                              shape[1],
                                              shape[2]};
  PatchKey key;
  key.content = Checksum(std::as_bytes(std::span(layout)));
  key.dataset = dataset_;
  key.step = plan_.query.step;
  key.field = static_cast<std::uint32_t>(plan_.query.field_number);
  key.patch = patch.entry.patch.patch_index;
  const auto add = [&](std::uint64_t checksum) {
    const std::array<std::uint64_t, 2> content = {key.content, checksum};
    key.content = Checksum(std::as_bytes(std::span(content)));
  };
  for (int level = plan_.dataset_levels - 1; level >= wanted.level; --level) {
    for (int k = 0; k <= wanted.layer; ++k) add(patch.entry.patch.levels[plan_.parts.Of(k, level)].checksum);
    if (patch.mask) add(patch.mask->patch.levels[static_cast<std::size_t>(level)].checksum);
    for (const query::ReferredPatch& reference : patch.references) {
      for (int k = 0; k <= wanted.layer; ++k)
        add(reference.entry.patch.levels[plan_.parts.Of(k, level)].checksum);
      if (reference.mask) add(reference.mask->patch.levels[static_cast<std::size_t>(level)].checksum);
    }
    key.level = level;
    keys->push_back(key);
  }
  std::reverse(keys->begin(), keys->end());
}

std::size_t BestStart(const Dataset& dataset, const ReadPlan& plan, PatchStore* store,
                      const Requester& requester) {
  if (!plan.runs.empty()) return 0;
  const LevelChoice finest{plan.levels.back().level, plan.query.layer};
  if (SampleBytes(plan, finest.level) <= store->FairShare(requester.client)) return 0;
  const PatchKeys keys(dataset, plan);
  const auto key_of = [&](std::size_t patch) { return keys.Of(plan.patches[patch], finest).front(); };
  const std::size_t count = plan.patches.size();
  std::vector<bool> stored;
  stored.reserve(count);
  for (std::size_t first = 0; first < count; first += kAtATime) {
    const std::vector<bool> has = AreStored(keys, plan, first, std::min(kAtATime, count - first), *store);
    stored.insert(stored.end(), has.begin(), has.end());
  }
  const Stretch stretch = FullestStretch(stored);
  // The last first: a patch that has to be decoded in between must not push out the one after it.
  for (std::size_t i = stretch.first + stretch.length; i-- > stretch.first;)
    store->Find(key_of(i < count ? i : i - count));
  return stretch.first;
}

double StoredShare(const Dataset& dataset, const ReadPlan& plan, const PatchStore& store) {
  if (!plan.runs.empty()) return 0;
  const std::size_t count = std::min(kAtATime, plan.patches.size());
  const std::vector<bool> stored = AreStored(PatchKeys(dataset, plan), plan, 0, count, store);
  return count == 0 ? 1 : static_cast<double>(std::ranges::count(stored, true)) / static_cast<double>(count);
}

}  // namespace quarry
