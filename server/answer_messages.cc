#include "server/answer_messages.h"

#include <array>
#include <memory>
#include <vector>

#include "quarry/dataset/patch_keys.h"
#include "quarry/query/encoding_choice.h"

namespace quarry::server {
namespace {

/// The mark of an answer that went as patches.
PatchKey MarkOf(const query::ReadPlan& plan) {
  constexpr std::int32_t kMark = -200;  // neither patches nor tiles nor manifests have such a level
  PatchKey key;
  key.content = query::Fingerprint(plan);
  key.level = kMark;
  return key;
}

}  // namespace

/// Patches leave nothing decoded at the server. So an answer that is asked for again, after it went as
/// patches, is decoded for the readers after it: that work does not count.
void AnswerMessages::Choose(const Dataset& dataset, const query::ReadPlan& plan, std::uint64_t room) {
  const std::size_t field = plan.query.field_number;
  const bool as_patches =
      wire::GoesAsPatches(dataset.description().fields[field], dataset.description().GridOf(field));
  choice_.reset();
  encoding_ = wanted_;
  if (path_ && !resumes_) {
    const bool again = store_->Has(std::array{MarkOf(plan)}).front();
    const double decoded = again ? 1 : StoredShare(dataset, plan, *store_);
    const bool as_tiles = CodedSink::MemoryOf(plan) <= room;
    choice_ = query::ChooseEncoding(plan, {*path_, threads_, decoded, as_patches, as_tiles});
    encoding_ = choice_->encoding;
  } else if (takes_payload() && describes_ && !as_patches) {
    encoding_ = query::AnswerEncoding::kSamples;
  }
}

Result<AnswerSink::Taker> AnswerMessages::Begin(const AnswerStart& start) {
  resumes_ = false;
  if (is_coded()) {
    const std::vector<query::CodedError> errors = query::CodedErrors(start.plan, recode_);
    QUARRY_RETURN_IF_ERROR(stream_.Begin(start, choice_, errors));
    coded_.emplace(&stream_, store_, call_, start, errors);
    return Taker(&*coded_);
  }
  QUARRY_RETURN_IF_ERROR(stream_.Begin(start, choice_));
  if (takes_payload()) {
    constexpr std::uint64_t kMarkBytes = 256;
    if (choice_)
      (void)store_->Share(MarkOf(start.plan), RequesterOf(call_), []() -> Result<PatchStore::Loaded> {
        return PatchStore::Loaded{std::make_shared<const bool>(true), kMarkBytes};
      });
    payloads_.emplace(&stream_, start.plan, start.from);
    return Taker(&*payloads_);
  }
  samples_.emplace(&stream_, start.plan, start.from);
  return Taker(&*samples_);
}

}  // namespace quarry::server
