#pragma once

#include <memory>
#include <string>
#include <vector>

#include "quarry/remote/credentials.h"
#include "quarry/remote/http_client.h"
#include "quarry/remote/url.h"
#include "quarry/storage/storage.h"

namespace quarry::remote {

/// How the files of a storage are asked for over HTTP. Thread-safe. Paths are URLs as messages show them:
/// "s3://BUCKET/FOLDER/FILE".
class Place {
 public:
  virtual ~Place() = default;

  /// @errors those of finding credentials
  virtual Result<HttpRequest> Request(const std::string& method, const std::string& path) = 0;

  /// The same with a query, of a place that is written to. @errors besides: kUnimplemented: it is not
  virtual Result<HttpRequest> RequestWith(const std::string& method, const std::string& path,
                                          std::vector<std::pair<std::string, std::string>> query) = 0;

  /// The error for a reply that is no success.
  /// @param action  what was asked for: "read", "written" or "listed"
  /// @errors see S3Status
  virtual Status Failure(const HttpReply& reply, const std::string& path, std::string_view action) = 0;

  /// Whether the same request may succeed now: a store has said where it is.
  virtual bool Learn(const HttpReply&) { return false; }

  virtual bool has_lists() const = 0;
  /// @errors kUnimplemented: there are no lists; as Storage::List
  virtual Result<std::vector<FolderEntry>> List(HttpClient* client, const std::string& folder) = 0;
};

/// A folder of a web server. @param query  for each request; may hold a signature
std::unique_ptr<Place> WebPlace(std::string query);

/// A bucket. @param url  names it
/// @errors see BucketOf
Result<std::unique_ptr<Place>> S3Place(const StoreUrl& url, CredentialWishes wishes, Surroundings world);

}  // namespace quarry::remote
