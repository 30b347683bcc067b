#include "quarry/zarr/chunk_buffer.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "quarry/base/float16.h"

namespace quarry::zarr {
namespace {

constexpr std::size_t kAxes = 3;
constexpr std::uint16_t kNoHalf = 0x7e00;  ///< NaN as float16

template <typename T>
void FillWith(T value, Bytes* bytes) {
  for (std::size_t i = 0; i < bytes->size(); i += sizeof(T)) StoreLittleEndian(value, bytes->data() + i);
}

/// A stored sample as the type that the chunk shows.
template <typename T>
void Show(T sample, const FieldContents& field, std::byte* to) {
  if (field.description.given == GivenType::kBool) {
    *to = std::byte{sample != T(0)};
  } else if (field.description.given == GivenType::kFloat16) {
    StoreLittleEndian(HalfOfFloat(static_cast<float>(sample)), to);
  } else if (field.rounded) {
    StoreLittleEndian(static_cast<float>(sample), to);
  } else {
    StoreLittleEndian(sample, to);
  }
}

/// A missing sample of a floating-point type is NaN in the chunk, whatever the file has.
template <typename T>
T WithNaN(T sample, T missing) {
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(sample) || sample == missing) return std::numeric_limits<T>::quiet_NaN();
  return sample;
}

/// Converts little-endian samples from the stored type to that of the chunk.
void ConvertRow(const FieldContents& field, bool has_missing, ByteSpan stored, std::byte* to,
                std::uint64_t sample_bytes) {
  const FieldDescription& said = field.description;
  const bool mark = has_missing && IsFloat(said.type);
  if (!mark && !field.rounded && said.given == GivenType::kStored) {
    std::memcpy(to, stored.data(), stored.size());
    return;
  }
  DispatchType(said.type, [&]<typename T>(T) {
    // Without a fill value only NaN and infinity are missing; NaN is equal to nothing.
    const T missing = said.fill ? said.fill->As<T>().value_or(T(0)) : std::numeric_limits<T>::quiet_NaN();
    for (std::size_t i = 0; i < stored.size() / sizeof(T); ++i) {
      const T sample = GetLittleEndian<T>(stored.data() + i * sizeof(T));
      Show(mark ? WithNaN(sample, missing) : sample, field, to + i * sample_bytes);
    }
  });
}

}  // namespace

ChunkBuffer::ChunkBuffer(const Chunk& chunk)
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

std::uint64_t ChunkBuffer::BytesOf(const Box& box) const {
  return static_cast<std::uint64_t>(box.volume()) * stored_;
}

Status ChunkBuffer::Add(const Box& box, ByteSpan samples) {
  std::array<std::uint64_t, kAxes> begin{};  // z, y, x, as all here
  std::array<std::uint64_t, kAxes> end{};
  for (std::size_t a = 0; a < kAxes; ++a) {
    begin[a] = static_cast<std::uint64_t>(box.begin[kAxes - 1 - a]);
    end[a] = static_cast<std::uint64_t>(box.end[kAxes - 1 - a]);
    if (begin[a] < begin_[a] || end[a] > end_[a] || begin[a] > end[a])
      return InternalError("a block of the answer lies outside the chunk");
  }
  const std::uint64_t row = (end[2] - begin[2]) * stored_;
  const std::uint64_t volume = (end[0] - begin[0]) * (end[1] - begin[1]) * (end[2] - begin[2]);
  if (volume > left_ || volume * stored_ != samples.size())
    return InternalError("a block of the answer has other samples than it says");
  for (std::uint64_t z = begin[0]; z < end[0]; ++z) {
    for (std::uint64_t y = begin[1]; y < end[1]; ++y) {
      const std::uint64_t at = ((z - begin_[0]) * chunks_[1] + (y - begin_[1])) * chunks_[2];
      ConvertRow(*chunk_.array->field, chunk_.step().missing, samples.first(row),
                 bytes_->data() + (at + begin[2] - begin_[2]) * sample_, sample_);
      samples = samples.subspan(row);
    }
  }
  left_ -= volume;
  return Status::Ok();
}

Status ChunkBuffer::CheckComplete() const {
  if (left_ != 0) return InternalError("the answer lacks {} samples of the chunk", left_);
  return Status::Ok();
}

void ChunkBuffer::Pad() {
  const FieldDescription& field = chunk_.array->field->description;
  if (field.given == GivenType::kFloat16) return FillWith(kNoHalf, bytes_.get());
  if (chunk_.array->field->rounded) return FillWith(std::numeric_limits<float>::quiet_NaN(), bytes_.get());
  DispatchType(field.type, [&]<typename T>(T) {
    if constexpr (std::is_floating_point_v<T>) {
      FillWith(std::numeric_limits<T>::quiet_NaN(), bytes_.get());
    } else {
      FillWith(field.fill.value_or(SampleValue(0)).As<T>().value_or(0), bytes_.get());
    }
  });
}

}  // namespace quarry::zarr
