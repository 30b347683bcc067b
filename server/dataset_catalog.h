#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/discovery.h"
#include "quarry/index/piece.h"
#include "quarry/session/session.h"
#include "quarry/storage/stamp_watch.h"
#include "server/turn.h"

namespace quarry::server {

/// Where the catalog looks.
struct DatasetCatalogOptions {
  Location root;                  ///< every dataset below it is served
  Location index;                 ///< holds an index folder NAME for each dataset; empty: NAME.quarry/index
  std::filesystem::path scratch;  ///< local directory for private copies of indices
  /// For as long as a search has taken, and no longer than this, its result is kept: what it has not found
  /// counts as missing, and see DatasetLists.
  std::chrono::milliseconds longest_kept{0};
  std::shared_ptr<PatchStore> store = nullptr;  ///< see Dataset::Open
  /// For each dataset that a list opens, and each folder that a search looks at, see Patience.
  std::chrono::milliseconds patience = Patience().each;
  /// Datasets that nobody has asked for so long are closed, at the next question.
  std::chrono::milliseconds close_after = std::chrono::minutes(10);
  /// The root is a URL: no index is looked for, as one is for local datasets, and what a store says about an
  /// error is for the operator alone.
  bool remote = false;
};

/// The datasets of a server, by name. A name from outside is looked up here and never becomes part of a path.
/// The next request sees steps that are published, and indices that are rebuilt, while the server runs.
/// Requests for one dataset wait for each other while it is opened, and nobody else does; who waits gives up
/// by its CancelScope. Where looks at a dataset cost, one serves all requests of a while, and so does its
/// error. Datasets stay open until they are not used for long. One search for datasets runs at a time, for
/// all who wait for it. Thread-safe.
class DatasetCatalog final : public DatasetSource {
 public:
  using Cancelled = std::function<bool()>;
  using Found = std::shared_ptr<const Discovery>;

  explicit DatasetCatalog(DatasetCatalogOptions options) : options_(std::move(options)) {}

  const DatasetCatalogOptions& options() const { return options_; }

  /// All datasets that can be listed now, by a search that begins after the call.
  /// @param cancelled  asked while searching or waiting
  /// @errors kNotFound: the root is gone; kCancelled
  Result<Found> List(const Cancelled& cancelled = Never) { return Search(cancelled); }

  /// @param name  with or without ".quarry"
  /// @errors kNotFound: not in the catalog; kDataLoss: dataset.json is damaged; the error of a folder that
  /// could not be searched, where the dataset may be in it
  Result<std::shared_ptr<const OpenedDataset>> Find(const std::string& name) override;
  bool sees_changes() const override { return true; }

  /// The listed name of the dataset that Find opens for `asked`; nothing if there is no such dataset.
  /// @errors as List, and that of a folder that could not be searched
  Result<std::optional<std::string>> NameOf(const std::string& asked, const Cancelled& cancelled = Never);

  /// Names that NameOf may return for `asked`, first the name that comes first.
  static std::vector<std::string> PossibleNames(const std::string& asked);

  /// Opens every dataset anew when it is asked for next, whatever its files say.
  void Forget();

 private:
  static bool Never() { return false; }

  /// A dataset, opened by the first that asks.
  struct Slot {
    explicit Slot(Location at) : location(std::move(at)) {}

    const Location location;
    /// When it was asked for, under the catalog's mutex; nothing: not since it was closed.
    std::optional<std::chrono::steady_clock::time_point> used;
    Turn turn;         ///< held while its files are looked at; guards the following
    StampWatch watch;  ///< watches the files that Open reads
    std::shared_ptr<const OpenedDataset> served;  ///< null until it is opened, and when it is closed
    /// The pieces of its index, for the next opening too; null at first, and when it is closed.
    std::shared_ptr<index::PieceCopies> pieces;
    bool damage_is_logged = false;
    Status failure;  ///< why the last look has failed
    /// Until then, that look is the answer to all questions, see Storage::trust.
    std::chrono::steady_clock::time_point trusted_until;
  };
  using Named = std::pair<std::string, std::shared_ptr<Slot>>;

  /// By the exact name first, then without ".quarry"; searches anew for unknown names.
  Result<std::optional<Named>> Lookup(const std::string& asked, const Cancelled& cancelled);
  std::optional<Named> Known(const std::string& asked);

  /// Result of a search that began after the call.
  Result<Found> Search(const Cancelled& cancelled);
  bool SearchOnce(std::unique_lock<std::mutex>* lock, const Cancelled& cancelled);
  Result<Found> RunSearch(const Cancelled& cancelled);
  void Keep(const Discovery& found);
  void CloseUnused(Slot* wanted);
  void LogLeftOut(const Discovery& found);
  void LogDamage(const std::string& name, Slot* slot);

  Status Look(const std::string& name, Slot* slot);
  /// Nothing: none is looked for.
  std::optional<Location> IndexFolder(const std::string& name, const Location& dataset) const;
  Result<std::shared_ptr<const OpenedDataset>> Open(const std::string& name, const Location& location,
                                                    std::shared_ptr<index::PieceCopies> pieces) const;
  void OpenIndex(const Location& location, std::shared_ptr<index::PieceCopies> pieces,
                 OpenedDataset* served) const;

  const DatasetCatalogOptions options_;
  std::mutex mutex_;  ///< never held over a look at the storage
  std::map<std::string, std::shared_ptr<Slot>> slots_;
  std::chrono::steady_clock::time_point close_next_;  ///< when to look for unused datasets again

  std::condition_variable searched_;
  bool searching_ = false;
  int waiting_ = 0;             ///< callers of Search who have not been cancelled
  std::uint64_t begun_ = 0;     ///< number of the search that began last
  std::uint64_t finished_ = 0;  ///< number of the search that `result_` is from
  std::optional<Result<Found>> result_;
  std::chrono::steady_clock::time_point missing_until_;  ///< see DatasetCatalogOptions::longest_kept
  std::string left_out_;                                 ///< logged last
};

}  // namespace quarry::server
