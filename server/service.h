#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/session/session.h"
#include "quarry/v1/service.pb.h"
#include "server/call.h"
#include "server/dataset_catalog.h"
#include "server/dataset_lists.h"
#include "server/peer.h"

namespace quarry::server {

/// Full name of the service in proto/quarry/v1/service.proto, as in health checks and paths.
inline constexpr const char* kServiceName = "quarry.v1.QuarryService";

/// "/quarry.v1.QuarryService/Read" -> "Read"; nothing for the methods of other services.
std::optional<std::string> MethodOf(const std::string& path);

/// Memory and threads of a server's reads, see ReadEngine.
struct EngineOptions {
  std::uint64_t memory_bytes = 0;
  int threads = 0;
  std::size_t queue = SIZE_MAX;
};

/// Every method of the service, for any transport: admission, messages to questions, answers to messages.
/// Thread-safe.
class Service {
 public:
  /// @param operations  limits, tokens, log and metrics; outlives the service
  /// @param look_every  how often to look at a dataset whose steps are watched
  Service(DatasetCatalogOptions catalog, const EngineOptions& engine, Operations* operations,
          std::chrono::milliseconds look_every = std::chrono::milliseconds(1000));

  /// Answers one call, with its status: blocks until the client has it, has gone, or is cut off. Never
  /// throws.
  /// @param method  "Read"
  void Answer(const std::string& method, Peer* peer, MessageStream* stream);

  /// The same for an answer that a front makes itself: whatever takes a thread or memory comes through here.
  /// @param name  of the call, for the log and the metrics
  /// @param work  asks the call for its dataset, and sends the answer by it
  void Answer(const std::string& name, Peer* peer, MessageStream* stream,
              const std::function<Status(Call*)>& work);

  /// Opens every dataset anew when it is asked for next, whatever its files say.
  void Forget();

  DatasetCatalog& catalog() { return catalog_; }
  const PatchStore& store() const { return *store_; }
  /// See PatchStore::OnLargeRelease.
  void OnLargeRelease(std::function<void()> call) { store_->OnLargeRelease(std::move(call)); }
  Operations* operations() const { return operations_; }

 private:
  /// A method that answers with one message, and leaves its bytes in the string.
  template <typename Request>
  using Unary = Status (Service::*)(Request*, Call*, std::string*);

  Status ForClient(const Status& status) const;
  Status Dispatch(const std::string& method, Peer* peer, MessageStream* stream, Call* call);
  template <typename Request>
  Status AnswerOnce(Unary<Request> method, Peer* peer, MessageStream* stream, Call* call);
  /// The question of an admitted call, on a dataset that the client may ask about.
  /// @param memory  of the question, if it may be large
  template <typename Request>
  Status Ask(Peer* peer, MessageStream* stream, Call* call, Request* request, PatchStore::Memory* memory);
  template <typename Make>
  Status AnswerPage(Call* call, std::uint64_t besides, const Make& make, std::string* answer);

  Status ListDatasets(::quarry::v1::ListDatasetsRequest* request, Call* call, std::string* answer);
  Status GetDataset(::quarry::v1::GetDatasetRequest* request, Call* call, std::string* answer);
  Status PlanRead(::quarry::v1::PlanReadRequest* request, Call* call, std::string* answer);
  Status GetStatistics(::quarry::v1::GetStatisticsRequest* request, Call* call, std::string* answer);
  Status ReadPoints(::quarry::v1::ReadPointsRequest* request, Call* call, std::string* answer);
  Status Read(const ::quarry::v1::ReadRequest& request, Call* call, MessageStream* stream);
  Status WatchSteps(const ::quarry::v1::WatchStepsRequest& request, Call* call, MessageStream* stream);

  const std::shared_ptr<PatchStore> store_;
  const std::vector<std::string>
      hidden_;  ///< folders of the server whose paths stay with it, the longest first
  DatasetCatalog catalog_;
  DatasetLists lists_;
  ReadSession session_;
  Operations* const operations_;
  const std::chrono::milliseconds look_every_;
};

}  // namespace quarry::server
