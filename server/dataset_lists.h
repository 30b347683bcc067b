#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "quarry/v1/service.pb.h"
#include "server/dataset_catalog.h"

namespace quarry::server {

/// Which part of a list a client asks for.
struct ListPage {
  std::string after;           ///< the last name that the client has; empty: the list begins
  std::size_t most = 1;        ///< datasets, at least one
  std::size_t most_bytes = 1;  ///< [bytes] the page ends with the dataset that reaches it
};

/// The lists of a catalog, page by page. One search serves all pages of a list, and lists that begin shortly
/// after it; each dataset is opened once for them. Thread-safe.
class DatasetLists {
 public:
  using Allowed = std::function<bool(const std::string& name)>;
  using Cancelled = DatasetCatalog::Cancelled;
  struct List;

  /// @param catalog  outlives the lists
  explicit DatasetLists(DatasetCatalog* catalog) : catalog_(catalog) {}

  /// The list that a page comes from: of a search that is kept, or of a new one. May wait for it.
  /// @errors those of DatasetCatalog::List
  Result<std::shared_ptr<List>> Find(const ListPage& page, const Cancelled& cancelled);

  /// The next datasets of those that the client may see, by name. A damaged one has a name alone: opening it
  /// gives the reason. One that does not answer in time has its name, and is marked as late.
  /// @errors kCancelled
  Result<::quarry::v1::ListDatasetsResponse> Page(List* list, const ListPage& page, const Allowed& allowed,
                                                  const Cancelled& cancelled);

  /// The next page comes from a new search.
  void Forget();

 private:
  using Clock = std::chrono::steady_clock;
  using Summary = std::shared_ptr<const ::quarry::v1::DatasetSummary>;

  Result<std::vector<Summary>> Summarize(List* list, std::span<const std::size_t> numbers,
                                         Patience* patience);
  void Keep(List* list, Clock::duration spent, std::span<const std::size_t> numbers,
            std::span<const Summary> summaries);
  void Hold(List* list, Clock::time_point now) const;

  DatasetCatalog* const catalog_;
  std::mutex mutex_;  ///< never held over a look at the storage
  std::shared_ptr<List> last_;
};

/// A search, and the datasets that were opened for it. The mutex of DatasetLists guards all but `found`.
struct DatasetLists::List {
  DatasetCatalog::Found found;
  Clock::time_point begun;                   ///< when the search was asked for
  Clock::duration spent{0};                  ///< on the search, and on opening datasets
  Clock::time_point holds_until;             ///< for lists that begin
  Clock::time_point pages_until;             ///< for further pages
  std::map<std::size_t, Summary> summaries;  ///< by number in `found`
  std::uint64_t bytes = 0;                   ///< size of `summaries`
};

}  // namespace quarry::server
