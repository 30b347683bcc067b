#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quarry/base/status.h"
#include "server/http/answer.h"

namespace quarry::server::http {

class Request;

/// The files of a web page, in memory: names from outside are looked up, never joined to a path.
class Page {
 public:
  /// No files: "/" then describes the server.
  Page() = default;

  /// Reads all files below a folder. FILE.gz beside FILE is the same, compressed.
  /// @param sources  origins that the page may read from, besides this server
  /// @errors kNotFound: there is no index.html; kInvalidArgument: more files or bytes than a page has
  static Result<Page> Load(const std::filesystem::path& folder, const std::vector<std::string>& sources);

  std::size_t files() const { return files_.size(); }

  /// The file of a path, which begins with a slash; null: there is none.
  std::unique_ptr<Answer> Find(const std::string& path, const Request& request) const;

 private:
  struct File {
    SharedBytes bytes;
    SharedBytes compressed;  ///< empty: there is none
    std::string tag;
  };

  Headers RestrictingHeaders() const;

  std::map<std::string, File> files_;  ///< by path
  std::string sources_;                ///< as in the policy of the page, each after a space
};

}  // namespace quarry::server::http
