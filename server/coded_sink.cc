#include "server/coded_sink.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "quarry/base/checksum.h"
#include "quarry/geometry/sample_place.h"
#include "quarry/wire/convert.h"

namespace quarry::server {
namespace {

namespace pb = ::quarry::v1;

/// Upper bound of the description of a tile in a message, and of each damaged box in it.
constexpr std::size_t kBytesPerTile = 64;
/// Coded samples are many: a slow connection should not wait for a megabyte of them.
constexpr std::size_t kMostMessage = 128 << 10;
/// Coding takes about as long as decoding so many times the samples.
constexpr std::uint64_t kWork = 4;
/// Tiles have a level in their keys that neither patches nor manifests have.
constexpr std::int32_t kTileLevels = -100;
/// Memory of a tile in the store beside its bytes.
constexpr std::uint64_t kObject = 256;

/// A position that no server sends.
Status NotAtATile() {
  return InvalidArgument("the position to resume after is inside a tile of this answer; leave it out");
}

std::int64_t LargestTile(const query::ReadPlan& plan) {
  std::int64_t samples = 0;
  for (const query::LevelExtent& level : plan.levels) samples = std::max(samples, level.extent.volume());
  return std::min(samples, kMaxTileSamples);
}

}  // namespace

CodedSink::CodedSink(answer::AnswerStream* stream, PatchStore* store, Call* call, const AnswerStart& start,
                     const std::vector<query::CodedError>& errors)
    : stream_(stream),
      store_(store),
      call_(call),
      plan_(start.plan),
      compute_(start.compute),
      patch_shape_(start.dataset.description().GridOf(start.field).patch),
      fill_(start.field.fill_bits()),
      keys_(start.dataset, start.plan),
      levels_(start.plan.levels),
      level_index_(start.from.position.pass),
      skip_(start.from.parts) {
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    levels_[i].max_error = errors[i].kept;
    errors_.push_back(errors[i].coding);
  }
}

std::uint64_t CodedSink::MemoryOf(const query::ReadPlan& plan) {
  const std::int64_t samples = LargestTile(plan);
  return static_cast<std::uint64_t>(samples) * SizeOf(plan.type) + TileMemory(plan.type, samples);
}

Status CodedSink::Deliver(const SampleBlock& block) {
  if (!cut_) cut_.emplace(plan_, patch_shape_, levels_[level_index_]);
  parts_ = 0;
  const Box tile = cut_->TileOf(*block.planned);
  if (tile.volume() > kMaxTileSamples) {
    QUARRY_RETURN_IF_ERROR(DeliverParts(block, block.extent, block.samples));
    skip_ = 0;
    return Status::Ok();
  }
  skip_ = 0;
  if (open_ && open_->extent != tile) return NotAtATile();
  if (!open_) Open(tile);
  const std::size_t size = SizeOf(plan_.type);
  const SampleArray array{open_->samples.data(), tile, size};
  CopySamples(block.samples, block.extent.shape(), size, array.PlaceOf(block.extent));
  open_->missing -= block.extent.volume();
  AddPatch(block, block.extent, &*open_);
  return open_->missing == 0 ? Close() : Status::Ok();
}

/// Halves a patch with more samples than a tile may have.
Status CodedSink::DeliverParts(const SampleBlock& block, const Box& extent, ByteSpan samples) {
  if (extent.volume() > kMaxTileSamples) {
    const auto [first, second] = answer::Halves(extent);
    const std::size_t bytes = static_cast<std::size_t>(first.volume()) * SizeOf(plan_.type);
    QUARRY_RETURN_IF_ERROR(DeliverParts(block, first, samples.first(bytes)));
    return DeliverParts(block, second, samples.subspan(bytes));
  }
  if (++parts_ <= skip_) return Status::Ok();
  OpenTile part;
  part.extent = extent;
  AddPatch(block, extent, &part);
  QUARRY_ASSIGN_OR_RETURN(Coded coded, Code(part, samples));
  return Add(part, std::move(coded), stream_->Position(level_index_, block.patch, parts_));
}

/// @param extent  the samples of the block that are in the tile
void CodedSink::AddPatch(const SampleBlock& block, const Box& extent, OpenTile* tile) const {
  const query::LevelExtent& level = levels_[level_index_];
  tile->last_patch = keys_.Of(*block.planned, {level.level, level.layer}).front();
  const std::array<std::uint64_t, 3> content = {tile->content, tile->last_patch.patch,
                                                tile->last_patch.content};
  tile->content = Checksum(std::as_bytes(std::span(content)));
  tile->end_patch = block.patch + 1;
  if (block.shown != query::LevelChoice{block.level, level.layer})
    tile->damaged.emplace_back(extent, block.shown);
}

