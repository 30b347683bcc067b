#include "server/zarr/assembler.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "quarry/base/float16.h"

namespace quarry::server::zarr {
namespace {

namespace pb = ::quarry::v1;

constexpr std::size_t kAxes = 3;

/// z, y, x in samples of the level.
struct Region {
  std::array<std::uint64_t, kAxes> begin{};
  std::array<std::uint64_t, kAxes> end{};
};

template <typename T>
void StoreLittleEndian(T value, std::byte* to) {
  if constexpr (std::endian::native == std::endian::big) value = ByteSwapped(value);
  std::memcpy(to, &value, sizeof(T));
}

constexpr std::uint16_t kNoHalf = 0x7e00;  ///< of float16, NaN

template <typename T>
void FillWith(T value, Bytes* bytes) {
  for (std::size_t i = 0; i < bytes->size(); i += sizeof(T)) StoreLittleEndian(value, bytes->data() + i);
}

/// Stored samples in the type in which they were given. The samples of a server are little-endian, and so are
/// those of the chunk.
void GiveBack(GivenType given, std::string_view stored, std::byte* to) {
  const auto* const from = reinterpret_cast<const std::byte*>(stored.data());
  if (given == GivenType::kStored) std::memcpy(to, from, stored.size());
  if (given == GivenType::kBool)
    for (std::size_t i = 0; i < stored.size(); ++i) to[i] = std::byte{from[i] != std::byte{0}};
  if (given == GivenType::kFloat16)
    for (std::size_t i = 0; i < stored.size() / sizeof(float); ++i)
      StoreLittleEndian(HalfOfFloat(GetLittleEndian<float>(from + i * sizeof(float))),
                        to + i * sizeof(std::uint16_t));
}

/// Samples of a block, x fastest.
std::uint64_t VolumeOf(const Region& region) {
  std::uint64_t volume = 1;
  for (std::size_t a = 0; a < kAxes; ++a) volume *= region.end[a] - region.begin[a];
  return volume;
}

}  // namespace

ChunkAssembler::ChunkAssembler(const Chunk& chunk)
    : chunk_(chunk),
      begin_(chunk.AlongAxes(chunk.begin(), 0)),
      end_(chunk.AlongAxes(chunk.end(), 1)),
      chunks_(chunk.AlongAxes(chunk.array->chunks, 1)),
      sample_(chunk.array->sample_bytes()),
      stored_(SizeOf(chunk.array->field->description.type)),
      bytes_(std::make_shared<Bytes>(chunk.array->chunk_bytes())),
      left_(1) {
  for (std::size_t a = 0; a < kAxes; ++a) left_ *= end_[a] - begin_[a];
  if (left_ * sample_ != bytes_->size()) Pad();
}

Status ChunkAssembler::Add(const pb::ReadResponse& message) {
  QUARRY_RETURN_IF_ERROR(AddBlocks(message.samples()));
  if (!message.has_level_end()) return Status::Ok();
  if (left_ != 0) return InternalError("the answer lacks {} samples of the chunk", left_);
  if (chunk_.step().missing) MarkMissing();
  complete_ = true;
  return Status::Ok();
}

Status ChunkAssembler::AddBlocks(const pb::SampleBlocks& blocks) {
  std::string_view data = blocks.data();
  for (const pb::BlockExtent& block : blocks.blocks()) {
    if (block.has_shown_level()) return DataLoss("samples of the chunk are damaged");
    if (block.begin_size() != kAxes || block.shape_size() != kAxes)
      return InternalError("a block of the answer has no three axes");
    Region region;
    for (std::size_t a = 0; a < kAxes; ++a) {
      const int axis = static_cast<int>(kAxes - 1 - a);
      region.begin[a] = block.begin(axis);
      region.end[a] = region.begin[a] + block.shape(axis);
      if (region.begin[a] < begin_[a] || region.end[a] > end_[a])
        return InternalError("a block of the answer lies outside the chunk");
    }
    const std::uint64_t volume = VolumeOf(region);
    if (volume > left_ || volume * stored_ > data.size())
      return InternalError("a block of the answer has other samples than it says");
    const GivenType given = chunk_.array->field->description.given;
    const std::uint64_t row = (region.end[2] - region.begin[2]) * stored_;
    for (std::uint64_t z = region.begin[0]; z < region.end[0]; ++z) {
      for (std::uint64_t y = region.begin[1]; y < region.end[1]; ++y) {
        const std::uint64_t at = ((z - begin_[0]) * chunks_[1] + (y - begin_[1])) * chunks_[2];
        GiveBack(given, data.substr(0, row), bytes_->data() + (at + region.begin[2] - begin_[2]) * sample_);
        data.remove_prefix(row);
      }
    }
    left_ -= volume;
  }
  return Status::Ok();
}

void ChunkAssembler::Pad() {
  const FieldDescription& field = chunk_.array->field->description;
  if (field.given == GivenType::kFloat16) return FillWith(kNoHalf, bytes_.get());
  DispatchType(field.type, [&]<typename T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      FillWith(std::numeric_limits<T>::quiet_NaN(), bytes_.get());
    } else {
      FillWith(field.fill.value_or(SampleValue(0)).As<T>().value_or(0), bytes_.get());
    }
  });
}

void ChunkAssembler::MarkMissing() {
  const FieldDescription& field = chunk_.array->field->description;
  DispatchType(field.type, [&]<typename T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      const T missing = field.fill.value_or(SampleValue(std::nan(""))).As<T>().value_or(T(0));
      const auto is_missing = [&](T sample) { return !std::isfinite(sample) || sample == missing; };
      for (std::size_t i = 0; i < bytes_->size(); i += sample_) {
        std::byte* const at = bytes_->data() + i;
        if (field.given == GivenType::kFloat16) {
          if (is_missing(FloatOfHalf(GetLittleEndian<std::uint16_t>(at)))) StoreLittleEndian(kNoHalf, at);
        } else if (is_missing(GetLittleEndian<T>(at))) {
          StoreLittleEndian(std::numeric_limits<T>::quiet_NaN(), at);
        }
      }
    }
  });
}

}  // namespace quarry::server::zarr
