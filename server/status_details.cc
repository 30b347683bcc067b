#include "server/status_details.h"

#include <random>

#include "google/rpc/status_details.pb.h"
#include "quarry/base/utf8.h"
#include "server/request_log.h"

namespace quarry::server {

namespace {

/// Status messages travel in trailers, twice, and clients accept 8 KiB of those: names sent with a question,
/// or the list of existing names, may be longer.
std::string Shortened(const std::string& message) {
  constexpr std::size_t kMost = 1 << 10;
  // Error details are UTF-8, whatever a file is called.
  if (message.size() <= kMost) return ToUtf8(message);
  return ToUtf8(std::string(Beginning(message, kMost)) + " ...");
}

}  // namespace

StatusDetails DetailsOf(const Status& status, const std::string& request_id) {
  if (status.ok()) return {};
  google::rpc::ErrorInfo info;
  info.set_reason(CodeName(status.code()));
  info.set_domain("quarry");
  if (!request_id.empty()) (*info.mutable_metadata())["request_id"] = request_id;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(Shortened(status.message()));
  details.add_details()->PackFrom(info);
  return {details.message(), details.SerializeAsString()};
}

std::chrono::milliseconds RetryAfter() {
  constexpr int kSoonestMs = 100;
  constexpr int kLatestMs = 500;
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::chrono::milliseconds(std::uniform_int_distribution(kSoonestMs, kLatestMs)(random));
}

}  // namespace quarry::server
