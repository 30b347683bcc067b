#include "quarry/remote/remote_storage.h"

#include <condition_variable>
#include <ctime>
#include <mutex>

#include "quarry/base/cancel_scope.h"
#include "quarry/base/checksum.h"
#include "quarry/base/file.h"

namespace quarry::remote {
namespace {

/// Assumed of a path that has not been used yet.
constexpr double kLatency = 0.02, kBandwidth = 125e6;
/// Longer ranges are cut: see docs/decisions/remote.md, "Requests".
constexpr std::uint64_t kMostBytes = 256 << 10;

/// As other storages of the same client have seen them.
ReadCosts CostsOf(const HttpClient& client) {
  const SeenCosts seen = client.seen();
  ReadCosts costs;
  costs.latency = seen.latency > 0 ? seen.latency : kLatency;
  costs.bandwidth = seen.bandwidth > 0 ? seen.bandwidth : kBandwidth;
  costs.side_by_side = client.options().connections;
  costs.most_bytes = kMostBytes;
  return costs;
}

/// Whether "Wed, 21 Oct 2015 07:28:00 GMT" is more than a minute ago.
bool IsOld(const std::string& changed) {
  std::tm utc{};
  const char* const end = strptime(changed.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return end != nullptr && std::time(nullptr) - timegm(&utc) > 60;
}

/// The version of an object: its tag, or when it was changed, and its size.
Stamp StampOfReply(const HttpReply& reply) {
  return {fmt::format("{} {} {}", reply.tag, reply.tag.empty() ? reply.changed : "", reply.size.value_or(0)),
          IsOld(reply.changed)};
}

/// The names of a folder, which has no version of its own.
Stamp StampOfNames(const std::vector<FolderEntry>& entries) {
  std::string names;
  for (const FolderEntry& entry : entries) names += entry.name + '\n';
  return {fmt::format("{} {}", entries.size(), ChecksumText(Checksum(std::as_bytes(std::span(names))))),
          false};
}

/// Adds the path that was asked for to an error about something else, such as credentials.
template <typename T>
Result<T> Named(Result<T> result, const std::string& path) {
  if (result.ok() || result.status().message().find(path) != std::string::npos) return result;
  return std::move(result).Annotate(fmt::format("\"{}\"", path));
}

}  // namespace

/// The ETag that all answers of an object have.
class KnownTag {
 public:
  explicit KnownTag(std::string tag) : tag_(std::move(tag)) {}

  std::string get() const {
    const std::lock_guard lock(mutex_);
    return tag_;
  }
  /// @returns false: another version
  bool Is(const std::string& tag) {
    const std::lock_guard lock(mutex_);
    if (tag_.empty()) tag_ = tag;
    return tag.empty() || tag_ == tag;
  }

 private:
  mutable std::mutex mutex_;
  std::string tag_;
};

class RemoteObject final : public StoredObject {
 public:
  RemoteObject(const Storage& storage, std::string path, std::uint64_t size, std::string tag)
      : storage_(storage),
        path_(std::move(path)),
        size_(size),
        tag_(std::make_shared<KnownTag>(std::move(tag))) {}

  const std::string& path() const override { return path_; }
  std::uint64_t size() const override { return size_; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const override {
    const ReadRange range{this, offset, out};
    return storage_.ReadRanges(std::span(&range, 1), [] { return false; });
  }
  /// A weak ETag (RFC 9110) may be that of other bytes that mean the same.
  std::string version() const override {
    const std::string tag = tag_->get();
    return tag.starts_with('"') ? fmt::format("{} {}", tag, size_) : "";
  }
  const std::shared_ptr<KnownTag>& tag() const { return tag_; }

 private:
  const Storage& storage_;
  const std::string path_;
  const std::uint64_t size_;
  const std::shared_ptr<KnownTag> tag_;
};

namespace {

/// Ranges that were asked for, each by a call of its own.
class RemoteReading final : public Reading {
 public:
  RemoteReading(std::shared_ptr<HttpClient> client, std::size_t ranges, RangeDone done)
      : client_(std::move(client)), done_(std::move(done)), left_(ranges) {}
  ~RemoteReading() override { Cancel(); }

  void Add(std::shared_ptr<HttpClient::Call> call) { calls_.push_back(std::move(call)); }

  /// On the thread of the client, or where the range cannot be asked for.
  void Report(std::size_t range, const Status& status) {
    done_(range, status);
    const std::lock_guard lock(mutex_);
    if (first_.ok()) first_ = status;
    --left_;
    all_.notify_all();
  }

  Status Wait(const std::function<bool()>& cancelled) override {
    constexpr std::chrono::milliseconds kAsk{50};
    std::unique_lock lock(mutex_);
    while (!all_.wait_for(lock, kAsk, [this] { return left_ == 0; })) {
      if (!cancelled() && !CancelScope::Cancelled()) continue;
      lock.unlock();
      Cancel();
      lock.lock();
    }
    return first_;
  }

 private:
  void Cancel() {
    for (const auto& call : calls_) client_->Cancel(call);
    calls_.clear();
  }

