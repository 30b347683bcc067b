#pragma once

#include <chrono>

#include "quarry/client.h"

/// The places where a dataset can be. The interface in client.h depends on neither disk nor network.
namespace quarry::client::internal {

/// @param path  of a directory, or a URL, see remote::LocationOf
Result<std::unique_ptr<Dataset>> OpenLocal(const std::string& path, const Options& options);
Result<std::vector<DatasetSummary>> ListLocal(const std::string& path, const Options& options);

/// Waits, unless the call is cancelled. False when the caller wants no more.
bool Pause(std::chrono::milliseconds time, const CancelToken& cancel);

/// How to reach the datasets behind targets of one scheme.
struct Transport {
  std::function<Result<std::unique_ptr<Dataset>>(const std::string& target, const Options&,
                                                 const CancelToken&)>
      open;
  std::function<Result<std::unique_ptr<Reader>>(const std::string& target, const Options&)> reach;
  std::function<Result<std::vector<DatasetSummary>>(const std::string& target, const Options&,
                                                    const CancelToken&)>
      list;
};

/// Makes Dataset::Open and ListDatasets take SCHEME://... from now on. Thread-safe.
void RegisterTransport(const std::string& scheme, Transport transport);

}  // namespace quarry::client::internal
