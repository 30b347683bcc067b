#include "quarry/remote/open_url.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>

#include "quarry/disk_cache/cached_storage.h"
#include "quarry/remote/remote_storage.h"
#include "quarry/remote/s3_writer.h"
#include "quarry/storage/directory_writer.h"
#include "quarry/storage/posix_storage.h"

namespace quarry::remote {
namespace {

bool IsSet(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && std::string_view(value) == "1";
}

std::string Certificates() {
  for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (const char* const path = std::getenv(name); path != nullptr && *path != '\0') return path;
  }
  return "";
}

/// One for the process, and one more for those that may use plain HTTP: connections are shared.
Result<std::shared_ptr<HttpClient>> SharedClient(bool allow_http) {
  static auto& mutex = *new std::mutex;
  static auto& clients = *new std::array<std::weak_ptr<HttpClient>, 2>;
  static pid_t process = ::getpid();
  const std::lock_guard lock(mutex);
  if (std::exchange(process, ::getpid()) != process) clients = {};  // a forked process has no threads
  std::weak_ptr<HttpClient>& known = clients[allow_http ? 1 : 0];
  if (auto client = known.lock()) return client;
  HttpOptions options;
  options.allow_http = allow_http;
  options.certificates = Certificates();
  QUARRY_ASSIGN_OR_RETURN(auto client, HttpClient::Make(std::move(options)));
  known = client;
  return client;
}

/// Asks a service for credentials, with a client that ends with the question.
Result<std::string> FetchSmall(const SmallRequest& asked) {
  HttpOptions options;
  options.allow_http = true;  // services of containers and virtual machines have fixed addresses
  options.certificates = Certificates();
  options.connect_patience = asked.patience;
  QUARRY_ASSIGN_OR_RETURN(const auto client, HttpClient::Make(std::move(options)));
  HttpRequest request;
  request.method = asked.method;
  request.url = request.shown = asked.url;
  request.headers = asked.headers;
  request.limit = 1 << 20;
  const auto body = std::as_bytes(std::span(asked.body));
  request.body.assign(body.begin(), body.end());
  const auto end = std::chrono::steady_clock::now() + asked.patience;
  QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, client->Fetch(std::move(request), [end] {
    return std::chrono::steady_clock::now() > end;
  }));
  if (reply.status == 200)
    return std::string(reinterpret_cast<const char*>(reply.body.data()), reply.body.size());
  return Unavailable("\"{}\" answers {}", asked.url, reply.status);
}

Result<std::unique_ptr<Place>> PlaceOf(const StoreUrl& url) {
  if (url.scheme != StoreUrl::Scheme::kS3) return WebPlace(url.query);
  CredentialWishes wishes;
  wishes.anonymous = IsSet("QUARRY_S3_ANONYMOUS");
  wishes.instance_metadata = IsSet("QUARRY_S3_INSTANCE_METADATA");
  return S3Place(url, wishes, ThisProcess(FetchSmall));
}

}  // namespace

Result<Location> LocationOf(const std::string& text, const UrlOptions& options) {
  if (!IsUrl(text)) return Location(PosixStorage::For(text), text);
  QUARRY_ASSIGN_OR_RETURN(const StoreUrl url, ParseUrl(text));
  QUARRY_ASSIGN_OR_RETURN(auto client, SharedClient(options.allow_http));
  QUARRY_ASSIGN_OR_RETURN(auto place, PlaceOf(url));
  std::shared_ptr<const Storage> storage =
      std::make_shared<const RemoteStorage>(std::move(client), std::move(place));
  QUARRY_ASSIGN_OR_RETURN(auto cache, disk_cache::DiskCache::Open(options.cache));
  if (cache)
    storage = std::make_shared<const disk_cache::CachedStorage>(std::move(storage), std::move(cache));
  return Location(std::move(storage), url.Text());
}

Result<std::shared_ptr<const WritableStorage>> WriterOf(const std::string& text, bool allow_http) {
  if (!IsUrl(text)) return std::shared_ptr<const WritableStorage>(std::make_shared<DirectoryWriter>());
  QUARRY_ASSIGN_OR_RETURN(const StoreUrl url, ParseUrl(text));
  if (url.scheme != StoreUrl::Scheme::kS3)
    return InvalidArgument(
        "\"{}\" is on a web server, which nothing can be written to; copy to a directory or to s3://",
        url.Text());
  QUARRY_ASSIGN_OR_RETURN(auto client, SharedClient(allow_http));
  QUARRY_ASSIGN_OR_RETURN(auto place, PlaceOf(url));
  return std::shared_ptr<const WritableStorage>(
      std::make_shared<S3Writer>(std::move(client), std::move(place)));
}

}  // namespace quarry::remote
