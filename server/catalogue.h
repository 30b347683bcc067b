#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/dataset/discovery.h"
#include "quarry/dataset/step_follower.h"

namespace quarry::server {

/// A dataset as it was when somebody last asked for it.
struct ServedDataset {
  std::string name;
  std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<const query::PatchCatalog> index;  ///< null: the subfiles' own tables
};

/// Where the catalogue looks.
struct CatalogueOptions {
  std::filesystem::path root;     ///< every dataset below it is served
  std::filesystem::path index;    ///< holds an index folder NAME for each dataset; empty: NAME.quarry/index
  std::filesystem::path scratch;  ///< local directory for private copies of indices
};

/// The datasets of a server, by name. A name from outside is looked up here and never becomes part of a path.
/// Steps that are published, and indices that are rebuilt, while the server runs are seen by the next
/// request. Thread-safe.
class Catalogue {
 public:
  explicit Catalogue(CatalogueOptions options) : options_(std::move(options)) {}

  /// All datasets that can be listed now, by name. @errors kNotFound: the root is gone
  Result<std::vector<FoundDataset>> List();

  /// @param name  with or without ".quarry"
  /// @errors kNotFound: not in the catalogue; kDataLoss: dataset.json is damaged
  Result<std::shared_ptr<const ServedDataset>> Find(const std::string& name);

  /// The name in the list of what Find would open for a name; nothing where there is no such dataset.
  std::optional<std::string> NameOf(const std::string& asked);

 private:
  struct Entry {
    std::filesystem::path path;
    Stamp version;  ///< of the files that Open read; changes when any of them does
    std::shared_ptr<const ServedDataset> served;
  };

  /// By the exact name first, then without ".quarry"; lists anew for what is not known yet.
  Result<std::optional<std::pair<std::string, Entry>>> Lookup(const std::string& asked);
  std::filesystem::path IndexFolder(const std::string& name, const std::filesystem::path& path) const;
  Result<std::shared_ptr<const ServedDataset>> Open(const std::string& name,
                                                    const std::filesystem::path& path) const;

  const CatalogueOptions options_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace quarry::server
