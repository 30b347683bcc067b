#include "clients/cpp/answer_receiver.h"

#include <algorithm>

#include "quarry/wire/convert.h"

namespace quarry::client::internal {

namespace pb = ::quarry::v1;

Status AnswerReceiver::Take(const grpc::ByteBuffer& message) {
  QUARRY_RETURN_IF_ERROR(ParseAnswer(message, this));
  if (!assembler_) return InternalError("the server's answer does not begin with a header");
  return Status::Ok();
}

Status AnswerReceiver::Header(const pb::ReadHeader& message) {
  QUARRY_ASSIGN_OR_RETURN(query::AnswerHeader header, wire::FromProto(message));
  if (header.field.empty()) header.field = request_.read.field;
  QUARRY_RETURN_IF_ERROR(CheckHeader(header));
  if (begun_ && header.number == header_.number) {
    const auto same = [](const query::LevelExtent& a, const query::LevelExtent& b) {
      return a.level == b.level && a.extent == b.extent && a.spacing == b.spacing;
    };
    const bool goes_on = header.field == header_.field && header.type == header_.type &&
                         header.step == header_.step && header.left_out == header_.left_out &&
                         std::ranges::equal(header.levels, header_.levels, same);
    return goes_on ? Status::Ok() : InternalError("the server goes on with another answer");
  }
  if (begun_) QUARRY_RETURN_IF_ERROR(assembler_->CheckComplete());
  if (header.number != (begun_ ? header_.number + 1 : 0) || header.number >= header.count)
    return InternalError("the server sends answer {} of {} out of order", header.number, header.count);
  QUARRY_ASSIGN_OR_RETURN(const FieldDescription* const field, FindField(header));
  header_ = header;
  decoder_.reset();
  bytes_received_ = 0;
  assembler_.emplace(std::move(header), field->no_sample_bits(), on_level_);
  return Status::Ok();
}

Status AnswerReceiver::Samples(const pb::SampleBlocks& part, MessageData* data) {
  if (!assembler_) return Status::Ok();
  begun_ = true;
  bytes_received_ += data->size();
  const auto read = [data](std::byte* to, std::size_t bytes) { return data->Read(to, bytes); };
  for (const pb::BlockExtent& block : part.blocks()) {
    QUARRY_ASSIGN_OR_RETURN(const Box extent, wire::GetExtent(block));
    std::optional<int> shown;
    if (block.has_shown_level()) shown = static_cast<int>(block.shown_level());
    QUARRY_RETURN_IF_ERROR(assembler_->AddBlock(static_cast<int>(part.level()), extent, read, shown));
  }
  return Status::Ok();
}

Status AnswerReceiver::Patches(const pb::PatchPayloads& part, MessageData* data) {
  if (!assembler_) return Status::Ok();
  begun_ = true;
  bytes_received_ += data->size();
  if (!decoder_) {
    QUARRY_ASSIGN_OR_RETURN(decoder_, PayloadDecoder::Make(dataset_, request_.read, header_, pool_));
  }
  return decoder_->Add(part, data, &*assembler_);
}

Status AnswerReceiver::LevelEnd(const pb::LevelEnd& end) {
  if (!assembler_) return Status::Ok();
  begun_ = true;
  if (decoder_) QUARRY_RETURN_IF_ERROR(decoder_->EndLevel(&*assembler_));
  return assembler_->EndLevel(static_cast<int>(end.level()), {header_.price, bytes_received_});
}

Status AnswerReceiver::ReadEnd() {
  ended_ = true;
  return Status::Ok();
}

Status AnswerReceiver::CheckComplete() const {
  QUARRY_RETURN_IF_ERROR(assembler_->CheckComplete());
  if (header_.number + 1 == header_.count) return Status::Ok();
  return InternalError("the server ended after {} of {} answers", header_.number + 1, header_.count);
}

Result<const FieldDescription*> AnswerReceiver::FindField(const query::AnswerHeader& header) const {
  const std::vector<std::string>& fields = request_.fields;
  const bool wanted = fields.empty() ? header.field == request_.read.field
                                     : std::ranges::find(fields, header.field) != fields.end();
  const auto number = dataset_.FindField(header.field);
  if (wanted && number) return &dataset_.fields[*number];
  return InternalError("the server answers for a field \"{}\", which was not asked for", header.field);
}

/// Whatever a server says, memory is taken for parts of this grid only.
Status AnswerReceiver::CheckHeader(const query::AnswerHeader& header) const {
  int finer_than = dataset_.levels;
  for (const query::LevelExtent& level : header.levels) {
    const bool known = level.level >= 0 && level.level < finer_than && SpacingFits(level);
    if (!known || !SpacedBox({{0, 0, 0}, dataset_.grid.dims}, level.spacing).Contains(level.extent)) {
      return InternalError("the server announces {} of level {}, which is not in this dataset",
                           ToString(level.extent), level.level);
    }
    finer_than = level.level;
  }
  if (request_.read.stride && header.levels.size() > 1)
    return InternalError("the server announces {} levels for a stride", header.levels.size());
  if (!request_.read.values && !header.left_out.empty())
    return InternalError("the server leaves out {}, of all values asked for",
                         ToString(header.left_out.front()));
  return Status::Ok();
}

/// Samples of an answer are samples of its level.
bool AnswerReceiver::SpacingFits(const query::LevelExtent& level) const {
  const std::int64_t step = std::int64_t{1} << level.level;
  if (!request_.read.stride) return level.spacing == Index3{step, step, step};
  bool fits = level.spacing == *request_.read.stride;
  for (std::size_t a = 0; a < 3; ++a)
    fits = fits && (dataset_.grid.dims[a] == 1 || level.spacing[a] % step == 0);
  return fits;
}

}  // namespace quarry::client::internal
