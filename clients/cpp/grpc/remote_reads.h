#pragma once

#include <memory>
#include <optional>
#include <string>

#include "clients/cpp/grpc/answer_receiver.h"
#include "clients/cpp/grpc/connection.h"

namespace quarry::client::internal {

/// The description of a dataset of a server.
Result<SharedDescription> FetchDescription(const Connection& connection, const std::string& dataset,
                                           const CancelToken& cancel);

/// Reads from one dataset of a server, whether its description is known or not. Thread-safe.
class RemoteReads {
 public:
  RemoteReads(std::shared_ptr<const Connection> connection, std::string name)
      : connection_(std::move(connection)), name_(std::move(name)), pool_(connection_->threads()) {}

  /// See Dataset::ReadSeries. @param known  with all fields of the request that exist; null: the answers
  /// describe their fields
  Status Read(const query::SeriesRequest& request, const SharedDescription& known,
              const LevelCallback& on_level, const CallOptions& call) const;

 private:
  Result<std::optional<Status>> ReadOnce(const ::quarry::v1::ReadRequest& request,
                                         std::unique_ptr<grpc::ClientContext> context,
                                         AnswerReceiver* receiver, const CancelToken& cancel) const;

  const std::shared_ptr<const Connection> connection_;
  const std::string name_;
  mutable DecodePool pool_;  ///< for answers in patches and tiles
};

}  // namespace quarry::client::internal
