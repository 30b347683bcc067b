#include "server/dataset_catalog.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "quarry/base/cancel_scope.h"
#include "quarry/base/utf8.h"
#include "quarry/format/catalogue.h"
#include "quarry/index/index_locator.h"
#include "quarry/index/index_writer.h"

namespace quarry::server {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kSuffix = ".quarry";

/// The stamp of the files that say what is in a dataset.
/// @param opened  the dataset as it was; null: it is not open
/// @errors see AnsweredStampOf
Result<Stamp> StampOfParts(const Location& dataset, const Dataset* opened,
                           const std::optional<Location>& index) {
  std::vector<Location> parts = {dataset / "dataset.json", Dataset::StepsAt(dataset, opened)};
  if (index) parts.push_back(*index / "seal.json");
  std::vector<Result<Stamp>> stamps(parts.size(), Stamp());
  dataset.storage->AtOnce(parts.size(), [&](std::size_t i) { stamps[i] = AnsweredStampOf(parts[i]); });
  Stamp all{"", true};
  for (const Result<Stamp>& stamp : stamps) {
    QUARRY_RETURN_IF_ERROR(stamp.status());
    all.text += stamp->text + " ";
    all.old = all.old && stamp->old;
  }
  return all;
}

bool HasAllSteps(const Dataset& dataset) {
  const auto steps = ListSteps(dataset.root());
  return steps.ok() && *steps == dataset.steps();
}

}  // namespace

std::vector<std::string> DatasetCatalog::PossibleNames(const std::string& asked) {
  // The exact name first: a dataset may really be called NAME.quarry.
  std::vector<std::string> names = {asked};
  if (asked.ends_with(kSuffix)) names.push_back(asked.substr(0, asked.size() - kSuffix.size()));
  return names;
}

std::optional<DatasetCatalog::Named> DatasetCatalog::Known(const std::string& asked) {
  const std::lock_guard lock(mutex_);
  for (const std::string& name : PossibleNames(asked)) {
    if (const auto it = slots_.find(name); it != slots_.end()) return *it;
  }
  return std::nullopt;
}

Result<std::optional<DatasetCatalog::Named>> DatasetCatalog::Lookup(const std::string& asked,
                                                                    const Cancelled& cancelled) {
  if (auto known = Known(asked)) return known;
  {
    const std::lock_guard lock(mutex_);
    if (Clock::now() < missing_until_) return std::optional<Named>();
  }
  QUARRY_ASSIGN_OR_RETURN(const Found found, Search(cancelled));
  auto known = Known(asked);
  // It may be in the folder that could not be searched.
  if (!known) QUARRY_RETURN_IF_ERROR(found->incomplete);
  return known;
}

Result<DatasetCatalog::Found> DatasetCatalog::Search(const Cancelled& cancelled) {
  constexpr auto kLookUp = std::chrono::milliseconds(20);
  std::unique_lock lock(mutex_);
  const std::uint64_t wanted = begun_ + 1;
  bool gone = false;
  ++waiting_;
  while (finished_ < wanted && !gone) {
    if (!searching_) {
      gone = !SearchOnce(&lock, cancelled);
      continue;
    }
    searched_.wait_for(lock, kLookUp);
    lock.unlock();
    gone = cancelled();
    lock.lock();
  }
  --waiting_;
  if (finished_ < wanted) return Status(StatusCode::kCancelled, "the client has gone");
  return *result_;
}

/// @returns false if it was cancelled
bool DatasetCatalog::SearchOnce(std::unique_lock<std::mutex>* lock, const Cancelled& cancelled) {
  searching_ = true;
  const std::uint64_t number = ++begun_;
  const Clock::time_point begin = Clock::now();
  lock->unlock();
  Result<Found> result = RunSearch(cancelled);
  lock->lock();
  searching_ = false;
  searched_.notify_all();
  if (result.status().code() == StatusCode::kCancelled) return false;
  const bool complete = result.ok() && (*result)->incomplete.ok();
  const Clock::duration took = Clock::now() - begin;
  missing_until_ = Clock::now();
  if (complete) missing_until_ += std::min<Clock::duration>(took, options_.longest_kept);
  finished_ = number;
  result_ = std::move(result);
  return true;
}

