#include "quarry/remote/place.h"

namespace quarry::remote {
namespace {

class WebFolder final : public Place {
 public:
  explicit WebFolder(std::string query) : query_(std::move(query)) {}

  Result<HttpRequest> Request(const std::string& method, const std::string& path) override {
    HttpRequest request;
    request.method = method;
    const std::size_t host = path.find("://") + 3;
    const std::size_t slash = std::min(path.find('/', host), path.size());
    request.url = path.substr(0, slash) + EscapePath(path.substr(slash));
    if (!query_.empty()) request.url += "?" + query_;
    request.shown = path;
    return request;
  }

  Result<HttpRequest> RequestWith(const std::string&, const std::string& path,
                                  std::vector<std::pair<std::string, std::string>>) override {
    return Unimplemented("\"{}\" cannot be written: web servers are read alone", path);
  }

  Status Failure(const HttpReply& reply, const std::string& path, std::string_view action) override {
    if (reply.status == 404 || reply.status == 410)
      return NotFound("\"{}\" is not there (status {})", path, reply.status);
    if (reply.status == 401 || reply.status == 403)
      return {StatusCode::kPermissionDenied,
              fmt::format("\"{}\" may not be {} (status {}): {}", path, action, reply.status,
                          query_.empty() ? "the server wants a login, which a URL cannot give"
                                         : "the signature in the URL may have ended; ask for a new one")};
    return Unavailable("\"{}\" cannot be {}: the server answers {}", path, action, reply.status);
  }

  bool has_lists() const override { return false; }
  Result<std::vector<FolderEntry>> List(HttpClient*, const std::string& folder) override {
    return Unimplemented("\"{}\" cannot be listed: web servers have no lists of files", folder);
  }

 private:
  const std::string query_;
};

}  // namespace

std::unique_ptr<Place> WebPlace(std::string query) { return std::make_unique<WebFolder>(std::move(query)); }

}  // namespace quarry::remote
