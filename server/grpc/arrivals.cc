#include "server/grpc/arrivals.h"

#include <utility>

#include "server/peer.h"

namespace quarry::server {

const char* Arrivals::Check(const grpc_auth_context* connection) {
  std::shared_ptr<Connection> guilty;
  {
    const std::lock_guard lock(mutex_);
    ++arrived_;
    Waiting& waiting = waiting_[connection];
    const bool too_many = waiting.calls >= per_connection_;
    int& of_host = hosts_[waiting.host];
    if (!too_many && of_host < kMostOfHost && calls_ < kMost) {
      ++waiting.calls;
      ++of_host;
      ++calls_;
      return nullptr;
    }
    if (!too_many) return "too many calls are waiting for this server; ask again later";
    guilty = waiting.connection.lock();
    if (!guilty) ++waiting.refused;
  }
  if (guilty) guilty->CountFault(Connection::kOneTooMany);
  return "too many calls of this connection are waiting; ask again when some of them have ended";
}

void Arrivals::Taken(const grpc_auth_context* key, const std::shared_ptr<Connection>& connection) {
  int refused = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) return;  // forgotten before it was in the queue
    Waiting& waiting = found->second;
    if (connection && !waiting.connection.lock()) {
      hosts_[waiting.host] -= waiting.calls;
      waiting.connection = connection;
      waiting.host = AddressWithoutPort(connection->peer());
      hosts_[waiting.host] += waiting.calls;
    }
    refused = std::exchange(waiting.refused, 0);
    --calls_;
    --hosts_[waiting.host];
    if (--waiting.calls <= 0) waiting_.erase(found);
  }
  if (refused > 0 && connection) connection->CountFault(refused * Connection::kOneTooMany);
}

void Arrivals::Forget(std::uint64_t arrived) {
  const std::lock_guard lock(mutex_);
  if (arrived_ != arrived) return;  // later ones may still wait
  waiting_.clear();
  hosts_.clear();
  calls_ = 0;
}

}  // namespace quarry::server
