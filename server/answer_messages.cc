#include "server/answer_messages.h"

#include <vector>

namespace quarry::server {

Result<AnswerSink::Taker> AnswerMessages::Begin(const AnswerStart& start) {
  if (is_coded()) {
    const std::vector<query::CodedError> errors = query::CodedErrors(start.plan, recode_);
    QUARRY_RETURN_IF_ERROR(stream_.Begin(start, errors));
    coded_.emplace(&stream_, message_bytes_, store_, call_, start, errors);
    return Taker(&*coded_);
  }
  QUARRY_RETURN_IF_ERROR(stream_.Begin(start));
  if (takes_payload(start.field, start.dataset.description().GridOf(start.field))) {
    payloads_.emplace(&stream_, message_bytes_, start.plan, start.from);
    return Taker(&*payloads_);
  }
  samples_.emplace(&stream_, message_bytes_, start.plan, start.from);
  return Taker(&*samples_);
}

}  // namespace quarry::server
