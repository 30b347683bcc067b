#pragma once

#include "clients/cpp/client.h"

/// The two places where a dataset can be. Not part of the public header: it knows neither disk nor network.
namespace quarry::client::internal {

Result<std::unique_ptr<Dataset>> OpenLocal(const std::string& path, const Options& options);
Result<std::vector<DatasetSummary>> ListLocal(const std::string& path);

/// @param address  HOST:PORT
Result<std::unique_ptr<Dataset>> OpenRemote(const std::string& address, const std::string& name,
                                            const Options& options);
Result<std::vector<DatasetSummary>> ListRemote(const std::string& address, const Options& options);

}  // namespace quarry::client::internal
