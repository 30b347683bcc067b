#pragma once

#include <cstdint>
#include <optional>

#include "quarry/answer/answer_stream.h"
#include "quarry/wire/convert.h"
#include "server/coded_sink.h"

namespace quarry::server {

/// Sends the messages of a Read by its call.
class CallMessages final : public answer::MessageSink {
 public:
  CallMessages(MessageStream* stream, Call* call) : stream_(stream), call_(call) {}
  Status Send(const Message& message, Follows follows, const std::string&) override {
    return call_->Send(stream_, message, follows);
  }

 private:
  MessageStream* const stream_;
  Call* const call_;
};

/// Sends the answers to a Read as messages, in the encoding of the request.
class AnswerMessages final : public AnswerSink {
 public:
  /// @param request  its encoding and the error that coding may add are possible
  /// @param path     of a client that leaves the encoding open
  /// @param session  its memory decides the size of messages, and keeps coded tiles
  AnswerMessages(MessageStream* stream, Call* call, const ::quarry::v1::ReadRequest& request,
                 const std::optional<query::Path>& path, const ReadSession& session)
      : message_bytes_(answer::MessageBytesFor(session.store()->state().total)),
        messages_(stream, call),
        stream_(&messages_, request.describe(), message_bytes_),
        call_(call),
        path_(path),
        wanted_(static_cast<query::AnswerEncoding>(request.encoding())),
        resumes_(!request.resume_after().empty()),
        recode_(wire::RecodeOf(request)),
        describes_(request.describe()),
        store_(session.store()),
        threads_(session.threads()),
        kept_(stream->kept()) {}

  Result<Taker> Begin(const AnswerStart& start) override;

  void Choose(const Dataset& dataset, const query::ReadPlan& plan, std::uint64_t room) override;
  bool takes_payload() const override { return encoding_ == query::AnswerEncoding::kPatches; }
  /// One message being assembled, one on its way.
  std::uint64_t memory() const override { return 2 * message_bytes_ + kept_; }
  std::uint64_t memory_of(const query::ReadPlan& plan) const override {
    return is_coded() ? CodedSink::MemoryOf(plan) : 0;
  }
  bool needs_first_patch() const override { return is_coded(); }

  Status End() override { return stream_.End(); }

 private:
  bool is_coded() const { return encoding_ == query::AnswerEncoding::kCoded; }

  const std::size_t message_bytes_;
  CallMessages messages_;
  answer::AnswerStream stream_;
  Call* const call_;
  const std::optional<query::Path> path_;
  const query::AnswerEncoding wanted_;
  bool resumes_;                                 ///< the next answer was interrupted
  query::AnswerEncoding encoding_{};             ///< encoding of the answer
  std::optional<query::EncodingChoice> choice_;  ///< why, if it was open
  const query::Recode recode_;
  const bool describes_;  ///< the client does not know the dataset
  PatchStore* const store_;
  const int threads_;
  const std::uint64_t kept_;
  std::optional<answer::SampleSink> samples_;
  std::optional<answer::PayloadStreamSink> payloads_;
  std::optional<CodedSink> coded_;
};

}  // namespace quarry::server
