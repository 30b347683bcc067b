#include "quarry/answer/answer_stream.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <utility>

#include "quarry/wire/convert.h"

namespace quarry::answer {
namespace {

namespace pb = ::quarry::v1;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

/// Upper bound of the extent of a block in a message: six numbers, a level, and their frames.
constexpr std::size_t kBytesPerBlock = 64;
/// Smallest limit of a message: a slow client takes one of this size in 50 ms at 10 Mbit/s.
constexpr std::size_t kLeastMessage = 64 << 10;
/// Below this size a copy is cheaper than a separate piece.
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

/// A part of a message up to its data.
std::string HeadOf(const AnswerPart& part, std::uint64_t data_bytes) {
  std::string inner = part.description->SerializeAsString();
  AppendTag(pb::SampleBlocks::kDataFieldNumber, &inner);
  AppendVarint(data_bytes, &inner);
  std::string head;
  AppendTag(part.field, &head);
  AppendVarint(inner.size() + data_bytes, &head);
  return head + inner;
}

}  // namespace

SharedBytes OwnBytes(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return {std::as_bytes(std::span(*owner)), owner};
}

std::size_t MessageBytesFor(std::uint64_t memory) {
  constexpr std::uint64_t kPartOfMemory = 1024;
  // Room for four parts with their extents: a patch of 64^3 samples of float32.
  constexpr std::uint64_t kLargest = 4 * (kPartBytes + kBytesPerBlock);
  return std::clamp<std::uint64_t>(memory / kPartOfMemory, kPartBytes, kLargest);
}

std::pair<Box, Box> Halves(const Box& extent) {
  const Index3 shape = extent.shape();
  const std::size_t axis = shape[2] > 1 ? 2 : shape[1] > 1 ? 1 : 0;
  std::pair<Box, Box> halves(extent, extent);
  halves.first.end[axis] = halves.second.begin[axis] = extent.begin[axis] + shape[axis] / 2;
  return halves;
}

std::size_t NextMessageBytes(std::size_t bytes, std::chrono::nanoseconds took, std::size_t most) {
  constexpr std::chrono::duration<double> kTime = std::chrono::milliseconds(50);
  const double taken = kTime / std::max(took, std::chrono::nanoseconds(1)) * static_cast<double>(bytes);
  return static_cast<std::size_t>(std::clamp<double>(taken, kLeastMessage, static_cast<double>(most)));
}

Status AnswerStream::Begin(const AnswerStart& start, const std::optional<query::EncodingChoice>& choice,
                           const std::vector<query::CodedError>& coded) {
  number_ = start.header.number;
  fingerprint_ = start.from.fingerprint;
  start_ = start.from.position.start;
  levels_ = start.header.levels.size();
  count_ = start.header.count;
  cost_ = start.cost;
  pb::ReadResponse message;
  *message.mutable_header() = wire::ToProto(start.header);
  if (choice) *message.mutable_header()->mutable_choice() = wire::ToProto(*choice);
  for (std::size_t i = 0; i < coded.size(); ++i) {
    pb::LevelExtent* const level = message.mutable_header()->mutable_levels(static_cast<int>(i));
    level->set_max_error(coded[i].kept);
    level->set_coding_error(coded[i].coding);
  }
  if (describes_) {
    pb::DatasetManifest described = wire::DescribeField(start.dataset.description(), start.field);
    if (described.ByteSizeLong() <= wire::kLargestDescribed)
      *message.mutable_header()->mutable_described() = std::move(described);
  }
  const query::Position& from = start.from.position;
  message.set_position(ToToken(Position(from.pass, from.patch, start.from.parts)));
  return Write(std::nullopt, message);
}

Status AnswerStream::Send(AnswerPart part, const ResumePoint& position) {
  pb::ReadResponse rest;
  rest.set_position(ToToken(position));
  return Write(std::move(part), rest);
}

Status AnswerStream::EndLevel(const query::LevelExtent& level, std::optional<AnswerPart> last,
                              const ResumePoint& position) {
  pb::ReadResponse rest;
  rest.mutable_level_end()->set_level(static_cast<std::uint32_t>(level.level));
  rest.mutable_level_end()->set_max_error(level.max_error);
  rest.mutable_level_end()->set_coverage(level.coverage);
  if (position.position.pass == levels_ && number_ + 1 == count_) {
    *rest.mutable_read_end()->mutable_price() = wire::ToProto(cost_);
  } else {
    rest.set_position(ToToken(position));
  }
  return Write(std::move(last), rest);
}

Status AnswerStream::End() {
  if (ended_) return Status::Ok();
  pb::ReadResponse message;
  *message.mutable_read_end()->mutable_price() = wire::ToProto(cost_);
  return Write(std::nullopt, message);
}

/// The last message waits for the status only where it shares no memory: the read gives back what it has
/// pinned before the status comes. A large one has nothing to gain.
Status AnswerStream::Write(std::optional<AnswerPart> part, const pb::ReadResponse& rest) {
  std::uint64_t data_bytes = 0;
  Message message;
  bool shares = false;
  if (part) {
    shares = part->shares;
    message = std::move(part->data);
    for (const SharedBytes& piece : message) data_bytes += piece.bytes.size();
    message.insert(message.begin(), OwnBytes(HeadOf(*part, data_bytes)));
  }
  message.push_back(OwnBytes(rest.SerializeAsString()));  // a message's fields may come one after the other
  ended_ = rest.has_read_end();
  const bool waits = ended_ && !shares && data_bytes < kSmallBlock;
  const auto begin = std::chrono::steady_clock::now();
  Status sent = sink_->Send(message, waits ? Follows::kStatus : Follows::kLater, rest.position());
  // The time of a smaller one says more about the way than about the rate. A message is nearly full where the
  // next block would not fit.
  if (data_bytes >= kLeastMessage / 2)
    message_bytes_ = NextMessageBytes(data_bytes, std::chrono::steady_clock::now() - begin, most_bytes_);
  return sent;
}

ResumePoint AnswerStream::Position(std::size_t levels, std::size_t patches, std::size_t parts) const {
  return {fingerprint_, static_cast<std::size_t>(number_), {levels, patches, start_}, parts};
}

std::string ToToken(const ResumePoint& point) {
  pb::ReadPosition position;
  position.set_fingerprint(point.fingerprint);
  position.set_levels(static_cast<std::uint32_t>(point.position.pass));
  position.set_patches(point.position.patch);
  position.set_parts(static_cast<std::uint32_t>(point.parts));
  position.set_answers(static_cast<std::uint32_t>(point.answers));
  position.set_start(point.position.start);
  return position.SerializeAsString();
}

Result<ResumePoint> FromToken(const std::string& token) {
  pb::ReadPosition position;
  if (token.empty()) return ResumePoint{};
  if (!position.ParseFromString(token) || position.fingerprint() == 0)
    return InvalidArgument("the position to resume after belongs to no answer to this query; leave it out");
  return ResumePoint{position.fingerprint(),
                     position.answers(),
                     {position.levels(), static_cast<std::size_t>(position.patches()),
                      static_cast<std::size_t>(position.start())},
                     position.parts()};
}

// ---- Samples

Status SampleSink::Deliver(const SampleBlock& block) {
  patch_ = block.patch;
  parts_ = 0;
  QUARRY_RETURN_IF_ERROR(DeliverPart(block, block.extent, block.samples));
  skip_ = 0;
  return Status::Ok();
}

/// The parts depend on the block alone, so that a position can count them.
Status SampleSink::DeliverPart(const SampleBlock& block, const Box& extent, ByteSpan samples) {
  if (samples.size() > kPartBytes) {
    const auto [first, second] = Halves(extent);
    const std::size_t bytes = static_cast<std::size_t>(first.volume()) * sample_size_;
    QUARRY_RETURN_IF_ERROR(DeliverPart(block, first, samples.first(bytes)));
    return DeliverPart(block, second, samples.subspan(bytes));
  }
  if (parts_ < skip_) {
    ++parts_;
    return Status::Ok();
  }
  if (pending_bytes_ > 0 && pending_bytes_ + samples.size() > stream_->message_bytes())
    QUARRY_RETURN_IF_ERROR(Flush());
  Add(block, extent, samples);
  ++parts_;
  return Status::Ok();
}

void SampleSink::Add(const SampleBlock& block, const Box& extent, ByteSpan samples) {
  pending_.set_level(static_cast<std::uint32_t>(block.level));
  pb::BlockExtent* described = pending_.add_blocks();
  wire::SetExtent(extent, described);
  // Both, so that clients that know no layers do not take a rougher one for the one they want.
  if (block.shown != query::LevelChoice{block.level, levels_[level_index_].layer}) {
    described->set_shown_level(static_cast<std::uint32_t>(block.shown.level));
    described->set_shown_layer(static_cast<std::uint32_t>(block.shown.layer));
  }
  pending_bytes_ += samples.size() + kBytesPerBlock;
  if (samples.size() < kSmallBlock) {
    small_.append(reinterpret_cast<const char*>(samples.data()), samples.size());
    return;
  }
  EndSmall();
  pieces_.push_back({samples, block.owner});
  shares_ = true;
}

void SampleSink::EndSmall() {
  if (small_.empty()) return;
  pieces_.push_back(OwnBytes(std::exchange(small_, {})));
}

std::optional<AnswerPart> SampleSink::TakePart() {
  if (pending_.blocks().empty()) return std::nullopt;
  EndSmall();
  pending_bytes_ = 0;
  return AnswerPart{pb::ReadResponse::kSamplesFieldNumber, &pending_, std::exchange(pieces_, {}),
                    std::exchange(shares_, false)};
}

Status SampleSink::Flush() {
  QUARRY_RETURN_IF_ERROR(stream_->Send(*TakePart(), stream_->Position(level_index_, patch_, parts_)));
  pending_.Clear();
  return Status::Ok();
}

Status SampleSink::LevelEnd(const query::LevelExtent& level) {
  QUARRY_RETURN_IF_ERROR(stream_->EndLevel(level, TakePart(), stream_->Position(++level_index_, 0, 0)));
  pending_.Clear();
  return Status::Ok();
}

// ---- Payload

Status PayloadStreamSink::Deliver(const StoredPayload& payload) {
  std::size_t bytes = 0;
  for (const LevelPayload& level : payload.levels) {
    bytes += level.mask.size();
    for (const ByteSpan part : level.payloads()) bytes += part.size();
  }
  if (pending_bytes_ > 0 && pending_bytes_ + bytes > stream_->message_bytes())
    QUARRY_RETURN_IF_ERROR(Flush());
  const query::PlannedPatch& patch = *payload.planned;
  pending_.set_level(static_cast<std::uint32_t>(payload.level));
  pb::PatchPayload* described = pending_.add_patches();
  described->set_patch(patch.entry.patch.patch_index);
  described->set_damaged(payload.damaged);
  for (const LevelPayload& level : payload.levels) {
    const auto l = static_cast<std::size_t>(level.level);
    pb::LevelPayload* sizes = described->add_levels();
    if (patch.mask && payload.first_layer == 0) {
      sizes->set_mask_size(level.mask.size());
      sizes->set_mask_checksum(patch.mask->patch.levels[l].checksum);
    }
    if (!level.mask.empty()) pieces_.push_back({level.mask, payload.owner});
    for (int layer = 0; layer < level.layers; ++layer) {
      const ByteSpan part = level.payload[static_cast<std::size_t>(layer)];
      const std::size_t place = plan_.parts.Of(payload.first_layer + layer, level.level);
      const std::uint64_t checksum = patch.entry.patch.levels[place].checksum;
      if (layer == 0) {
        sizes->set_size(part.size());
        sizes->set_checksum(checksum);
      } else {
        sizes->add_further_sizes(part.size());
        sizes->add_further_checksums(checksum);
      }
      if (!part.empty()) pieces_.push_back({part, payload.owner});
    }
  }
  pending_bytes_ += bytes + kBytesPerBlock * (1 + payload.levels.size());
  patches_ = payload.patch + 1;
  return Status::Ok();
}

std::optional<AnswerPart> PayloadStreamSink::TakePart() {
  if (pending_.patches().empty()) return std::nullopt;
  pending_bytes_ = 0;
  const bool shares = !pieces_.empty();
  return AnswerPart{pb::ReadResponse::kPatchesFieldNumber, &pending_, std::exchange(pieces_, {}), shares};
}

Status PayloadStreamSink::Flush() {
  QUARRY_RETURN_IF_ERROR(stream_->Send(*TakePart(), stream_->Position(level_index_, patches_, 0)));
  pending_.Clear();
  return Status::Ok();
}

Status PayloadStreamSink::LevelEnd(const query::LevelExtent& level) {
  QUARRY_RETURN_IF_ERROR(stream_->EndLevel(level, TakePart(), stream_->Position(++level_index_, 0, 0)));
  pending_.Clear();
  return Status::Ok();
}

}  // namespace quarry::answer
