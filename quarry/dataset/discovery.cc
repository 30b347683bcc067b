#include "quarry/dataset/discovery.h"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "quarry/base/utf8.h"

namespace quarry {
namespace {

std::string WithoutSuffix(std::string name) {
  constexpr std::string_view kSuffix = ".quarry";
  if (name.size() > kSuffix.size() && name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name;
}

/// Result of a look at a name in a folder.
enum class Seen : std::uint8_t { kNeither, kFolder, kDataset };

/// Whether a folder is listed as a dataset: it has a dataset.json, or is called NAME.quarry and cannot be
/// read. Opening the latter gives the reason.
bool IsListed(const Location& folder) {
  const Result<ObjectInfo> manifest = (folder / "dataset.json").Stat();
  if (manifest.ok()) return manifest->kind == ObjectKind::kFile;
  return manifest.status().code() != StatusCode::kNotFound && folder.path.ends_with(".quarry");
}

/// A folder to be searched.
struct Folder {
  Location location;
  std::string below;  ///< the beginning of the names of its datasets
  int depth = 0;
  bool behind_link = false;
  std::shared_ptr<Folder> above;  ///< null: the root
  std::string identity;           ///< empty until a link is compared with it
};

/// Whether a link leads back to the folder that it is in, or to one above.
bool IsLoop(const Location& link, Folder* folder) {
  const std::string target = IdentityOf(link);
  for (; folder != nullptr && !target.empty(); folder = folder->above.get()) {
    if (folder->identity.empty()) folder->identity = IdentityOf(folder->location);
    if (folder->identity == target) return true;
  }
  return false;
}

class Search {
 public:
  explicit Search(const DiscoveryOptions& options)
      : options_(options), patience_{options.patience, options.cancelled} {}

  Status Run(const Location& root) {
    together_ = static_cast<std::size_t>(std::max(1, root.storage->costs().side_by_side));
    ends_in_time_ = root.storage->ends_in_time();
    folders_.push_back(std::make_shared<Folder>(Folder{root, "", 0, false, nullptr, ""}));
    while (!folders_.empty() || !behind_links_.empty()) {
      std::deque<std::shared_ptr<Folder>>& next = folders_.empty() ? behind_links_ : folders_;
      std::vector<std::shared_ptr<Folder>> some;
      while (!next.empty() && some.size() < together_) {
        some.push_back(std::move(next.front()));
        next.pop_front();
      }
      QUARRY_RETURN_IF_ERROR(SearchFolders(some));
    }
    return options_.cancelled() ? Cancelled() : Status::Ok();
  }

  Discovery TakeResult() { return std::move(result_); }

 private:
  static constexpr std::size_t kAtOnce = 1024;  ///< entries of a folder, whose paths are in memory

  using Entries = Result<std::vector<FolderEntry>>;

  /// Folders that are listed together.
  Status SearchFolders(const std::vector<std::shared_ptr<Folder>>& folders) {
    if (options_.cancelled()) return Cancelled();
    std::vector<std::optional<Entries>> listed(folders.size());
    folders.front()->location.storage->AtOnce(folders.size(), [&](std::size_t i) {
      const Location& location = folders[i]->location;
      listed[i].emplace(location.storage->ListNames(location.path));
    });
    std::vector<Name> names;
    for (std::size_t i = 0; i < folders.size() && !full_; ++i)
      QUARRY_RETURN_IF_ERROR(AddNames(folders[i], *listed[i], &names));
    const std::span<const Name> all = names;
    for (std::size_t first = 0; first < all.size(); first += kAtOnce)
      QUARRY_RETURN_IF_ERROR(SearchNames(all.subspan(first, std::min(kAtOnce, all.size() - first))));
    return Status::Ok();
  }

  /// A name in a folder that may be that of a dataset or of another folder.
  struct Name {
    std::shared_ptr<Folder> folder;
    const FolderEntry* entry;
  };

  Status AddNames(const std::shared_ptr<Folder>& folder, const Entries& entries, std::vector<Name>* names) {
    if (options_.cancelled()) return Cancelled();
    if (!entries.ok()) return Failed(*folder, entries.status());
    for (const FolderEntry& entry : *entries) {
      if (!CountEntry(*folder)) break;
      const bool may_be_folder = entry.kind == ObjectKind::kFolder || entry.is_link;
      if (may_be_folder && !entry.name.starts_with('.') && IsUtf8(entry.name))
        names->push_back({folder, &entry});
    }
    return Status::Ok();
  }

  Status SearchNames(std::span<const Name> names) {
    std::vector<Location> places;
    std::vector<bool> links;
    for (const Name& name : names) {
      places.push_back(name.folder->location / name.entry->name);
      links.push_back(name.entry->is_link);
    }
    const auto look = [places, links](std::size_t number, const LookEnded&) {
      const Location& place = places[number];
      if (links[number] && place.storage->KindBehindLink(place.path) != ObjectKind::kFolder)
        return Seen::kNeither;
      return IsListed(place) ? Seen::kDataset : Seen::kFolder;
    };
    QUARRY_ASSIGN_OR_RETURN(const std::vector<std::optional<Seen>> seen, LookAt(std::move(places), look));
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (options_.cancelled()) return Cancelled();
      SearchEntry(names[i].folder, *names[i].entry, seen[i]);
    }
    return Status::Ok();
  }

  /// Looks at places, without patience for each where the storage has its own.
  Result<std::vector<std::optional<Seen>>> LookAt(
      std::vector<Location> places, const std::function<Seen(std::size_t, const LookEnded&)>& look) {
    if (!ends_in_time_) return LookAtEach<Seen>(std::move(places), look, &patience_);
    std::vector<std::optional<Seen>> seen(places.size());
    if (places.empty()) return seen;
    places.front().storage->AtOnce(places.size(),
                                   [&](std::size_t i) { seen[i] = look(i, [] { return false; }); });
    return seen;
  }

  /// @param seen  nothing: it does not answer
  void SearchEntry(const std::shared_ptr<Folder>& folder, const FolderEntry& entry,
                   std::optional<Seen> seen) {
    if (seen == Seen::kNeither) return;
    Location location = folder->location / entry.name;
    std::string name = folder->below + entry.name;
    if (seen ? seen == Seen::kDataset : location.path.ends_with(".quarry")) {
      result_.datasets.push_back({std::move(name), std::move(location)});
      return;
    }
    if (!seen) return LeaveOut(location);
    constexpr int kMaxDepth = 16;
    if (full_ || folder->depth + 1 >= kMaxDepth || (entry.is_link && IsLoop(location, folder.get()))) return;
    const bool behind_link = folder->behind_link || entry.is_link;
    (behind_link ? behind_links_ : folders_)
        .push_back(std::make_shared<Folder>(
            Folder{std::move(location), name + "/", folder->depth + 1, behind_link, folder, ""}));
  }

  void LeaveOut(const Location& folder) {
    if (!result_.incomplete.ok()) return;
    result_.incomplete = InternalError(
        "\"{}\" does not answer, and is not searched for datasets; is its disk or file server there?",
        folder);
  }

  static Status Cancelled() { return {StatusCode::kCancelled, "the search for datasets was cancelled"}; }

  /// @returns the status of the search
  Status Failed(const Folder& folder, const Status& status) {
    const StatusCode code = status.code();
    if (folder.above == nullptr && code == StatusCode::kPermissionDenied)
      return {StatusCode::kInternal, status.message()};
    if (folder.above == nullptr) return status;
    // Removed since it was found, or not readable by this user.
    const bool skipped = code == StatusCode::kNotFound || code == StatusCode::kPermissionDenied;
    if (!skipped && result_.incomplete.ok()) result_.incomplete = status;
    return Status::Ok();
  }

  /// @returns false where a bound is reached
  bool CountEntry(const Folder& folder) {
    if (folder.behind_link && entries_behind_links_++ == options_.most_behind_links)
      return LeaveOutTheRest(folder, options_.most_behind_links, " behind symbolic links");
    if (entries_++ == options_.most_entries) return LeaveOutTheRest(folder, options_.most_entries, "");
    return true;
  }

  bool LeaveOutTheRest(const Folder& folder, std::uint64_t most, std::string_view where) {
    folders_.clear();
    behind_links_.clear();
    full_ = true;
    result_.left_out = fmt::format(
        "\"{}\" and further folders are not searched for datasets: {} names were looked at{}, which is the "
        "most",
        folder.location, most, where);
    return false;
  }

  const DiscoveryOptions& options_;
  Patience patience_;
  std::size_t together_ = 1;   ///< calls that are made at once
  bool ends_in_time_ = false;  ///< see Storage
  bool full_ = false;          ///< a bound is reached
  std::deque<std::shared_ptr<Folder>> folders_;
  std::deque<std::shared_ptr<Folder>> behind_links_;
  std::uint64_t entries_ = 0;
  std::uint64_t entries_behind_links_ = 0;
  Discovery result_;
};

/// Clients see names without ".quarry". If both run42 and run42.quarry exist, they keep their full names.
void FinishNames(std::vector<FoundDataset>* found) {
  std::map<std::string, int> uses;
  for (const FoundDataset& dataset : *found) ++uses[WithoutSuffix(dataset.name)];
  for (FoundDataset& dataset : *found) {
    if (std::string name = WithoutSuffix(dataset.name); uses[name] == 1) dataset.name = std::move(name);
  }
  std::sort(found->begin(), found->end(),
            [](const FoundDataset& a, const FoundDataset& b) { return a.name < b.name; });
}

/// A root without lists, which must be a dataset itself.
Result<Discovery> DiscoverOne(const Location& root) {
  const Result<ObjectInfo> manifest = (root / "dataset.json").Stat();
  if (manifest.status().code() == StatusCode::kNotFound)
    return NotFound(
        "\"{}\" is not a dataset, and a web server has no lists of files by which the datasets below it "
        "could "
        "be found; give the URL of one dataset, https://HOST/NAME.quarry",
        root);
  QUARRY_RETURN_IF_ERROR(manifest.status());
  return Discovery{{{WithoutSuffix(root.name()), root}}, {}, {}};
}

}  // namespace

Result<Discovery> Discover(const Location& root, const DiscoveryOptions& options) {
  if (!root.storage->has_folders()) return DiscoverOne(root);
  const std::array<Location, 2> places = {root, root / "dataset.json"};
  std::array<Result<ObjectInfo>, 2> infos = {ObjectInfo(), ObjectInfo()};
  root.storage->AtOnce(places.size(), [&](std::size_t i) { infos[i] = places[i].Stat(); });
  const auto& [folder, manifest] = infos;
  if (!folder.ok() && folder.status().code() != StatusCode::kNotFound) return folder.status();
  if (!folder.ok() || folder->kind != ObjectKind::kFolder)
    return NotFound("there is no directory \"{}\"; give one that holds NAME.quarry datasets", root);
  if (manifest.ok() && manifest->kind == ObjectKind::kFile)
    return Discovery{{{WithoutSuffix(root.name()), root}}, {}, {}};
  Search search(options);
  QUARRY_RETURN_IF_ERROR(search.Run(root));
  Discovery found = search.TakeResult();
  FinishNames(&found.datasets);
  return found;
}

Result<std::vector<FoundDataset>> FindDatasets(const Location& root) {
  QUARRY_ASSIGN_OR_RETURN(Discovery found, Discover(root));
  QUARRY_RETURN_IF_ERROR(found.incomplete);
  return std::move(found.datasets);
}

}  // namespace quarry
