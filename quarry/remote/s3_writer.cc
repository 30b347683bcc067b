#include "quarry/remote/s3_writer.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <pugixml.hpp>
#include <sstream>

#include "quarry/remote/s3_bucket.h"

namespace quarry::remote {
namespace {

using Query = std::vector<std::pair<std::string, std::string>>;

/// [bytes] Stores take no smaller parts but the last, and at most 10,000 of them.
constexpr std::uint64_t kLeastPart = 8 << 20;
constexpr std::uint64_t kMostParts = 9000;
/// [bytes] Most of an answer in XML: a list of at most 1,000 uploads.
constexpr std::uint64_t kMostAnswer = 16 << 20;

constexpr int kConflict = 409, kConditionFailed = 412;

/// The bucket of a request, and what else all of them need.
class Asking {
 public:
  Asking(std::shared_ptr<HttpClient> client, std::shared_ptr<Place> place)
      : client_(std::move(client)), place_(std::move(place)) {}

  /// @returns any reply but failures that are the same for all requests @errors of the transfer
  Result<HttpReply> Ask(const std::string& method, const std::string& path, const Query& query, ByteSpan body,
                        const Headers& headers = {}) const {
    for (bool again = false;; again = true) {
      QUARRY_ASSIGN_OR_RETURN(HttpRequest request, place_->RequestWith(method, path, query));
      request.body.assign(body.begin(), body.end());
      request.headers.insert(request.headers.end(), headers.begin(), headers.end());
      request.limit = kMostAnswer;
      request.writes = true;
      QUARRY_ASSIGN_OR_RETURN(HttpReply reply, client_->Fetch(std::move(request), {}));
      if (reply.status / 100 == 2 || again || !place_->Learn(reply)) return reply;
    }
  }

  /// The error of a reply that is no success.
  Status Failure(const HttpReply& reply, const std::string& path, const PutCondition& condition) const {
    if (reply.status == kConditionFailed) {
      if (condition.kind == PutCondition::Kind::kIfTag)
        return FailedPrecondition("\"{}\" was replaced by another process", path);
      return AlreadyExists("\"{}\" is there already", path);
    }
    if (reply.status == kConflict)
      return Unavailable("\"{}\" is written by another process at this moment; try again", path);
    return place_->Failure(reply, path, "written");
  }

 private:
  const std::shared_ptr<HttpClient> client_;
  const std::shared_ptr<Place> place_;
};

Headers HeadersOf(const PutCondition& condition) {
  switch (condition.kind) {
    case PutCondition::Kind::kAlways:
      return {};
    case PutCondition::Kind::kIfAbsent:
      return {{"if-none-match", "*"}};
    case PutCondition::Kind::kIfTag:
      return {{"if-match", condition.tag}};
  }
  return {};
}

ByteSpan BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

/// An upload in parts. The store shows nothing of it before it is complete.
class S3Upload final : public Upload {
 public:
  S3Upload(Asking asking, std::string path, std::string id, std::uint64_t part_bytes)
      : asking_(std::move(asking)), path_(std::move(path)), id_(std::move(id)), part_bytes_(part_bytes) {}

  std::uint64_t part_bytes() const override { return part_bytes_; }

  Status PutPart(std::uint64_t number, ByteSpan bytes) override {
    const Query query = {{"partNumber", std::to_string(number + 1)}, {"uploadId", id_}};
    QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, asking_.Ask("PUT", path_, query, bytes));
    if (reply.status != 200) return asking_.Failure(reply, path_, {});
    if (reply.tag.empty()) return Unavailable("\"{}\": the store gives no ETag of a part", path_);
    const std::lock_guard lock(mutex_);
    if (tags_.size() <= number) tags_.resize(number + 1);
    tags_[number] = reply.tag;
    return Status::Ok();
  }

  Status Complete(std::uint64_t size, const PutCondition& condition) override {
    QUARRY_ASSIGN_OR_RETURN(const std::string parts, PartsText(size));
    QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, asking_.Ask("POST", path_, {{"uploadId", id_}},
                                                               BytesOf(parts), HeadersOf(condition)));
    if (reply.status == 404) return AfterLostAnswer(reply, size, condition);
    if (reply.status != 200) return asking_.Failure(reply, path_, condition);
    // The store answers before it has put the parts together, and may find an error afterwards.
    const S3Error error = ParseError(reply.body);
    if (error.code == "PreconditionFailed") return AlreadyExists("\"{}\" is there already", path_);
    if (error.code.empty()) return Status::Ok();
    return Unavailable("\"{}\" cannot be written: {}: {}", path_, error.code, error.message);
  }

