#include <algorithm>
#include <mutex>

#include "quarry/remote/place.h"
#include "quarry/remote/s3_bucket.h"

namespace quarry::remote {
namespace {

/// [bytes] Most of a page of a list, which has at most 1,000 keys of 1 KiB.
constexpr std::uint64_t kMostPage = 16 << 20;
/// Keys that a folder may have: more would be no folder of a dataset.
constexpr std::size_t kMostNames = 10'000'000;

class Bucket final : public Place {
 public:
  Bucket(S3Bucket bucket, CredentialWishes wishes, Surroundings world)
      : wishes_(std::move(wishes)), world_(std::move(world)), bucket_(std::move(bucket)) {}

  Result<HttpRequest> Request(const std::string& method, const std::string& path) override {
    return RequestOf(method, KeyOf(path), {});
  }

  Result<HttpRequest> RequestWith(const std::string& method, const std::string& path,
                                  std::vector<std::pair<std::string, std::string>> query) override {
    return RequestOf(method, KeyOf(path), std::move(query));
  }

  Status Failure(const HttpReply& reply, const std::string& path, std::string_view action) override {
    return S3Status(reply, path, Known(), action);
  }

  bool Learn(const HttpReply& reply) override {
    const S3Error error = ParseError(reply.body);
    const std::string region = reply.bucket_region.empty() ? error.region : reply.bucket_region;
    const std::lock_guard lock(mutex_);
    if (region.empty() || region == bucket_.region) return false;
    const std::string before = fmt::format("s3.{}.", bucket_.region);
    if (const std::size_t at = bucket_.endpoint.find(before); at != std::string::npos)
      bucket_.endpoint.replace(at, before.size(), fmt::format("s3.{}.", region));
    bucket_.region = region;
    return true;
  }

  bool has_lists() const override { return true; }
  Result<std::vector<FolderEntry>> List(HttpClient* client, const std::string& folder) override {
    std::vector<FolderEntry> entries;
    std::string token;
    do {
      QUARRY_ASSIGN_OR_RETURN(S3Page page, ListPage(client, folder, token));
      for (S3Page::Object& object : page.objects)
        entries.push_back({std::move(object.name), ObjectKind::kFile, false});
      for (std::string& name : page.folders) entries.push_back({std::move(name), ObjectKind::kFolder, false});
      if (entries.size() > kMostNames || (page.next == token && !token.empty()))
        return Unavailable("\"{}\": the list of the store does not end", folder);
      token = std::move(page.next);
    } while (!token.empty());
    if (entries.empty()) return NotFound("\"{}\" has no object", folder);
    std::sort(entries.begin(), entries.end(),
              [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
    return entries;
  }

 private:
  /// The key of "s3://BUCKET/KEY".
  static std::string KeyOf(const std::string& path) {
    const std::size_t slash = path.find('/', path.find("://") + 3);
    return slash == std::string::npos ? "" : path.substr(slash + 1);
  }

  Result<HttpRequest> RequestOf(const std::string& method, const std::string& key,
                                std::vector<std::pair<std::string, std::string>> query) {
    QUARRY_RETURN_IF_ERROR(Refresh());
    const std::lock_guard lock(mutex_);
    return S3Request(bucket_, method, key, std::move(query), [keys = credentials_] { return keys; });
  }

  /// Credentials are looked for with the first request, and anew when they are about to end.
  Status Refresh() {
    constexpr std::chrono::minutes kBefore{5};
    const std::lock_guard lock(mutex_);
    if (known_ && world_.now() + kBefore < credentials_.expires) return Status::Ok();
    Result<Credentials> found = FindCredentials(wishes_, world_);
    // They were right before: the question is not wrong.
    if (!found.ok() && known_)
      return Unavailable("no new credentials instead of those that end: {}", found.status().message());
    QUARRY_ASSIGN_OR_RETURN(credentials_, std::move(found));
    known_ = true;
    return Status::Ok();
  }

  Credentials Known() {
    const std::lock_guard lock(mutex_);
    return credentials_;
  }

  Result<S3Page> ListPage(HttpClient* client, const std::string& folder, const std::string& token) {
    std::string prefix = KeyOf(folder);
    if (!prefix.empty()) prefix += '/';
    const auto query = ListQuery(prefix, token);
    for (bool again = false;; again = true) {
      QUARRY_ASSIGN_OR_RETURN(HttpRequest request, RequestOf("GET", "", query));
      request.shown = folder;
      request.limit = kMostPage;
      QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, client->Fetch(std::move(request), {}));
      if (reply.status == 200) return ParseList(reply.body, prefix).Annotate(fmt::format("\"{}\"", folder));
      if (again || !Learn(reply)) return Failure(reply, folder, "read");
    }
  }

  const CredentialWishes wishes_;
  const Surroundings world_;
  std::mutex mutex_;
  S3Bucket bucket_;
  Credentials credentials_;
  bool known_ = false;
};

}  // namespace

Result<std::unique_ptr<Place>> S3Place(const StoreUrl& url, CredentialWishes wishes, Surroundings world) {
  QUARRY_ASSIGN_OR_RETURN(S3Bucket bucket, BucketOf(url, world));
  return std::unique_ptr<Place>(
      std::make_unique<Bucket>(std::move(bucket), std::move(wishes), std::move(world)));
}

}  // namespace quarry::remote
