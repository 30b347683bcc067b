#include "server/answer_stream.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>

#include "quarry/wire/convert.h"

namespace quarry::server {
namespace {

namespace pb = ::quarry::v1;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

/// Upper bound of the extent of a block in a message: six numbers, a level, and their frames.
constexpr std::size_t kBytesPerBlock = 64;
/// Below this a copy is cheaper than a slice.
constexpr std::size_t kSmallBlock = 16 << 10;

void AppendTag(int field, std::string* out) {
  google::protobuf::io::StringOutputStream stream(out);
  CodedOutputStream(&stream).WriteTag(
      WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
}

void AppendVarint(std::uint64_t value, std::string* out) {
  google::protobuf::io::StringOutputStream stream(out);
  CodedOutputStream(&stream).WriteVarint64(value);
}

/// A slice of somebody's memory, kept alive as long as gRPC needs it.
grpc::Slice ShareSlice(ByteSpan bytes, std::shared_ptr<const void> owner) {
  using Owner = std::shared_ptr<const void>;
  return {const_cast<std::byte*>(bytes.data()), bytes.size(),
          [](void* held) { delete static_cast<Owner*>(held); }, new Owner(std::move(owner))};
}

}  // namespace

std::size_t MessageBytesFor(std::uint64_t memory) {
  constexpr std::uint64_t kPartOfMemory = 1024;
  // Room for four parts with their extents: a patch of 64^3 samples of float32.
  constexpr std::uint64_t kLargest = 4 * (kPartBytes + kBytesPerBlock);
  return std::clamp<std::uint64_t>(memory / kPartOfMemory, kPartBytes, kLargest);
}

Status AnswerStream::Write(const grpc::ByteBuffer& message) {
  if (!write_(message)) return {StatusCode::kCancelled, "the client has gone"};
  call_->CountSent(message.Length());
  return Status::Ok();
}

Status AnswerStream::Begin(const query::AnswerHeader& header, std::uint64_t fingerprint,
                           const pb::ReadPosition& from) {
  number_ = header.number;
  fingerprint_ = fingerprint;
  pb::ReadResponse message;
  *message.mutable_header() = wire::ToProto(header);
  message.set_position(Position(from.levels(), from.patches(), from.parts()).SerializeAsString());
  return Send(message);
}

Status AnswerStream::Send(const pb::ReadResponse& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return Write(grpc::ByteBuffer(&slice, 1));
}

Status AnswerStream::Send(int field, const google::protobuf::MessageLite& part, std::vector<grpc::Slice> slices,
                          const pb::ReadPosition& position) {
  std::uint64_t data_bytes = 0;
  for (const grpc::Slice& slice : slices) data_bytes += slice.size();
  std::string inner = part.SerializeAsString();
  AppendTag(pb::SampleBlocks::kDataFieldNumber, &inner);
  AppendVarint(data_bytes, &inner);
  std::string head;
  AppendTag(field, &head);
  AppendVarint(inner.size() + data_bytes, &head);
  slices.insert(slices.begin(), grpc::Slice(head + inner));
  pb::ReadResponse tail;  // fields of a message may come one after the other
  tail.set_position(position.SerializeAsString());
  slices.push_back(grpc::Slice(tail.SerializeAsString()));
  return Write(grpc::ByteBuffer(slices.data(), slices.size()));
}

Status AnswerStream::SendLevelEnd(const query::LevelExtent& level, const pb::ReadPosition& position) {
  pb::ReadResponse message;
  message.mutable_level_end()->set_level(static_cast<std::uint32_t>(level.level));
  message.mutable_level_end()->set_max_error(level.max_error);
  message.mutable_level_end()->set_coverage(level.coverage);
  message.set_position(position.SerializeAsString());
  return Send(message);
}

pb::ReadPosition AnswerStream::Position(std::size_t levels, std::size_t patches, std::size_t parts) const {
  pb::ReadPosition position;
  position.set_fingerprint(fingerprint_);
  position.set_levels(static_cast<std::uint32_t>(levels));
  position.set_patches(patches);
  position.set_parts(static_cast<std::uint32_t>(parts));
  position.set_answers(static_cast<std::uint32_t>(number_));
  return position;
}

// ---- Samples

Status SampleSink::Deliver(const SampleBlock& block) {
  patch_ = block.patch;
  parts_ = 0;
  QUARRY_RETURN_IF_ERROR(DeliverPart(block, block.extent, block.samples));
  skip_ = 0;
  return Status::Ok();
}

/// Halves along the slowest axis that can be cut are contiguous in memory. The parts follow from the block
/// alone, so that their number tells a position.
Status SampleSink::DeliverPart(const SampleBlock& block, const Box& extent, ByteSpan samples) {
  if (samples.size() > kPartBytes) {
    const Index3 shape = extent.shape();
    const std::size_t axis = shape[2] > 1 ? 2 : shape[1] > 1 ? 1 : 0;
    Box first = extent;
    Box second = extent;
    first.end[axis] = second.begin[axis] = extent.begin[axis] + shape[axis] / 2;
    const std::size_t bytes = static_cast<std::size_t>(first.volume()) * sample_size_;
    QUARRY_RETURN_IF_ERROR(DeliverPart(block, first, samples.first(bytes)));
    return DeliverPart(block, second, samples.subspan(bytes));
  }
  if (parts_ < skip_) {
    ++parts_;
    return Status::Ok();
  }
  if (pending_bytes_ > 0 && pending_bytes_ + samples.size() > message_bytes_) QUARRY_RETURN_IF_ERROR(Flush());
  Add(block, extent, samples);
  ++parts_;
  return Status::Ok();
}

void SampleSink::Add(const SampleBlock& block, const Box& extent, ByteSpan samples) {
  pending_.set_level(static_cast<std::uint32_t>(block.level));
  pb::BlockExtent* described = pending_.add_blocks();
  wire::SetExtent(extent, described);
  if (block.shown_level != block.level)
    described->set_shown_level(static_cast<std::uint32_t>(block.shown_level));
  pending_bytes_ += samples.size() + kBytesPerBlock;
  if (samples.size() < kSmallBlock) {
    small_.append(reinterpret_cast<const char*>(samples.data()), samples.size());
    return;
  }
  EndSmall();
  slices_.push_back(ShareSlice(samples, block.owner));
}

void SampleSink::EndSmall() {
  if (small_.empty()) return;
  slices_.push_back(grpc::Slice(small_));
  small_.clear();
}

Status SampleSink::Flush() {
  if (pending_.blocks().empty()) return Status::Ok();
  EndSmall();
  const auto position = stream_->Position(level_index_, patch_, parts_);
  QUARRY_RETURN_IF_ERROR(
      stream_->Send(pb::ReadResponse::kSamplesFieldNumber, pending_, std::move(slices_), position));
  pending_.Clear();
  slices_.clear();
  pending_bytes_ = 0;
  return Status::Ok();
}

Status SampleSink::LevelEnd(const query::LevelExtent& level) {
  QUARRY_RETURN_IF_ERROR(Flush());
  return stream_->SendLevelEnd(level, stream_->Position(++level_index_, 0, 0));
}

// ---- Payload

Status PayloadStreamSink::Deliver(const PatchPayload& payload) {
  std::size_t bytes = 0;
  for (const LevelPayload& level : payload.levels) bytes += level.mask.size() + level.payload.size();
  if (pending_bytes_ > 0 && pending_bytes_ + bytes > message_bytes_) QUARRY_RETURN_IF_ERROR(Flush());
  const query::PlannedPatch& patch = plan_.patches[payload.patch];
  pending_.set_level(static_cast<std::uint32_t>(payload.level));
  pb::PatchPayload* described = pending_.add_patches();
  described->set_patch(patch.entry.patch.patch_index);
  described->set_damaged(payload.damaged);
  for (const LevelPayload& level : payload.levels) {
    const auto l = static_cast<std::size_t>(level.level);
    pb::LevelPayload* sizes = described->add_levels();
    sizes->set_size(level.payload.size());
    sizes->set_checksum(patch.entry.patch.levels[l].checksum);
    if (patch.mask) {
      sizes->set_mask_size(level.mask.size());
      sizes->set_mask_checksum(patch.mask->patch.levels[l].checksum);
    }
    for (const ByteSpan part : {level.mask, level.payload})
      if (!part.empty()) slices_.push_back(ShareSlice(part, payload.owner));
  }
  pending_bytes_ += bytes + kBytesPerBlock * (1 + payload.levels.size());
  patches_ = payload.patch + 1;
  return Status::Ok();
}

Status PayloadStreamSink::Flush() {
  if (pending_.patches().empty()) return Status::Ok();
  const auto position = stream_->Position(level_index_, patches_, 0);
  QUARRY_RETURN_IF_ERROR(
      stream_->Send(pb::ReadResponse::kPatchesFieldNumber, pending_, std::move(slices_), position));
  pending_.Clear();
  slices_.clear();
  pending_bytes_ = 0;
  return Status::Ok();
}

Status PayloadStreamSink::LevelEnd(const query::LevelExtent& level) {
  QUARRY_RETURN_IF_ERROR(Flush());
  return stream_->SendLevelEnd(level, stream_->Position(++level_index_, 0, 0));
}

}  // namespace quarry::server
