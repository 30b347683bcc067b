#include "clients/cpp/grpc/seen_path.h"

#include <algorithm>
#include <map>

#include "quarry/query/encoding_choice.h"

namespace quarry::client::internal {

std::shared_ptr<SeenPath> SeenPath::To(const std::string& address, double rate_if_near) {
  static std::mutex mutex;
  static auto& paths = *new std::map<std::string, std::shared_ptr<SeenPath>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<SeenPath>& path = paths[address];
  if (!path) path = std::make_shared<SeenPath>(rate_if_near);
  return path;
}

std::optional<query::Path> SeenPath::path() const {
  const std::lock_guard lock(mutex_);
  return seen_ ? std::optional(Known()) : std::nullopt;
}

/// With the rate of a machine, if both address and round trip say that the server is on it.
query::Path SeenPath::Known() const {
  query::Path path = path_;
  if (path.rate == 0 && query::IsNear(path)) path.rate = rate_if_near_;
  return path;
}

void SeenPath::Answered(double seconds) {
  const std::lock_guard lock(mutex_);
  path_.round_trip = seen_ ? std::min(path_.round_trip, seconds) : seconds;
  seen_ = true;
}

void SeenPath::Received(const query::EncodingChoice& choice, std::uint64_t bytes, double elapsed,
                        double waited) {
  double work = 0;
  for (const query::EncodingPrice& price : choice.prices) {
    if (price.encoding == choice.encoding) work = std::max(0.0, price.work);
  }
  const std::lock_guard lock(mutex_);
  const query::Path known = Known();
  const double rate = query::RateAfter(known, bytes, elapsed, waited, work);
  // A rate that is only assumed follows the round trip.
  if (rate != query::WithRate(known).rate) path_.rate = rate;
}

}  // namespace quarry::client::internal
