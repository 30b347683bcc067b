#include "quarry/box_view.h"

#include <cstring>

#include "writer/redistribute/copy_part.h"

namespace quarry::redistribute {
namespace {

Index3 DenseStride(const Box& box, std::size_t sample_bytes) {
  const Index3 shape = box.shape();
  const auto size = static_cast<std::int64_t>(sample_bytes);
  return {size, size * shape[0], size * shape[0] * shape[1]};
}

/// Copies a row along x that is strided on a side; `kBytes` per sample, or 0 if only `bytes` gives the size.
template <std::size_t kBytes>
void CopyApart(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride,
               std::int64_t count, std::size_t bytes) {
  for (std::int64_t x = 0; x < count; ++x)
    std::memcpy(to + x * to_stride, from + x * from_stride, kBytes == 0 ? bytes : kBytes);
}

void CopyRow(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride,
             std::int64_t count, std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  if (from_stride == size && to_stride == size) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * bytes);
    return;
  }
  switch (bytes) {
    case 4:
      return CopyApart<4>(from, from_stride, to, to_stride, count, bytes);
    case 8:
      return CopyApart<8>(from, from_stride, to, to_stride, count, bytes);
    default:
      return CopyApart<0>(from, from_stride, to, to_stride, count, bytes);
  }
}

}  // namespace

BoxView BoxView::Dense(const void* data, const Box& box, std::size_t sample_bytes) {
  return {static_cast<const std::byte*>(data), DenseStride(box, sample_bytes)};
}

MutableBoxView MutableBoxView::Dense(void* data, const Box& box, std::size_t sample_bytes) {
  return {static_cast<std::byte*>(data), DenseStride(box, sample_bytes)};
}

const std::byte* FirstSample(const BoxView& view, const Box& box, const Box& part) {
  const std::byte* data = view.data;
  for (std::size_t a = 0; a < 3; ++a) data += (part.begin[a] - box.begin[a]) * view.stride[a];
  return data;
}

void CopyPart(const BoxView& from, const Box& from_box, const MutableBoxView& to, const Box& to_box,
              const Box& part, std::size_t sample_bytes) {
  const std::byte* source = FirstSample(from, from_box, part);
  std::byte* target = to.data + (FirstSample(to, to_box, part) - to.data);
  const Index3 shape = part.shape();
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      CopyRow(source + y * from.stride[1] + z * from.stride[2], from.stride[0],
              target + y * to.stride[1] + z * to.stride[2], to.stride[0], shape[0], sample_bytes);
    }
  }
}

}  // namespace quarry::redistribute
