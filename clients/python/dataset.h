#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "clients/python/background.h"
#include "clients/python/translate.h"
#include "quarry/client.h"
#include "quarry/places.h"

/// An open dataset, as Python holds it.
namespace quarry::python {

/// Something of the process that made it. Another one, forked from it, can neither use nor destroy it.
template <typename T>
class OfProcess {
 public:
  explicit OfProcess(std::shared_ptr<T> value) : value_(std::move(value)) {}
  ~OfProcess() {
    if (process_ != getpid()) new std::shared_ptr<T>(std::move(value_));  // NOLINT: leaked
  }
  OfProcess(const OfProcess&) = delete;
  OfProcess& operator=(const OfProcess&) = delete;

  const std::shared_ptr<T>& get() const {
    if (process_ == getpid()) return value_;
    throw StatusError{
        FailedPrecondition("this was opened by process {}, of which this one, {}, is a fork; open it "
                           "again here",
                           process_, getpid())};
  }

 private:
  std::shared_ptr<T> value_;
  const pid_t process_ = getpid();
};

/// A question, and how its answer is sent.
struct Question : query::ReadRequest {
  std::optional<client::Transfer> transfer;  ///< left out: that of the dataset
};

/// A dataset of this process.
class Dataset {
 public:
  Dataset(std::shared_ptr<client::Dataset> dataset, bool remote)
      : dataset_(std::move(dataset)), remote_(remote) {}

  const DatasetDescription& description() const { return dataset_.get()->description(); }
  std::shared_ptr<client::Dataset> share() const { return dataset_.get(); }

  /// Runs a call of the client.
  template <typename Call>
  auto Run(bool brief, const Call& call) const {
    const std::shared_ptr<client::Dataset> dataset = dataset_.get();
    client::CallOptions options;
    options.cancel = CancelToken::Create();
    // Nothing ends a wait for a server but the token.
    return RunInBackground(options.cancel, brief && !remote_, [&] { return call(*dataset, options); });
  }

  /// Where the samples of a field lie. The last coordinates that were read are kept: reading them takes
  /// longer than most questions by them.
  Result<client::Places> PlacesOf(const std::string& field, std::optional<std::uint64_t> step,
                                  const client::CallOptions& options) const {
    constexpr std::uint64_t kKept = std::uint64_t{256} << 20;
    client::Places known;
    {
      const std::lock_guard lock(places_mutex_);
      known = places_;
    }
    Result<client::Places> places = client::Places::Of(*dataset_.get(), field, step, options, known);
    if (places.ok() && places->bytes() > 0 && places->bytes() <= kKept) {
      const std::lock_guard lock(places_mutex_);
      places_ = *places;
    }
    return places;
  }

 private:
  const OfProcess<client::Dataset> dataset_;
  const bool remote_;
  mutable std::mutex places_mutex_;
  mutable client::Places places_;
};

}  // namespace quarry::python
