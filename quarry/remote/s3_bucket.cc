#include "quarry/remote/s3_bucket.h"

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>

namespace quarry::remote {
namespace {

constexpr std::size_t kMostMessage = 200;

std::string WithoutEnd(std::string text, char end) {
  while (text.ends_with(end)) text.pop_back();
  return text;
}

/// Keys in lists are escaped, because XML cannot have all bytes. A "+" is a space.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

/// A bucket in a host name is a label of TLS and DNS: small letters, digits and hyphens. One with dots fits
/// no certificate.
bool IsLabel(const std::string& bucket) {
  return bucket.size() >= 3 && bucket.size() <= 63 && std::all_of(bucket.begin(), bucket.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text.substr(0, kMostMessage);
}

}  // namespace

std::string S3Bucket::Host() const {
  const std::string host = endpoint.substr(endpoint.find("://") + 3);
  return in_path ? host : fmt::format("{}.{}", name, host);
}

std::string S3Bucket::PathOf(const std::string& key) const {
  return in_path ? fmt::format("/{}/{}", EscapePath(name), EscapePath(key))
                 : fmt::format("/{}", EscapePath(key));
}

Result<S3Bucket> BucketOf(const StoreUrl& url, const Surroundings& world) {
  S3Bucket bucket;
  bucket.name = url.host;
  bucket.region = FindRegion(world).value_or("us-east-1");
  const auto specific = world.variable("AWS_ENDPOINT_URL_S3");
  const auto endpoint = specific ? specific : world.variable("AWS_ENDPOINT_URL");
  if (endpoint) {
    const Result<StoreUrl> parsed = ParseUrl(*endpoint);
    if (!parsed.ok() || parsed->scheme == StoreUrl::Scheme::kS3 || !parsed->path.empty())
      return InvalidArgument("{} must be http://HOST[:PORT] or https://HOST[:PORT]",
                             specific ? "AWS_ENDPOINT_URL_S3" : "AWS_ENDPOINT_URL");
    bucket.endpoint = WithoutEnd(*endpoint, '/');
  } else {
    bucket.endpoint = fmt::format("https://s3.{}.amazonaws.com", bucket.region);
  }
  const std::string addressing = world.variable("QUARRY_S3_ADDRESSING").value_or("");
  if (!addressing.empty() && addressing != "path" && addressing != "host")
    return InvalidArgument("QUARRY_S3_ADDRESSING is \"{}\"; set \"path\" or \"host\"", addressing);
  bucket.in_path = addressing.empty() ? endpoint || !IsLabel(bucket.name) : addressing == "path";
  bucket.requester_pays = world.variable("AWS_REQUEST_PAYER") == "requester";
  return bucket;
}

HttpRequest S3Request(const S3Bucket& bucket, std::string method, const std::string& key,
                      std::vector<std::pair<std::string, std::string>> query,
                      std::function<Credentials()> credentials) {
  HttpRequest request;
  request.method = std::move(method);
  request.waits_to_share = false;  // most stores have HTTP/1.1 alone
  const std::string path = bucket.PathOf(key);
  const std::string scheme = bucket.endpoint.substr(0, bucket.endpoint.find("://") + 3);
  request.url =
      fmt::format("{}{}{}{}{}", scheme, bucket.Host(), path, query.empty() ? "" : "?", QueryText(query));
  request.shown = fmt::format("s3://{}/{}", bucket.name, key);
  if (bucket.requester_pays) request.headers.emplace_back("x-amz-request-payer", "requester");
  request.sign = [bucket, path, query = std::move(query), credentials = std::move(credentials)](
                     const HttpRequest& of, Headers headers) {
    const Credentials keys = credentials();
    if (keys.anonymous()) return headers;
    const ToSign covered{of.method, bucket.Host(), path, query, std::move(headers), of.body};
    return Sign(covered, keys, bucket.region, "s3", std::chrono::system_clock::now());
  };
  return request;
}

std::vector<std::pair<std::string, std::string>> ListQuery(const std::string& prefix,
                                                           const std::string& token) {
  std::vector<std::pair<std::string, std::string>> query = {
      {"list-type", "2"}, {"delimiter", "/"}, {"encoding-type", "url"}, {"prefix", prefix}};
  if (!token.empty()) query.emplace_back("continuation-token", token);
  return query;
}

Result<S3Page> ParseList(ByteSpan xml, const std::string& prefix) {
  pugi::xml_document document;
  // A document type, in which entities could be declared, is skipped: pugixml expands none of them.
  const bool good = static_cast<bool>(document.load_buffer(xml.data(), xml.size(), pugi::parse_default));
  const pugi::xml_node list = document.child("ListBucketResult");
  if (!good || !list) return Unavailable("the store answers a list with something else");
  // s3s-fs 0.14 says that its names are escaped, and they are not: a prefix that would have to be shows it.
  const bool plain_prefix =
      list.child_value("Prefix") == prefix && prefix.find_first_of(" +%") != std::string::npos;
  const bool escaped = std::string_view(list.child_value("EncodingType")) == "url" && !plain_prefix;
  const auto name_of = [&](std::string_view key) -> std::optional<std::string> {
    std::string plain = escaped ? Unescaped(key) : std::string(key);
    if (!plain.starts_with(prefix)) return std::nullopt;
    plain.erase(0, prefix.size());
    return plain;
  };
  S3Page page;
  for (const pugi::xml_node entry : list.children("Contents")) {
    const std::optional<std::string> name = name_of(entry.child_value("Key"));
    if (!name) return Unavailable("the store lists a key that is not in the folder");
    // The object of the folder itself, which some tools make.
    if (name->empty() || name->ends_with('/')) continue;
    page.objects.push_back({*name, entry.child("Size").text().as_ullong(), entry.child_value("ETag"),
                            entry.child_value("LastModified")});
  }
  for (const pugi::xml_node entry : list.children("CommonPrefixes")) {
    std::optional<std::string> name = name_of(entry.child_value("Prefix"));
    if (!name || name->size() < 2 || !name->ends_with('/'))
      return Unavailable("the store lists a folder that is not in the folder");
    name->pop_back();
    page.folders.push_back(*std::move(name));
  }
  if (std::string_view(list.child_value("IsTruncated")) == "true") {
    page.next = list.child_value("NextContinuationToken");
    if (page.next.empty()) return Unavailable("the store gives a part of a list, and no way to the rest");
  }
  return page;
}

S3Error ParseError(ByteSpan body) {
  pugi::xml_document document;
  if (!document.load_buffer(body.data(), body.size(), pugi::parse_default)) return {};
  const pugi::xml_node error = document.child("Error");
  return {OneLine(error.child_value("Code")), OneLine(error.child_value("Message")),
          OneLine(error.child_value("Region")), OneLine(error.child_value("Endpoint"))};
}

Result<std::vector<S3PartialUpload>> ParseUploads(ByteSpan xml, const std::string& prefix) {
  pugi::xml_document document;
  const bool good = static_cast<bool>(document.load_buffer(xml.data(), xml.size(), pugi::parse_default));
  const pugi::xml_node list = document.child("ListMultipartUploadsResult");
  if (!good || !list) return Unavailable("the store answers a list of uploads with something else");
  std::vector<S3PartialUpload> uploads;
  for (const pugi::xml_node upload : list.children("Upload")) {
    S3PartialUpload one{upload.child_value("Key"), upload.child_value("UploadId")};
    if (one.key.starts_with(prefix)) uploads.push_back(std::move(one));
  }
  return uploads;
}

Result<std::string> ParseUploadId(ByteSpan xml) {
  pugi::xml_document document;
  const bool good = static_cast<bool>(document.load_buffer(xml.data(), xml.size(), pugi::parse_default));
  std::string id = document.child("InitiateMultipartUploadResult").child_value("UploadId");
  if (!good || id.empty()) return Unavailable("the store begins an upload without an id");
  return id;
}

Status S3Status(const HttpReply& reply, const std::string& shown, const Credentials& credentials,
                std::string_view action) {
  const S3Error error = ParseError(reply.body);
  if (reply.status == 404)
    return NotFound("\"{}\" is not there ({})", shown, error.code.empty() ? "404" : error.code);
  const std::string said = error.code.empty() ? fmt::format("status {}", reply.status)
                                              : fmt::format("{}: {}", error.code, error.message);
  if (reply.status != 401 && reply.status != 403)
    return {reply.status == 501 ? StatusCode::kUnimplemented : StatusCode::kUnavailable,
            fmt::format("\"{}\" cannot be {}: the store answers {}", shown, action, said)};
  std::string advice;
  if (credentials.anonymous()) {
    advice = fmt::format(
        "no credentials were used ({}); set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY",
        credentials.source);
  } else if (error.code == "RequestTimeTooSkewed") {
    advice = "set the clock of this machine";
  } else if (error.code == "ExpiredToken" || error.code == "InvalidToken") {
    advice = fmt::format("the session of {} has ended; log in again", credentials.source);
  } else {
    advice =
        fmt::format("credentials are those of {}; without the right to list, a missing object looks the same",
                    credentials.source);
  }
  return {StatusCode::kPermissionDenied,
          fmt::format("\"{}\" may not be {} ({}): {}", shown, action, said, advice)};
}

}  // namespace quarry::remote
