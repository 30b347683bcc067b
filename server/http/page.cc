#include "server/http/page.h"

#include <utility>

#include "quarry/base/checksum.h"
#include "quarry/storage/location.h"
#include "quarry/version.h"
#include "server/http/request.h"

namespace quarry::server::http {
namespace {

constexpr std::size_t kMostFiles = 1000;
constexpr std::uint64_t kMostBytes = 64 << 20;
constexpr std::string_view kIndex = "/index.html";

/// Nothing from elsewhere, no script in the text of a page, and no frame of another page around it.
/// @param sources  from which it may read besides
std::string PolicyWith(std::string_view sources) {
  return fmt::format(
      "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: "
      "blob:; "
      "connect-src 'self'{}; worker-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
      sources);
}

std::string WithoutPage() {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Quarry</title>\n"
      "<h1>Quarry {}</h1>\n<p>This server answers questions about boxes of simulation data. It has no viewer "
      "to "
      "show here: start it with <code>--http-page DIR</code>.</p>\n"
      "<ul>\n<li><code>POST /quarry.v1.QuarryService/METHOD</code>: the query service by gRPC-Web "
      "(docs/protocol.md)</li>\n<li><code>GET /zarr/NAME/zarr.json</code>: each dataset as a Zarr hierarchy "
      "(docs/operations.md)</li>\n<li><code>GET /healthz</code>: whether it takes requests</li>\n</ul>\n",
      kVersion);
}

/// Names in assets/ have a checksum of their contents in them.
std::string CacheControlOf(std::string_view path) {
  return path.starts_with("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
}

using Texts = std::map<std::string, std::string>;

std::uint64_t BytesOf(const Texts& texts) {
  std::uint64_t bytes = 0;
  for (const auto& [path, text] : texts) bytes += text.size();
  return bytes;
}

/// Adds the files of a folder and its folders, by their paths from "/". A link to a folder may lead back
/// here, and is passed over.
Status AddFiles(const Location& folder, const std::string& at, Texts* found) {
  QUARRY_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, folder.List());
  for (const FolderEntry& entry : entries) {
    const std::string path = fmt::format("{}/{}", at, entry.name);
    if (entry.kind == ObjectKind::kFolder && !entry.is_link)
      QUARRY_RETURN_IF_ERROR(AddFiles(folder / entry.name, path, found));
    if (entry.kind != ObjectKind::kFile) continue;
    QUARRY_ASSIGN_OR_RETURN((*found)[path], (folder / entry.name).ReadText(kMostBytes));
    if (found->size() > kMostFiles || BytesOf(*found) > kMostBytes)
      return InvalidArgument(
          "\"{}\" exceeds the limit of {} files and {} bytes for a page; give the folder of the page",
          folder / entry.name, kMostFiles, kMostBytes);
  }
  return Status::Ok();
}

}  // namespace

/// Headers that restrict the page in a browser.
Headers Page::RestrictingHeaders() const {
  return {{"content-security-policy", PolicyWith(sources_)},
          {"cross-origin-opener-policy", "same-origin"},
          {"referrer-policy", "no-referrer"},
          {"x-content-type-options", "nosniff"}};
}

Result<Page> Page::Load(const std::filesystem::path& folder, const std::vector<std::string>& sources) {
  Page page;
  for (const std::string& source : sources) page.sources_ += " " + source;
  Texts found;
  QUARRY_RETURN_IF_ERROR(AddFiles(folder, "", &found));
  if (!found.contains(std::string(kIndex)))
    return NotFound("\"{}\" holds no page: index.html is missing", folder.string());
  for (auto& [path, text] : found) {
    if (path.ends_with(".gz") && found.contains(path.substr(0, path.size() - 3))) continue;
    File& file = page.files_[path];
    file.tag = fmt::format("\"{}\"", ChecksumText(Checksum(std::as_bytes(std::span(text)))));
    file.bytes = OwnBytes(std::move(text));
    if (const auto compressed = found.find(path + ".gz"); compressed != found.end())
      file.compressed = OwnBytes(compressed->second);
  }
  return page;
}

std::unique_ptr<Answer> Page::Find(const std::string& path, const Request& request) const {
  const auto found = files_.find(path == "/" ? std::string(kIndex) : path);
  if (found == files_.end()) {
    if (path != "/") return nullptr;
    Answer said{200, RestrictingHeaders(), OwnBytes(WithoutPage()), 0};
    said.headers.emplace_back("content-type", "text/html; charset=utf-8");
    said.headers.emplace_back("cache-control", "no-store");
    return std::make_unique<Answer>(std::move(said));
  }
  const auto& [name, file] = *found;
  const bool gzip =
      !file.compressed.bytes.empty() && TakesGzip(request.Header("accept-encoding").value_or(""));
  // Two bodies of one path are two things to a cache.
  const std::string tag = gzip ? file.tag.substr(0, file.tag.size() - 1) + "-gzip\"" : file.tag;
  Answer answer{200, RestrictingHeaders(), gzip ? file.compressed : file.bytes, 0};
  answer.headers.emplace_back("etag", tag);
  answer.headers.emplace_back("cache-control", CacheControlOf(name));
  if (!file.compressed.bytes.empty()) answer.headers.emplace_back("vary", "accept-encoding");
  if (HasTag(request.Header("if-none-match").value_or(""), tag)) {
    answer.status = 304;
    answer.body = {};
    return std::make_unique<Answer>(std::move(answer));
  }
  answer.headers.emplace_back("content-type", MediaTypeOf(name));
  if (gzip) answer.headers.emplace_back("content-encoding", "gzip");
  return std::make_unique<Answer>(std::move(answer));
}

}  // namespace quarry::server::http
