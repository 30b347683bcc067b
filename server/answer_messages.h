#pragma once

#include <cstdint>
#include <optional>

#include "quarry/wire/convert.h"
#include "server/answer_stream.h"
#include "server/coded_sink.h"

namespace quarry::server {

/// Sends the answers to a Read as messages, in the encoding of the request.
class AnswerMessages final : public AnswerSink {
 public:
  /// @param request  its encoding and the error that coding may add are possible
  /// @param store    its memory decides the size of messages; keeps coded tiles
  AnswerMessages(MessageStream* stream, Call* call, const ::quarry::v1::ReadRequest& request,
                 PatchStore* store)
      : stream_(stream, call, request.describe()),
        call_(call),
        encoding_(request.encoding()),
        recode_(wire::RecodeOf(request)),
        describes_(request.describe()),
        store_(store),
        message_bytes_(MessageBytesFor(store->state().total)),
        kept_(stream->kept()) {}

  Result<Taker> Begin(const AnswerStart& start) override;

  bool takes_payload(const FieldDescription& field, const GridDescription& grid) const override {
    return encoding_ == ::quarry::v1::ENCODING_PATCHES && (!describes_ || wire::GoesAsPatches(field, grid));
  }
  /// One message being assembled, one on its way.
  std::uint64_t memory() const override { return 2 * message_bytes_ + kept_; }
  std::uint64_t memory_of(const query::ReadPlan& plan) const override {
    return is_coded() ? CodedSink::MemoryOf(plan) : 0;
  }
  bool needs_grid_order() const override { return is_coded(); }

  Status End() override { return stream_.End(); }

 private:
  bool is_coded() const { return encoding_ == ::quarry::v1::ENCODING_CODED; }

  AnswerStream stream_;
  Call* const call_;
  const ::quarry::v1::Encoding encoding_;
  const query::Recode recode_;
  const bool describes_;  ///< the client does not know the dataset
  PatchStore* const store_;
  const std::size_t message_bytes_;
  const std::uint64_t kept_;
  std::optional<SampleSink> samples_;
  std::optional<PayloadStreamSink> payloads_;
  std::optional<CodedSink> coded_;
};

}  // namespace quarry::server
