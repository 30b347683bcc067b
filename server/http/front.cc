#include "server/http/front.h"

#include <algorithm>
#include <utility>

#include "quarry/base/utf8.h"
#include "server/http/grpc_web.h"

namespace quarry::server::http {
namespace {

constexpr const char* kMethods = "GET, HEAD, POST, OPTIONS";
constexpr std::string_view kZarr = "/zarr/";

Answer NoMethod(std::string_view method, const char* allowed) {
  return Answer::Say(405,
                     fmt::format("the method {} is not allowed here; use {}", Beginning(method, 20), allowed),
                     {{"allow", allowed}});
}

/// Facts about the server that its page cannot know.
Answer DescribeServer(int grpc_port) {
  Headers headers{{"content-type", "application/json"},
                  {"cache-control", "no-store"},
                  {"x-content-type-options", "nosniff"}};
  return {200, std::move(headers), OwnBytes(fmt::format("{{\"grpc_port\": {}}}\n", grpc_port)), 0};
}

std::string HeaderOf(const Request& request, std::string_view name) {
  return std::string(request.Header(name).value_or(""));
}

}  // namespace

Front::Front(FrontOptions options, Page page, Service* service)
    : options_(std::move(options)),
      page_(std::move(page)),
      service_(service),
      zarr_(service, !options_.mutual) {}

Front::~Front() = default;

std::optional<Answer> Front::AnswerNow(const Request& request, const std::string& path,
                                       Headers* headers) const {
  AddCrossOrigin(request, headers);
  if (auto refused = CheckCaller(request)) return refused;
  const std::string_view method = request.method();
  if (method == "OPTIONS") return AnswerPreflight(request);
  if (method == "POST") return AnswerPost(request, path);
  if (method != "GET" && method != "HEAD") return NoMethod(method, kMethods);
  if (MethodOf(path)) return NoMethod(method, "POST");
  if (path == "/healthz") {
    if (service_->operations()->draining) return Answer::Say(503, "the server is stopping");
    return Answer::Say(200, "ok");
  }
  if (path.starts_with(kZarr)) return std::nullopt;
  if (path == "/server.json" && options_.grpc_port != 0) return DescribeServer(options_.grpc_port);
  if (const auto file = page_.Find(path, request)) return *file;
  return Answer::Say(404, fmt::format("there is no \"{}\" here", Beginning(path, 200)));
}

/// A page whose name was made to lead to this machine sends that name, and is not to read. One from elsewhere
/// is not to make this server work.
std::optional<Answer> Front::CheckCaller(const Request& request) const {
  if (request.Count("host") > 1 || (request.Count("host") == 0 && !request.is_old()))
    return Answer::Say(400, "the request has no header Host, or several");
  const std::string host = HeaderOf(request, "host");
  if (options_.loopback && !host.empty() && !IsKnownHost(HostOf(host))) {
    return Answer::Say(421,
                       fmt::format("there is no server for \"{}\" here: one that listens on this machine "
                                   "alone answers as localhost; see --http and --http-cors",
                                   Beginning(host, 100)));
  }
  const auto origin = request.Header("origin");
  if (request.method() != "POST" || !origin || AuthorityOf(*origin) == AuthorityOf("//://" + host) ||
      !AllowedOrigin(request).empty())
    return std::nullopt;
  return Answer::Say(403, fmt::format("pages of \"{}\" may not ask this server; --http-cors allows them to",
                                      Beginning(*origin, 100)));
}

bool Front::IsKnownHost(std::string_view host) const {
  return IsOwnName(host) || std::ranges::any_of(options_.origins, [&](const std::string& origin) {
           return HostOf(AuthorityOf(origin)) == host;
         });
}

std::string Front::AllowedOrigin(const Request& request) const {
  const std::string origin = HeaderOf(request, "origin");
  if (origin.empty()) return "";
  for (const std::string& allowed : options_.origins)
    if (allowed == "*" || allowed == origin) return allowed;
  return "";
}

void Front::AddCrossOrigin(const Request& request, Headers* headers) const {
  if (options_.origins.empty()) {
    headers->emplace_back("cross-origin-resource-policy", "same-origin");
    return;
  }
  headers->emplace_back("vary", "origin");
  const std::string origin = AllowedOrigin(request);
  headers->emplace_back("cross-origin-resource-policy", origin.empty() ? "same-origin" : "cross-origin");
  if (origin.empty()) return;
  headers->emplace_back("access-control-allow-origin", origin);
  headers->emplace_back("access-control-expose-headers",
                        "accept-ranges, content-range, etag, grpc-message, grpc-status, "
                        "grpc-status-details-bin, quarry-request-id");
}

/// Answers a browser's preflight request for a page of another origin.
Answer Front::AnswerPreflight(const Request& request) const {
  Answer answer{204, {}, {}};
  answer.headers.emplace_back("allow", kMethods);
  if (AllowedOrigin(request).empty()) return answer;
  answer.headers.emplace_back("access-control-allow-methods", "GET, HEAD, POST");
  answer.headers.emplace_back("access-control-allow-headers",
                              "authorization, content-type, grpc-timeout, if-none-match, if-range, "
                              "quarry-request-id, range, x-grpc-web, x-user-agent");
  answer.headers.emplace_back("access-control-max-age", "600");
  if (request.Header("access-control-request-private-network"))
    answer.headers.emplace_back("access-control-allow-private-network", "true");
  return answer;
}

std::optional<Answer> Front::AnswerPost(const Request& request, const std::string& path) const {
  if (!MethodOf(path))
    return Answer::Say(404, fmt::format("\"{}\" does not accept POST", Beginning(path, 200)));
  // A page of another origin can send this type only after it was allowed to.
  if (!IsGrpcWeb(request.Header("content-type").value_or("")))
    return Answer::Say(415, fmt::format("calls come as {}", kGrpcWebType));
  return std::nullopt;
}

void Front::Run(Exchange* exchange) {
  if (exchange->path.starts_with(kZarr)) return zarr_.Run(exchange->path.substr(kZarr.size()), exchange);
  const std::string method = MethodOf(exchange->path).value_or("");
  HttpCall call(exchange, service_->operations());
  service_->Answer(method, &call, &call);
}

}  // namespace quarry::server::http