/// Goes on for the others who wait when its own caller has gone.
Result<DatasetCatalog::Found> DatasetCatalog::RunSearch(const Cancelled& cancelled) {
  DiscoveryOptions options;
  options.patience = options_.patience;
  // Once cancelled it stays so: a call that was given up is no answer.
  options.cancelled = [&, gone = std::make_shared<std::atomic<bool>>(false)] {
    if (*gone) return true;
    if (!cancelled()) return false;
    const std::lock_guard lock(mutex_);
    return *gone = waiting_ == 1;
  };
  const CancelScope scope(options.cancelled);
  // An exception would leave everybody waiting for this search.
  try {
    QUARRY_ASSIGN_OR_RETURN(Discovery found, Discover(options_.root, options));
    Keep(found);
    LogLeftOut(found);
    return Found(std::make_shared<const Discovery>(std::move(found)));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("there is no memory to search for datasets; ask later");
  }
}

void DatasetCatalog::Keep(const Discovery& found) {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::shared_ptr<Slot>> slots;
  // A folder that cannot be listed now may hold what was found before.
  if (!found.incomplete.ok()) slots = slots_;
  for (const FoundDataset& dataset : found.datasets) {
    const auto known = slots_.find(dataset.name);
    const bool same = known != slots_.end() && known->second->location.path == dataset.location.path;
    slots[dataset.name] = same ? known->second : std::make_shared<Slot>(dataset.location);
  }
  slots_ = std::move(slots);
}

/// Once, as long as it stays the same.
void DatasetCatalog::LogLeftOut(const Discovery& found) {
  std::string left_out = found.incomplete.message();
  if (!found.left_out.empty()) left_out += (left_out.empty() ? "" : "; ") + found.left_out;
  {
    const std::lock_guard lock(mutex_);
    if (left_out == left_out_) return;
    left_out_ = left_out;
  }
  if (!left_out.empty()) spdlog::warn("the search for datasets is incomplete: {}", left_out);
}

Result<std::optional<std::string>> DatasetCatalog::NameOf(const std::string& asked,
                                                          const Cancelled& cancelled) {
  QUARRY_ASSIGN_OR_RETURN(const auto found, Lookup(asked, cancelled));
  return found ? std::optional(found->first) : std::nullopt;
}

Result<std::shared_ptr<const OpenedDataset>> DatasetCatalog::Find(const std::string& asked) {
  QUARRY_ASSIGN_OR_RETURN(const auto found, Lookup(asked, Never));
  if (!found)
    return NotFound("there is no dataset \"{}\" here; list the names with \"quarry ls\"",
                    Beginning(asked, 100));
  const std::string& name = found->first;
  Slot& slot = *found->second;
  CloseUnused(&slot);
  if (!slot.turn.LockUnlessCancelled()) return Status(StatusCode::kCancelled, "the client has gone");
  const std::unique_lock lock(slot.turn, std::adopt_lock);
  // Where looks cost, all questions of a while share one, and what it has found or why it has failed.
  const bool trusted = Clock::now() < slot.trusted_until;
  if (trusted && !slot.failure.ok()) return slot.failure;
  const bool usable = slot.served && !slot.served->dataset->outdated();
  const Clock::time_point begun = Clock::now();
  if (!trusted || !usable) {
    const Status looked = Look(name, &slot);
    if (looked.code() == StatusCode::kCancelled) return looked;  // it is this caller that has gone
    slot.failure = looked;
    slot.trusted_until = (looked.ok() ? begun : Clock::now()) + slot.location.storage->trust();
    QUARRY_RETURN_IF_ERROR(looked);
  }
  LogDamage(name, &slot);
  return slot.served;
}

/// Opens the dataset, unless it is open and its files are as they were.
/// @errors those of Find
Status DatasetCatalog::Look(const std::string& name, Slot* slot) {
  const Dataset* const opened = slot->served ? slot->served->dataset.get() : nullptr;
  QUARRY_ASSIGN_OR_RETURN(const Stamp stamp,
                          StampOfParts(slot->location, opened, IndexFolder(name, slot->location)));
  const bool same = slot->served && !slot->watch.Differs(stamp) && !slot->served->dataset->outdated();
  const bool holds = slot->watch.Holds(stamp, slot->location.storage->stamp_tick());
  if (same && holds) return Status::Ok();
  if (!same || !HasAllSteps(*slot->served->dataset)) {
    slot->served = nullptr;  // a dataset that cannot be opened now is no longer the earlier one
    slot->damage_is_logged = false;
    if (!slot->pieces) slot->pieces = std::make_shared<index::PieceCopies>(options_.scratch);
    QUARRY_ASSIGN_OR_RETURN(slot->served, Open(name, slot->location, slot->pieces));
  }
  slot->watch.Looked();
  return Status::Ok();
}

