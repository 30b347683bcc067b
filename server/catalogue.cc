#include "server/catalogue.h"

#include <spdlog/spdlog.h>

#include "quarry/index/index_reader.h"
#include "quarry/index/index_writer.h"

namespace quarry::server {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kSuffix = ".quarry";

Stamp Version(const fs::path& dataset, const fs::path& index) {
  const Stamp steps = StampOf(dataset / "steps");
  return {StampOf(dataset / "dataset.json").text + " " + steps.text + " " + StampOf(index / "seal.json").text,
          steps.settled};
}

/// Whether this is still what would be opened now.
/// @param opened  taken before it was opened, which may have been within one tick of a change
bool IsCurrent(const Dataset& dataset, const Stamp& now, const Stamp& opened) {
  if (now.text != opened.text) return false;
  if (opened.settled) return true;
  const auto steps = ListSteps(dataset.root());
  return steps.ok() && *steps == dataset.steps();
}

}  // namespace

Result<std::vector<FoundDataset>> Catalogue::List() {
  QUARRY_ASSIGN_OR_RETURN(std::vector<FoundDataset> found, FindDatasets(options_.root));
  const std::lock_guard lock(mutex_);
  std::map<std::string, Entry> entries;
  for (const FoundDataset& dataset : found) {
    Entry& entry = entries[dataset.name];
    if (const auto known = entries_.find(dataset.name); known != entries_.end()) entry = known->second;
    entry.path = dataset.path;
  }
  entries_ = std::move(entries);
  return found;
}

Result<std::optional<std::pair<std::string, Catalogue::Entry>>> Catalogue::Lookup(const std::string& asked) {
  // The exact name first: a dataset may really be called NAME.quarry.
  const auto lookup = [&]() -> std::optional<std::pair<std::string, Entry>> {
    const std::lock_guard lock(mutex_);
    auto it = entries_.find(asked);
    if (it == entries_.end() && asked.ends_with(kSuffix))
      it = entries_.find(asked.substr(0, asked.size() - kSuffix.size()));
    return it == entries_.end() ? std::nullopt : std::optional(*it);
  };
  auto found = lookup();
  if (!found) {
    QUARRY_RETURN_IF_ERROR(internal::ToStatus(List()));
    found = lookup();
  }
  return found;
}

std::optional<std::string> Catalogue::NameOf(const std::string& asked) {
  const auto found = Lookup(asked);
  if (!found.ok() || !*found) return std::nullopt;
  return (*found)->first;
}

Result<std::shared_ptr<const ServedDataset>> Catalogue::Find(const std::string& asked) {
  QUARRY_ASSIGN_OR_RETURN(const auto found, Lookup(asked));
  if (!found)
    return NotFound("there is no dataset \"{}\" here; list the names with \"quarry ls\"",
                    asked.substr(0, 100));
  const auto& [name, entry] = *found;
  const Stamp version = Version(entry.path, IndexFolder(name, entry.path));
  std::shared_ptr<const ServedDataset> served = entry.served;
  const bool current = served && IsCurrent(*served->dataset, version, entry.version);
  if (current && (entry.version.settled || !version.settled)) return served;

  // Two requests may open the same dataset at once: both get a good one, the later stays.
  if (!current) {
    QUARRY_ASSIGN_OR_RETURN(served, Open(name, entry.path));
  }
  const std::lock_guard lock(mutex_);
  entries_[name] = {entry.path, version, served};
  return served;
}

fs::path Catalogue::IndexFolder(const std::string& name, const fs::path& path) const {
  return options_.index.empty() ? index::DefaultIndexFolder(path) : options_.index / name;
}

Result<std::shared_ptr<const ServedDataset>> Catalogue::Open(const std::string& name,
                                                             const fs::path& path) const {
  auto served = std::make_shared<ServedDataset>();
  served->name = name;
  QUARRY_ASSIGN_OR_RETURN(served->dataset, Dataset::Open(path));
  auto index = index::IndexCatalog::Open(served->dataset, IndexFolder(name, path), options_.scratch);
  if (index.ok()) {
    served->index = *index;
  } else if (index.status().code() == StatusCode::kNotFound) {
    spdlog::info("dataset {}: no index, reading patch tables instead; run \"quarry-index {}\"", name,
                 path.string());
  } else {
    spdlog::warn("dataset {}: {}; reading patch tables instead", name, index.status().message());
  }
  spdlog::info("dataset {}: {} steps, {} fields{}", name, served->dataset->steps().size(),
               served->dataset->description().fields.size(), served->index ? ", indexed" : "");
  return std::shared_ptr<const ServedDataset>(std::move(served));
}

}  // namespace quarry::server