void CodedSink::Open(const Box& extent) {
  OpenTile tile;
  tile.extent = extent;
  tile.missing = extent.volume();
  tile.samples.resize(static_cast<std::size_t>(extent.volume()) * SizeOf(plan_.type));
  open_ = std::move(tile);
}

Status CodedSink::Close() {
  QUARRY_ASSIGN_OR_RETURN(Coded coded, Code(*open_, open_->samples));
  QUARRY_RETURN_IF_ERROR(Add(*open_, std::move(coded), stream_->Position(level_index_, open_->end_patch, 0)));
  open_.reset();
  return Status::Ok();
}

Result<CodedSink::Coded> CodedSink::Code(const OpenTile& tile, ByteSpan samples) const {
  // Its key speaks of undamaged payload.
  if (!tile.damaged.empty()) return CodeNow(tile, samples);
  const auto make = [&]() -> Result<PatchStore::Loaded> {
    QUARRY_ASSIGN_OR_RETURN(Coded coded, CodeNow(tile, samples));
    const std::uint64_t bytes = coded->size() + kObject;
    return PatchStore::Loaded{std::move(coded), bytes};
  };
  QUARRY_ASSIGN_OR_RETURN(const auto shared, store_->Share(KeyOf(tile), RequesterOf(call_), make));
  return std::static_pointer_cast<const Bytes>(shared);
}

Result<CodedSink::Coded> CodedSink::CodeNow(const OpenTile& tile, ByteSpan samples) const {
  const TileLayout layout{plan_.type, tile.extent.shape()};
  const TileCoding coding{plan_.coder, errors_[level_index_], fill_};
  Bytes coded;
  const auto run = [&]() -> Status {
    QUARRY_ASSIGN_OR_RETURN(coded, EncodeTile(layout, samples, coding));
    return Status::Ok();
  };
  QUARRY_RETURN_IF_ERROR(compute_(levels_[level_index_].level, kWork * samples.size(), run));
  call_->CountTile();
  return std::make_shared<const Bytes>(std::move(coded));
}

/// All that the bytes of a tile depend on.
PatchKey CodedSink::KeyOf(const OpenTile& tile) const {
  const query::LevelExtent& level = levels_[level_index_];
  StreamingChecksum checksum;
  const auto add = [&](const auto& value) { checksum.Update(std::as_bytes(std::span(&value, 1))); };
  add(tile.extent);
  add(level.spacing);
  add(errors_[level_index_]);
  add(TileCoder(plan_.type, plan_.coder, errors_[level_index_]).id());
  add(fill_.value_or(0));
  add(fill_.has_value());
  add(tile.content);
  PatchKey key = tile.last_patch;
  key.content = checksum.Finish();
  key.level = kTileLevels - level.level;
  return key;
}

Status CodedSink::Add(const OpenTile& tile, Coded coded, const ResumePoint& after) {
  const std::size_t most = std::min(stream_->message_bytes(), kMostMessage);
  if (pending_bytes_ > 0 && pending_bytes_ + coded->size() > most) QUARRY_RETURN_IF_ERROR(Flush());
  pending_.set_level(static_cast<std::uint32_t>(levels_[level_index_].level));
  pb::CodedTile* const described = pending_.add_tiles();
  wire::SetExtent(tile.extent, described);
  described->set_size(static_cast<std::uint32_t>(coded->size()));
  for (const auto& [extent, shown] : tile.damaged) {
    pb::BlockExtent* const damaged = described->add_damaged();
    wire::SetExtent(extent, damaged);
    damaged->set_shown_level(static_cast<std::uint32_t>(shown.level));
    damaged->set_shown_layer(static_cast<std::uint32_t>(shown.layer));
  }
  pending_bytes_ += coded->size() + (1 + tile.damaged.size()) * kBytesPerTile;
  const ByteSpan bytes = *coded;
  pieces_.push_back({bytes, std::move(coded)});
  after_ = after;
  return Status::Ok();
}

std::optional<answer::AnswerPart> CodedSink::TakePart() {
  if (pending_.tiles().empty()) return std::nullopt;
  pending_bytes_ = 0;
  return answer::AnswerPart{pb::ReadResponse::kCodedFieldNumber, &pending_, std::exchange(pieces_, {}), true};
}

Status CodedSink::Flush() {
  QUARRY_RETURN_IF_ERROR(stream_->Send(*TakePart(), after_));
  pending_.Clear();
  return Status::Ok();
}

Status CodedSink::LevelEnd(const query::LevelExtent&) {
  if (open_) return NotAtATile();
  const query::LevelExtent& level = levels_[level_index_];
  ++level_index_;
  cut_.reset();
  QUARRY_RETURN_IF_ERROR(stream_->EndLevel(level, TakePart(), stream_->Position(level_index_, 0, 0)));
  pending_.Clear();
  return Status::Ok();
}

}  // namespace quarry::server