  Status Abort() override {
    QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, asking_.Ask("DELETE", path_, {{"uploadId", id_}}, {}));
    if (reply.status / 100 == 2 || reply.status == 404) return Status::Ok();
    return asking_.Failure(reply, path_, {});
  }

 private:
  Result<std::string> PartsText(std::uint64_t size) {
    const std::lock_guard lock(mutex_);
    if (tags_.size() != (size + part_bytes_ - 1) / part_bytes_ || std::ranges::count(tags_, "") > 0)
      return InternalError("\"{}\" lacks parts", path_);
    pugi::xml_document document;
    pugi::xml_node list = document.append_child("CompleteMultipartUpload");
    for (std::size_t i = 0; i < tags_.size(); ++i) {
      pugi::xml_node part = list.append_child("Part");
      part.append_child("PartNumber").text().set(static_cast<unsigned long long>(i + 1));
      part.append_child("ETag").text().set(tags_[i].c_str());
    }
    std::ostringstream text;
    document.save(text, "", pugi::format_raw);
    return text.str();
  }

  /// The upload is gone. If this request was repeated, the first try has completed it.
  Status AfterLostAnswer(const HttpReply& gone, std::uint64_t size, const PutCondition& condition) const {
    QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, asking_.Ask("HEAD", path_, {}, {}));
    if (reply.status == 200 && reply.size == size) return AlreadyExists("\"{}\" is there already", path_);
    return asking_.Failure(gone, path_, condition);
  }

  const Asking asking_;
  const std::string path_;
  const std::string id_;
  const std::uint64_t part_bytes_;
  std::mutex mutex_;
  std::vector<std::string> tags_;  ///< one for each part; empty: it has not come
};

}  // namespace

Status S3Writer::Put(const std::string& path, ByteSpan bytes, const PutCondition& condition) const {
  const Asking asking(client_, place_);
  QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, asking.Ask("PUT", path, {}, bytes, HeadersOf(condition)));
  return reply.status / 100 == 2 ? Status::Ok() : asking.Failure(reply, path, condition);
}

Result<std::unique_ptr<Upload>> S3Writer::BeginUpload(const std::string& path, std::uint64_t most) const {
  const Asking asking(client_, place_);
  QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, asking.Ask("POST", path, {{"uploads", ""}}, {}));
  if (reply.status != 200) return asking.Failure(reply, path, {});
  QUARRY_ASSIGN_OR_RETURN(std::string id, ParseUploadId(reply.body).Annotate(fmt::format("\"{}\"", path)));
  return std::unique_ptr<Upload>(std::make_unique<S3Upload>(asking, path, std::move(id), PartBytes(most)));
}

std::uint64_t S3Writer::PartBytes(std::uint64_t most) const {
  constexpr std::uint64_t kUnit = 1 << 20;
  const std::uint64_t needed = (most + kMostParts - 1) / kMostParts;
  return std::max(kLeastPart, (needed + kUnit - 1) / kUnit * kUnit);
}

Result<std::string> S3Writer::TagOf(const std::string& path) const {
  const Asking asking(client_, place_);
  QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, asking.Ask("HEAD", path, {}, {}));
  if (reply.status != 200) return place_->Failure(reply, path, "read");
  if (reply.tag.empty()) return Unavailable("\"{}\": the store gives no ETag", path);
  return reply.tag;
}

Status S3Writer::Remove(const std::string& path) const {
  const Asking asking(client_, place_);
  QUARRY_ASSIGN_OR_RETURN(const HttpReply reply, asking.Ask("DELETE", path, {}, {}));
  if (reply.status / 100 == 2 || reply.status == 404) return Status::Ok();
  return asking.Failure(reply, path, {});
}

Result<std::uint64_t> S3Writer::RemoveLeftovers(const std::string& folder) const {
  const Asking asking(client_, place_);
  const std::string bucket = folder.substr(0, folder.find('/', folder.find("://") + 3));
  const std::string prefix = folder.substr(std::min(folder.size(), bucket.size() + 1)) + "/";
  std::uint64_t removed = 0;
  while (true) {
    QUARRY_ASSIGN_OR_RETURN(const HttpReply reply,
                            asking.Ask("GET", bucket, {{"prefix", prefix}, {"uploads", ""}}, {}));
    if (reply.status != 200) return place_->Failure(reply, folder, "listed");
    QUARRY_ASSIGN_OR_RETURN(const std::vector<S3PartialUpload> uploads, ParseUploads(reply.body, prefix));
    if (uploads.empty()) return removed;
    for (const S3PartialUpload& upload : uploads) {
      S3Upload left(asking, fmt::format("{}/{}", bucket, upload.key), upload.id, kLeastPart);
      QUARRY_RETURN_IF_ERROR(left.Abort());
      ++removed;
    }
  }
}

Status S3Writer::RenameFolder(const std::string& from, const std::string&) const {
  return Unimplemented("\"{}\": a store renames no folders", from);
}

Result<bool> S3Writer::KeepsConditions(const std::string& folder) const {
  const std::string probe = fmt::format("{}/.partial-copy-probe-{}", folder, ::getpid());
  QUARRY_RETURN_IF_ERROR(Put(probe, {}, PutCondition::Always()));
  const Status second = Put(probe, {}, PutCondition::IfAbsent());
  QUARRY_RETURN_IF_ERROR(Remove(probe));
  if (second.code() == StatusCode::kAlreadyExists) return true;
  // Some say that they have no conditions.
  if (second.ok() || second.code() == StatusCode::kUnimplemented) return false;
  return second;
}

}  // namespace quarry::remote
