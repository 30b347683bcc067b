#pragma once

#include "clients/cpp/client.h"

/// The two places where a dataset can be. Not part of the public header: it knows neither disk nor network.
namespace quarry::client::internal {

Result<std::unique_ptr<Dataset>> OpenLocal(const std::string& path, const Options& options);
Result<std::vector<DatasetSummary>> ListLocal(const std::string& path);

/// Where a server is, and how to speak to it.
struct ServerAddress {
  std::string address;  ///< HOST:PORT
  bool tls = false;
};

Result<std::unique_ptr<Dataset>> OpenRemote(const ServerAddress& server, const std::string& name,
                                            const Options& options);
Result<std::vector<DatasetSummary>> ListRemote(const ServerAddress& server, const Options& options);

}  // namespace quarry::client::internal
