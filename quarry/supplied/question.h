#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "quarry/session/session.h"
#include "quarry/supplied/supplied_storage.h"

namespace quarry::supplied {

/// An opened dataset, with the storage that only it reads: what is opened later sees new objects.
struct Opening {
  std::shared_ptr<SuppliedStorage> storage = std::make_shared<SuppliedStorage>();
  std::shared_ptr<const OpenedDataset> opened;  ///< null: not yet
};

/// A dataset on a web server, and the questions to it that a server would answer. One thread at a time.
class SuppliedDataset final : private DatasetSource {
 public:
  /// @param root    URL of the dataset
  /// @param memory  [bytes] of everything that is decoded or kept
  SuppliedDataset(std::string root, std::uint64_t memory);

  /// A question that is asked again and again, until all that it needs was supplied.
  class Question {
   public:
    enum class State {
      kWants,  ///< some of `wanted` first
      kEnded,  ///< with `status`
    };

    /// Asks with what is here.
    State Ask();

    /// Bytes that Ask has not found.
    const std::vector<Wanted>& wanted() const { return wanted_; }
    void Supply(const Wanted& wanted, Supplied supplied);
    /// See SuppliedStorage::Fail.
    void Fail(const std::string& path, Status why) { opening_->storage->Fail(path, std::move(why)); }

    /// Messages of the answer that were not taken yet.
    std::vector<std::string> TakeMessages() { return std::exchange(messages_, {}); }
    const Status& status() const { return status_; }

    ~Question();
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;

   private:
    friend class SuppliedDataset;
    class Control;
    class ReadMessages;
    class ReadSink;

    Question(SuppliedDataset* dataset, std::shared_ptr<Opening> opening, std::string method,
             std::string request)
        : dataset_(dataset),
          opening_(std::move(opening)),
          method_(std::move(method)),
          request_(std::move(request)) {}

    Status Answer();
    Status GetDataset();
    Status Read();
    Status GetStatistics();
    Status ReadPoints();
    template <typename Request>
    Status Parse(Request* request) const;

    SuppliedDataset* const dataset_;
    const std::shared_ptr<Opening> opening_;
    const std::string method_;
    const std::string request_;
    Asker asker_;
    std::vector<Wanted> wanted_;
    std::vector<std::string> messages_;
    std::string position_;  ///< in a Read, after the messages up to now; empty: it has none
    Status status_;
  };

  /// @param method   "Read"; of the service
  /// @param request  the bytes of its message, with any name of a dataset
  /// @returns does not outlive this
  std::unique_ptr<Question> Begin(const std::string& method, std::string request);

 private:
  Result<std::shared_ptr<const OpenedDataset>> Find(const std::string& name) override;
  Result<std::shared_ptr<const OpenedDataset>> Open(Opening* opening) const;

  const std::string root_;
  const std::shared_ptr<PatchStore> store_;
  ReadSession session_;
  std::shared_ptr<Opening> current_;
  Opening* asking_ = nullptr;  ///< that the present question asks
};

}  // namespace quarry::supplied
