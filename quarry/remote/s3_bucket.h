#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/remote/credentials.h"
#include "quarry/remote/http_client.h"
#include "quarry/remote/sign.h"
#include "quarry/remote/url.h"

namespace quarry::remote {

/// Where a bucket of an S3 store is, and how its keys become URLs.
struct S3Bucket {
  std::string name;
  std::string region;    ///< "us-east-1" where none is known
  std::string endpoint;  ///< "https://HOST[:PORT]" without the bucket
  bool in_path = false;  ///< the bucket is the first name of the path, not of the host
  bool requester_pays = false;

  std::string Host() const;
  /// Escaped, from "/" on.
  std::string PathOf(const std::string& key) const;
};

/// A bucket from the variables that the tools of Amazon know (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
/// AWS_REGION, AWS_REQUEST_PAYER) and QUARRY_S3_ADDRESSING ("path" or "host").
/// @errors kInvalidArgument: one of them is wrong
Result<S3Bucket> BucketOf(const StoreUrl& url, const Surroundings& world);

/// A request to a bucket: of an object, or with an empty key and a query of the bucket itself.
/// @param credentials  when a try begins
HttpRequest S3Request(const S3Bucket& bucket, std::string method, const std::string& key,
                      std::vector<std::pair<std::string, std::string>> query,
                      std::function<Credentials()> credentials);

/// A page of a list of keys.
struct S3Page {
  struct Object {
    std::string name;  ///< the key without the prefix
    std::uint64_t size = 0;
    std::string tag;
    std::string changed;
  };
  std::vector<Object> objects;
  std::vector<std::string> folders;  ///< without "/"
  std::string next;                  ///< token of the next page; empty: this is the last one
};

/// The query that lists what is directly in a folder.
/// @param prefix  empty, or ends with "/"
/// @param token   of the page before; empty for the first
std::vector<std::pair<std::string, std::string>> ListQuery(const std::string& prefix,
                                                           const std::string& token);

/// @errors kUnavailable: not such a list
Result<S3Page> ParseList(ByteSpan xml, const std::string& prefix);

/// The reason of a store that refuses a request.
struct S3Error {
  std::string code;     ///< "AccessDenied"; empty: none was given
  std::string message;  ///< one line, at most 200 bytes
  std::string region;
  std::string endpoint;
};
S3Error ParseError(ByteSpan body);

/// An error for a reply that is no success.
/// @param shown  URL for messages
/// @param action  what was asked for: "read", "written" or "listed"
/// @errors kNotFound: 404; kPermissionDenied: 401 and 403, with what to do; kUnimplemented: 501;
/// kUnavailable: others
Status S3Status(const HttpReply& reply, const std::string& shown, const Credentials& credentials,
                std::string_view action = "read");

/// An upload in parts that is not complete.
struct S3PartialUpload {
  std::string key;
  std::string id;
};
/// The uploads of a list whose keys begin with a prefix. @errors kUnavailable: not such a list
Result<std::vector<S3PartialUpload>> ParseUploads(ByteSpan xml, const std::string& prefix);
/// The id in the answer to the begin of an upload. @errors kUnavailable: it has none
Result<std::string> ParseUploadId(ByteSpan xml);

}  // namespace quarry::remote
