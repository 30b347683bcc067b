#include "quarry/query/patch_part.h"

#include <algorithm>
#include <cstring>

namespace quarry::query {
namespace {

/// Copies `count` samples that lie `stride` bytes apart.
void CopyRow(const std::byte* from, std::size_t stride, std::size_t count, std::size_t sample_size,
             std::byte* to) {
  if (stride == sample_size) {
    std::memcpy(to, from, count * sample_size);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * sample_size, from + i * stride, sample_size);
}

/// Each sample is the one of the coarser level at or before it, or the first.
Bytes Repeat(const PatchPart& part, ByteSpan decoded, const Box& coarse, int coarser,
             std::size_t sample_size) {
  const Index3 source = coarse.shape();
  const auto place = [&](std::size_t axis, std::int64_t i) {
    return std::clamp((i * part.step[axis]) >> coarser, coarse.begin[axis], coarse.end[axis] - 1) -
           coarse.begin[axis];
  };
  Bytes out(static_cast<std::size_t>(part.extent.volume()) * sample_size);
  std::byte* to = out.data();
  for (std::int64_t z = part.extent.begin[2]; z < part.extent.end[2]; ++z) {
    for (std::int64_t y = part.extent.begin[1]; y < part.extent.end[1]; ++y) {
      for (std::int64_t x = part.extent.begin[0]; x < part.extent.end[0]; ++x) {
        const std::int64_t from = (place(2, z) * source[1] + place(1, y)) * source[0] + place(0, x);
        std::memcpy(to, decoded.data() + static_cast<std::size_t>(from) * sample_size, sample_size);
        to += sample_size;
      }
    }
  }
  return out;
}

}  // namespace

PatchPart PartOf(const Query& query, int level, const Box& samples) {
  PatchPart part;
  const Index3 spacing = SpacingAt(query, level);
  part.decoded = LevelBox(samples, level);
  part.extent = SpacedBox(Intersect(samples, query.box), spacing);
  // An axis with one sample allows any stride: its only sample is the first.
  for (std::size_t a = 0; a < 3; ++a) part.step[a] = std::max<std::int64_t>(1, spacing[a] >> level);
  return part;
}

Bytes CutOut(const PatchPart& part, ByteSpan decoded, std::size_t sample_size) {
  const Index3 shape = part.extent.shape();
  const Index3 source = part.decoded.shape();
  const auto row_samples = static_cast<std::size_t>(shape[0]);
  Bytes out(static_cast<std::size_t>(part.extent.volume()) * sample_size);
  std::byte* to = out.data();
  const auto place = [&](std::size_t axis, std::int64_t i) {
    return (part.extent.begin[axis] + i) * part.step[axis] - part.decoded.begin[axis];
  };
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const std::int64_t first = (place(2, z) * source[1] + place(1, y)) * source[0] + place(0, 0);
      CopyRow(decoded.data() + static_cast<std::size_t>(first) * sample_size,
              static_cast<std::size_t>(part.step[0]) * sample_size, row_samples, sample_size, to);
      to += row_samples * sample_size;
    }
  }
  return out;
}

CutSamples Cut(const PatchPart& part, ByteSpan decoded, const Box& box, int coarser,
               std::size_t sample_size) {
  CutSamples cut;
  if (coarser == 0 && part.whole()) {
    cut.samples = decoded;
    return cut;
  }
  cut.copy =
      coarser == 0 ? CutOut(part, decoded, sample_size) : Repeat(part, decoded, box, coarser, sample_size);
  cut.samples = cut.copy;
  return cut;
}

}  // namespace quarry::query