/// Damage of the catalogue of steps, once. A page may turn out to be damaged after the dataset is opened.
void DatasetCatalog::LogDamage(const std::string& name, Slot* slot) {
  if (slot->damage_is_logged) return;
  const Status damage = slot->served->dataset->catalogue().damage();
  if (damage.ok()) return;
  slot->damage_is_logged = true;
  spdlog::warn("dataset {}: {}; reading step.json instead; run \"quarry upgrade\"", name, damage.message());
}

/// Closes datasets that were not used for long, now and then. Requests that use one keep it open.
/// @param wanted  is used now
void DatasetCatalog::CloseUnused(Slot* wanted) {
  constexpr int kLooks = 10;  // in the time after which a dataset is closed
  const Clock::time_point now = Clock::now();
  std::vector<std::shared_ptr<Slot>> unused;
  {
    const std::lock_guard lock(mutex_);
    wanted->used = now;
    if (now < close_next_) return;
    close_next_ = now + options_.close_after / kLooks;
    for (const auto& [name, slot] : slots_) {
      if (slot.get() == wanted || !slot->used || now - *slot->used < options_.close_after) continue;
      unused.push_back(slot);
      slot->used.reset();
    }
  }
  for (const std::shared_ptr<Slot>& slot : unused) {
    std::shared_ptr<const OpenedDataset> closed;  // these end when the mutex is free again
    std::shared_ptr<index::PieceCopies> pieces;
    const std::unique_lock lock(slot->turn, std::try_to_lock);
    if (!lock) continue;  // somebody uses it
    closed = std::exchange(slot->served, nullptr);
    pieces = std::exchange(slot->pieces, nullptr);
  }
}

void DatasetCatalog::Forget() {
  const std::lock_guard lock(mutex_);
  // Others may be waiting for a file in the old ones.
  for (auto& [name, slot] : slots_) slot = std::make_shared<Slot>(slot->location);
}

std::optional<Location> DatasetCatalog::IndexFolder(const std::string& name, const Location& dataset) const {
  if (options_.remote) return std::nullopt;
  return options_.index.path.empty() ? index::DefaultIndexFolder(dataset) : options_.index / name;
}

Result<std::shared_ptr<const OpenedDataset>> DatasetCatalog::Open(
    const std::string& name, const Location& location, std::shared_ptr<index::PieceCopies> pieces) const {
  auto served = std::make_shared<OpenedDataset>();
  served->name = name;
  QUARRY_ASSIGN_OR_RETURN(served->dataset, Dataset::Open(location, options_.store));
  OpenIndex(location, std::move(pieces), served.get());
  spdlog::info("dataset {}: {} steps, {} fields{}", name, served->dataset->steps().size(),
               served->dataset->description().fields.size(), served->index ? ", indexed" : "");
  return std::shared_ptr<const OpenedDataset>(std::move(served));
}

/// Without an index, the tables of the subfiles tell the same.
void DatasetCatalog::OpenIndex(const Location& location, std::shared_ptr<index::PieceCopies> pieces,
                               OpenedDataset* served) const {
  const std::string& name = served->name;
  const std::optional<Location> folder = IndexFolder(name, location);
  if (!folder) return;
  const auto tell = [name](const Status& damage) {
    spdlog::warn("dataset {}: {}; reading patch tables instead", name, damage.message());
  };
  auto index = index::IndexLocator::Open(served->dataset, *folder, std::move(pieces), tell);
  if (index.ok()) {
    served->index = *index;
  } else if (index.status().code() == StatusCode::kNotFound) {
    spdlog::info("dataset {}: no index, reading patch tables instead; run \"quarry-index {}\"", name,
                 location);
  } else {
    tell(index.status());
  }
}

}  // namespace quarry::server
