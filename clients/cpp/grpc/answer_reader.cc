#include "clients/cpp/grpc/answer_reader.h"

#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <optional>
#include <string>
#include <utility>

namespace quarry::client::internal {
namespace {

namespace pb = ::quarry::v1;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

Status Malformed() { return InternalError("the server sent a message that does not belong to an answer"); }

/// A message inside another one, up to its end.
bool ReadMessage(CodedInputStream* stream, google::protobuf::MessageLite* message) {
  int size = 0;
  if (!stream->ReadVarintSizeAsInt(&size)) return false;
  const auto limit = stream->PushLimit(size);
  const bool good = message->MergeFromCodedStream(stream) && stream->BytesUntilLimit() == 0;
  stream->PopLimit(limit);
  return good;
}

int FieldOf(std::uint32_t tag) { return WireFormatLite::GetTagFieldNumber(tag); }

bool IsBytes(std::uint32_t tag) {
  return WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
}

/// SampleBlocks, PatchPayloads or CodedTiles, whose fields have the same numbers: a level, descriptions,
/// data.
template <typename Part, typename Add, typename Handle>
Status ReadPart(CodedInputStream* stream, Add add, Handle handle) {
  Part part;
  int size = 0;
  if (!stream->ReadVarintSizeAsInt(&size)) return Malformed();
  const auto limit = stream->PushLimit(size);
  bool handled = false;
  while (const std::uint32_t tag = stream->ReadTag()) {
    bool good = true;
    if (FieldOf(tag) == Part::kLevelFieldNumber && !IsBytes(tag)) {
      std::uint32_t level = 0;
      good = stream->ReadVarint32(&level);
      part.set_level(level);
    } else if (FieldOf(tag) == pb::SampleBlocks::kBlocksFieldNumber && IsBytes(tag)) {
      good = ReadMessage(stream, add(&part));
    } else if (FieldOf(tag) == Part::kDataFieldNumber && IsBytes(tag)) {
      int data_size = 0;
      if (!stream->ReadVarintSizeAsInt(&data_size) || data_size > stream->BytesUntilLimit())
        return Malformed();
      MessageData data(stream, static_cast<std::size_t>(data_size));
      QUARRY_RETURN_IF_ERROR(handle(part, &data));
      good = stream->Skip(static_cast<int>(data.size()));
      handled = true;
    } else {
      good = WireFormatLite::SkipField(stream, tag);
    }
    if (!good) return Malformed();
  }
  if (stream->BytesUntilLimit() != 0) return Malformed();
  stream->PopLimit(limit);
  if (handled) return Status::Ok();
  MessageData nothing(stream, 0);
  return handle(part, &nothing);
}

static_assert(int{pb::SampleBlocks::kBlocksFieldNumber} == int{pb::PatchPayloads::kPatchesFieldNumber});
static_assert(int{pb::SampleBlocks::kBlocksFieldNumber} == int{pb::CodedTiles::kTilesFieldNumber});

/// The fields that follow the part of a message, in any order.
struct Ending {
  std::optional<pb::LevelEnd> level_end;
  std::optional<pb::ReadEnd> read_end;
  std::optional<std::string> position;
};

template <typename Message>
bool ReadOptional(CodedInputStream* stream, std::optional<Message>* message) {
  if (!*message) message->emplace();
  return ReadMessage(stream, &**message);
}

Status ReadField(CodedInputStream* stream, std::uint32_t tag, AnswerHandler* handler, Ending* ending) {
  bool good = true;
  switch (IsBytes(tag) ? FieldOf(tag) : 0) {
    case pb::ReadResponse::kHeaderFieldNumber: {
      pb::ReadHeader header;
      return ReadMessage(stream, &header) ? handler->Header(header) : Malformed();
    }
    case pb::ReadResponse::kSamplesFieldNumber:
      return ReadPart<pb::SampleBlocks>(
          stream, [](auto* part) { return part->add_blocks(); },
          [&](const auto& part, MessageData* data) { return handler->Samples(part, data); });
    case pb::ReadResponse::kPatchesFieldNumber:
      return ReadPart<pb::PatchPayloads>(
          stream, [](auto* part) { return part->add_patches(); },
          [&](const auto& part, MessageData* data) { return handler->Patches(part, data); });
    case pb::ReadResponse::kCodedFieldNumber:
      return ReadPart<pb::CodedTiles>(
          stream, [](auto* part) { return part->add_tiles(); },
          [&](const auto& part, MessageData* data) { return handler->Coded(part, data); });
    case pb::ReadResponse::kLevelEndFieldNumber:
      good = ReadOptional(stream, &ending->level_end);
      break;
    case pb::ReadResponse::kReadEndFieldNumber:
      good = ReadOptional(stream, &ending->read_end);
      break;
    case pb::ReadResponse::kPositionFieldNumber:
      good = WireFormatLite::ReadBytes(stream, &ending->position.emplace());
      break;
    default:
      good = WireFormatLite::SkipField(stream, tag);
  }
  return good ? Status::Ok() : Malformed();
}

}  // namespace

Status ParseAnswer(const grpc::ByteBuffer& message, AnswerHandler* handler) {
  grpc::ByteBuffer copy(message);  // copies references, not bytes: the reader needs a buffer to change
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok()) return Malformed();
  CodedInputStream stream(&reader);
  Ending ending;
  while (const std::uint32_t tag = stream.ReadTag())
    QUARRY_RETURN_IF_ERROR(ReadField(&stream, tag, handler, &ending));
  if (!stream.ConsumedEntireMessage()) return Malformed();
  if (ending.level_end) QUARRY_RETURN_IF_ERROR(handler->LevelEnd(*ending.level_end));
  if (ending.read_end) QUARRY_RETURN_IF_ERROR(handler->ReadEnd());
  if (ending.position) handler->Position(*std::move(ending.position));
  return Status::Ok();
}

}  // namespace quarry::client::internal
