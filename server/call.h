#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "quarry/query/plan.h"
#include "server/catalogue.h"
#include "server/client_shares.h"
#include "server/damage_log.h"
#include "server/deadline_watch.h"
#include "server/metrics.h"
#include "server/request_log.h"
#include "server/tokens.h"

namespace quarry::server {

/// What one call may take, whoever asks. 0: no limit.
struct CallLimits {
  int calls = 0;                      ///< most that run at a time
  std::chrono::milliseconds time{0};  ///< for the whole answer
  std::uint64_t request_bytes = 0;    ///< most payload that one read may need, and most that it may send
  std::chrono::milliseconds grace{
      5000};  ///< beyond `time`, for a client that takes no messages to be cut off
  std::uint64_t plan_bytes = 16 << 20;  ///< of a plan: that of many steps may list very many parts left out
};

/// What all calls of a server share: limits, who may ask, the log and the figures.
struct Operations {
  CallLimits limits;
  std::shared_ptr<const TokenStore> tokens;  ///< null: everybody may ask for everything
  std::shared_ptr<ServerLog> log;            ///< null: requests are not logged
  Metrics metrics;
  DeadlineWatch deadlines;
  ClientShares clients;
  DamageLog damage;
  std::atomic<int> running = 0;
  std::atomic<bool> draining = false;  ///< new calls are refused
};

/// One call from its arrival to its end: has an id that the client sees, may be refused, is logged and
/// counted. One thread at a time.
class Call {
 public:
  Call(Operations* operations, grpc::ServerContext* context, std::string method, std::string dataset);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Whether the client may ask at all, and for the dataset that the call names, if it does.
  /// @errors kUnauthenticated; kPermissionDenied, also for datasets that are not there; kResourceExhausted:
  /// too many calls run, of all clients or of this one; kUnavailable: the server stops
  Status Admit(Catalogue* catalogue);

  /// For calls that were admitted before their question was there: which dataset it is about.
  /// @errors kPermissionDenied
  Status AskFor(const std::string& dataset, Catalogue* catalogue);

  /// For calls that go on for long: whether the client may still ask, with the tokens that there are now.
  /// @errors kUnauthenticated, kPermissionDenied
  Status CheckAccess(Catalogue* catalogue);

  /// For calls that wait for something to happen, for as long as the client likes: the server's time limit does
  /// not count from here on ...
  void StopClock();
  /// ... and counts anew from here on.
  void StartClock();

  /// After Admit: whether the client may know of a dataset of the catalogue.
  bool Allows(const std::string& dataset) const;

  /// Asked before anything is fetched. The price counts for the client until the call ends.
  /// @errors kResourceExhausted with the numbers, and what to ask instead
  Status CheckPrice(const query::ReadPlan& plan);

  /// The same for calls that read without a plan. [bytes]
  /// @param payload  to be read from files
  /// @param reply  samples, or whatever the answer is made of
  /// @param advice  what finishes "ask for ..."
  Status CheckPrice(std::uint64_t payload, std::uint64_t reply, const std::string& advice);

  /// True after a cancellation by the client, a passed deadline of the client or of the server, or the end of
  /// a drain. Cheap enough to be asked between patches.
  bool Cancelled();

  /// Counts payload that was found damaged, and logs it the first time.
  void Damaged(const Status& what);

  void CountSent(std::uint64_t bytes) { record_.bytes += bytes; }
  void CountPatches(std::uint64_t patches) { record_.patches += patches; }

  /// The last word: what gRPC is to answer. Logs and counts.
  grpc::Status End(Status status);

 private:
  Status Authenticate();
  Status CheckDataset(Catalogue* catalogue) const;
  bool PastTime() const;
  std::string Client() const;

  Operations* const operations_;
  grpc::ServerContext* const context_;
  const std::chrono::steady_clock::time_point begin_;
  std::optional<std::chrono::steady_clock::time_point> clock_;  ///< since when the time limit counts
  RequestRecord record_;
  std::shared_ptr<const Access> access_;
  ClientShares::Share share_;
  DeadlineWatch::Entry deadline_;
  std::chrono::steady_clock::time_point asked_;  ///< gRPC, whether the call was cancelled
  bool ended_ = false;
};

}  // namespace quarry::server
