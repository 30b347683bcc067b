#include "quarry/geometry/sample_place.h"

#include "quarry/base/stream_bytes.h"

namespace quarry {
namespace {

/// [bytes] Larger arrays are streamed: they would not stay in the caches of a core until they are read.
constexpr std::uint64_t kLargestCached = 16 << 20;

}  // namespace

SamplePlace SamplePlace::Dense(std::byte* samples, const Index3& shape, std::size_t sample_size) {
  return SampleArray{samples, {{0, 0, 0}, shape}, sample_size}.PlaceOf({{0, 0, 0}, shape});
}

void SamplePlace::EndWriting() const {
  if (streamed) EndStreaming();
}

void CopySamples(ByteSpan samples, const Index3& shape, std::size_t sample_size, const SamplePlace& place) {
  const std::size_t row = static_cast<std::size_t>(shape[0]) * sample_size;
  const bool dense_planes = row == place.row_bytes;
  const std::int64_t rows = dense_planes ? shape[1] : 1;
  const std::size_t run = static_cast<std::size_t>(rows) * row;
  const std::byte* from = samples.data();
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; y += rows) {
      place.WriteRow(y, z, from, run);
      from += run;
    }
  }
  place.EndWriting();
}

SamplePlace SampleArray::PlaceOf(const Box& part) const {
  const Index3 shape = extent.shape();
  const std::size_t row = static_cast<std::size_t>(shape[0]) * sample_size;
  const std::size_t plane = static_cast<std::size_t>(shape[1]) * row;
  const auto along = [&](std::size_t axis) {
    return static_cast<std::size_t>(part.begin[axis] - extent.begin[axis]);
  };
  return {samples + along(2) * plane + along(1) * row + along(0) * sample_size, row, plane,
          bytes() > kLargestCached};
}

}  // namespace quarry
