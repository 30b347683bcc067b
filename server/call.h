#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "quarry/session/session.h"
#include "server/damage_log.h"
#include "server/dataset_catalog.h"
#include "server/guard/client_shares.h"
#include "server/guard/deadline_watch.h"
#include "server/metrics.h"
#include "server/peer.h"
#include "server/request_log.h"
#include "server/tokens.h"

namespace quarry::server {

/// Limits of one call, for every client. 0: no limit.
struct CallLimits {
  int calls = 0;                      ///< most that run at the same time
  std::chrono::milliseconds time{0};  ///< for the whole answer
  std::uint64_t request_bytes = 0;    ///< most payload that one read may need, and most that it may send
  std::chrono::milliseconds grace{
      5000};  ///< beyond `time`, for a client that takes no messages to be cut off
  std::chrono::milliseconds stall{60'000};  ///< for a client to take one message
  std::uint64_t plan_bytes =
      16 << 20;  ///< limit of a plan: with many steps it may list very many boxes left out
};

/// Shared by all calls of a server: limits, access rights, the log and the metrics.
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

  /// While the transport has a message. @param cut  called if the client does not take it in time
  [[nodiscard]] DeadlineWatch::Entry WatchMessage(std::function<void()> cut) {
    if (limits.stall.count() == 0) return {};
    return deadlines.Add(DeadlineWatch::Clock::now() + limits.stall, std::move(cut));
  }
};

/// The question of a call, which must come within ten seconds.
/// @param most  [bytes] of it
/// @errors those of MessageStream::Receive
Result<std::string> ReceiveQuestion(Operations* operations, Peer* peer, MessageStream* stream,
                                    std::size_t most);

/// One call from its arrival to its end: has an id that the client sees, may be refused, is logged and
/// counted. One thread at a time.
class Call final : public RequestControl {
 public:
  /// @param peer  outlives the call
  Call(Operations* operations, Peer* peer, std::string method);
  ~Call() override;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Whether the client may ask at all: decided before its question is read.
  /// @errors kUnauthenticated; kResourceExhausted: too many calls run, of all clients or of this one;
  /// kUnavailable: the server is stopping
  Status Enter();

  /// Names the dataset of the question. @errors kPermissionDenied, also for datasets that do not exist; those
  /// of DatasetCatalog::NameOf
  Status AskFor(const std::string& dataset, DatasetCatalog* catalog);

  /// For long calls: whether the client may still ask, by the current tokens.
  /// @errors kUnauthenticated, kPermissionDenied
  Status CheckAccess(DatasetCatalog* catalog);

  /// For calls that wait for events, as long as the client likes: stops the server's time limit ...
  void StopClock();
  /// ... and starts it anew.
  void StartClock();

  /// After Enter: whether the client may know of a dataset of the catalog.
  bool Allows(const std::string& dataset) const;

  /// Charges the demand to the client until the call ends.
  /// @errors kResourceExhausted with the numbers, and what to ask for instead
  Status Admit(const Demand& demand) override;

  /// True after a cancellation by the client, a passed deadline of the client or of the server, or the end of
  /// a drain. Cheap enough to call between patches. Several threads at a time, while nothing is sent.
  bool Cancelled() override;

  std::uint64_t client() const override { return client_; }

  /// Counts damaged payload, and logs it the first time.
  void Damaged(const Status& what) override;

  /// Sends a message of the answer, and counts it.
  /// @errors kCancelled: the client has gone, or took nothing for too long and was cut off
  Status Send(MessageStream* stream, const Message& message, Follows follows = Follows::kLater);
  void CountPatches(std::uint64_t patches) override { record_.patches += patches; }
  /// Counts a tile that was coded for the answer.
  void CountTile() { ++record_.tiles; }
  void Hold(PatchStore::Memory memory) override { held_ = std::move(memory); }

  /// The quarry-request-id that the client sees.
  const std::string& id() const { return record_.id; }

  /// The status to answer with: a call that was ended for its time, or as its client took nothing, says so.
  Status Conclude(Status status) const;
  /// Logs and counts. Must come last: what is left is the answer to be taken, which has a place of its own
  /// among those of its client until the call is destroyed.
  void End(const Status& status);

 private:
  Status Authenticate();
  Status CheckDataset(DatasetCatalog* catalog);
  bool PastTime() const;
  std::string Client() const;

  Operations* const operations_;
  Peer* const peer_;
  const std::chrono::steady_clock::time_point begin_;
  std::optional<std::chrono::steady_clock::time_point> clock_;  ///< start of the time limit
  RequestRecord record_;
  std::uint64_t client_ = 0;  ///< checksum of Client
  std::shared_ptr<const Access> access_;
  ClientShares::Share share_;
  PatchStore::Memory held_;  ///< memory of the answer
  DeadlineWatch::Entry deadline_;
  std::mutex asking_;  ///< Cancelled is asked by threads that wait for a storage, too
  std::chrono::steady_clock::time_point asked_;  ///< when the peer was last asked whether it has gone
  bool gone_ = false;                            ///< its last answer
  std::atomic<bool> stalled_ = false;            ///< a message was not taken in time
  bool ended_ = false;
};

}  // namespace quarry::server
