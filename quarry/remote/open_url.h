#pragma once

#include <string>

#include "quarry/base/status.h"
#include "quarry/disk_cache/disk_cache.h"
#include "quarry/storage/location.h"
#include "quarry/storage/writable_storage.h"

namespace quarry::remote {

/// How URLs are opened.
struct UrlOptions {
  bool allow_http = false;   ///< plain HTTP, beyond this machine
  disk_cache::Choice cache;  ///< a cache on disk of what is read there
};

/// The location that a text names: a URL (http://, https://, s3://) in a storage of its server, anything else
/// in the file system. Opens nothing. All URLs of a process share connections.
/// Variables of the environment: those of the tools of Amazon, see FindCredentials and BucketOf;
/// QUARRY_S3_ANONYMOUS=1 sends no credentials, QUARRY_S3_INSTANCE_METADATA=1 asks the service of virtual
/// machines; AWS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE names a file of certificates; QUARRY_CACHE and
/// QUARRY_CACHE_SIZE, see disk_cache::Choice.
/// @errors kInvalidArgument: the URL or a variable is wrong; kUnimplemented: see LoadCurl
Result<Location> LocationOf(const std::string& text, const UrlOptions& options);

/// The same place for writing.
/// @errors besides: kInvalidArgument: a web server, which nothing can be written to
Result<std::shared_ptr<const WritableStorage>> WriterOf(const std::string& text, bool allow_http);

}  // namespace quarry::remote