  const std::shared_ptr<HttpClient> client_;
  const RangeDone done_;
  std::vector<std::shared_ptr<HttpClient::Call>> calls_;
  std::mutex mutex_;
  std::condition_variable all_;
  std::size_t left_;
  Status first_;
};

}  // namespace

RemoteStorage::RemoteStorage(std::shared_ptr<HttpClient> client, std::unique_ptr<Place> place)
    : client_(std::move(client)), place_(std::move(place)), costs_(CostsOf(*client_)) {}

/// @param with  completes the request
Result<HttpReply> RemoteStorage::Ask(const std::string& method, const std::string& path,
                                     const std::function<void(HttpRequest*)>& with) const {
  for (bool again = false;; again = true) {
    QUARRY_ASSIGN_OR_RETURN(HttpRequest request, Named(place_->Request(method, path), path));
    with(&request);
    QUARRY_ASSIGN_OR_RETURN(HttpReply reply, client_->Fetch(std::move(request), {}));
    if (reply.status == 200 || reply.status == 206 || reply.status == 416) return reply;
    if (again || !place_->Learn(reply)) return place_->Failure(reply, path, "read");
  }
}

Result<std::vector<FolderEntry>> RemoteStorage::List(const std::string& folder) const {
  return Named(place_->List(client_.get(), folder), folder);
}

Result<ObjectInfo> RemoteStorage::Stat(const std::string& path) const {
  const Result<HttpReply> reply = Ask("HEAD", path, [](HttpRequest*) {});
  ObjectInfo info;
  if (reply.ok()) {
    info.kind = ObjectKind::kFile;
    info.size = reply->size.value_or(0);
    info.stamp = StampOfReply(*reply);
    info.identity = info.stamp.text;
    return info;
  }
  if (reply.status().code() != StatusCode::kNotFound) return reply.status();
  const Result<std::vector<FolderEntry>> names = List(path);
  if (!names.ok()) return MayPass(names.status()) ? names.status() : reply.status();
  info.kind = ObjectKind::kFolder;
  info.stamp = StampOfNames(*names);
  info.identity = AbsolutePath(path);
  return info;
}

Result<OpenedFile> RemoteStorage::OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                                           Stamp* stamp) const {
  const bool front = end == FileEnd::kFront;
  QUARRY_ASSIGN_OR_RETURN(HttpReply reply, Ask("GET", path, [&](HttpRequest* request) {
                            // A range of nothing cannot be written.
                            const std::uint64_t bytes = std::max<std::uint64_t>(1, most);
                            (front ? request->first_bytes : request->last_bytes) = bytes;
                            request->limit = bytes;
                          }));
  if (reply.status == 416) reply = HttpReply{};  // an object without a byte
  const std::uint64_t size = reply.size.value_or(reply.body.size());
  if (stamp != nullptr) *stamp = StampOfReply(reply);
  reply.body.resize(std::min<std::uint64_t>(reply.body.size(), most));
  return OpenedFile{std::make_shared<const RemoteObject>(*this, path, size, reply.tag),
                    std::move(reply.body)};
}

Result<std::shared_ptr<const StoredObject>> RemoteStorage::Open(const std::string& path) const {
  QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, Ask("HEAD", path, [](HttpRequest*) {}));
  if (!reply.size) return Unavailable("\"{}\": the server does not tell the size", path);
  return std::shared_ptr<const StoredObject>(
      std::make_shared<const RemoteObject>(*this, path, *reply.size, reply.tag));
}

/// One request for all of a small file, where its size would be another.
Result<Bytes> RemoteStorage::ReadWhole(const std::string& path, std::uint64_t limit) const {
  constexpr std::uint64_t kFront = 256 << 10;
  QUARRY_ASSIGN_OR_RETURN(OpenedFile file, OpenWith(path, FileEnd::kFront, std::min(kFront, limit), nullptr));
  const std::uint64_t size = file.object->size();
  QUARRY_RETURN_IF_ERROR(CheckFileSize(path, size, limit));
  const std::size_t front = file.bytes.size();
  file.bytes.resize(size);
  if (front < size) QUARRY_RETURN_IF_ERROR(file.object->ReadAt(front, std::span(file.bytes).subspan(front)));
  return std::move(file.bytes);
}

std::shared_ptr<const StoredObject> RemoteStorage::Refer(const std::string& path, std::uint64_t size,
                                                         std::uint64_t) const {
  return std::make_shared<const RemoteObject>(*this, path, size, "");
}

std::unique_ptr<Reading> RemoteStorage::Begin(std::vector<ReadRange> ranges, RangeDone done,
                                              const std::function<bool()>&) const {
  auto reading = std::make_unique<RemoteReading>(client_, ranges.size(), std::move(done));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const ReadRange& range = ranges[i];
    const auto& object = static_cast<const RemoteObject&>(*range.object);
    Result<HttpRequest> request = Named(place_->Request("GET", object.path()), object.path());
    if (!request.ok() || range.out.empty()) {
      reading->Report(i, request.status());
      continue;
    }
    request->range_begin = range.offset;
    request->out = range.out;
    request->wanted_tag = object.tag()->get();
    const auto report = [this, i, path = object.path(), known = object.size(), tag = object.tag(),
                         to = reading.get()](const Result<HttpReply>& reply) {
      to->Report(i, [&]() -> Status {
        QUARRY_RETURN_IF_ERROR(reply.status());
        if (reply->status != 200 && reply->status != 206) return place_->Failure(*reply, path, "read");
        if (!tag->Is(reply->tag))
          return DataLoss("\"{}\" was replaced while it was read; open the dataset again", path);
        if (!reply->size || *reply->size == known) return Status::Ok();
        return DataLoss("\"{}\" has {} bytes, but {} are expected; {}", path, *reply->size, known,
                        *reply->size < known ? "it is truncated" : "another file is in its place");
      }());
    };
    reading->Add(client_->Start(*std::move(request), report));
  }
  return reading;
}

/// A URL is absolute, and its names are what they are.
std::string RemoteStorage::AbsolutePath(const std::string& path) const {
  std::string plain = path;
  while (plain.ends_with('/')) plain.pop_back();
  return plain;
}

}  // namespace quarry::remote
