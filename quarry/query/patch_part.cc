#include "quarry/query/patch_part.h"

#include <algorithm>
#include <cstring>

#include "quarry/query/question_rules.h"

namespace quarry::query {
namespace {

/// Copies `count` samples that lie `stride` bytes apart.
void GatherRow(const std::byte* from, std::size_t stride, std::size_t count, std::size_t sample_size,
               std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * sample_size, from + i * stride, sample_size);
}

void WriteCut(const PatchPart& part, ByteSpan decoded, std::size_t sample_size, const SamplePlace& to) {
  const Index3 shape = part.extent.shape();
  const Index3 source = part.decoded.shape();
  const auto row_samples = static_cast<std::size_t>(shape[0]);
  const std::size_t stride = static_cast<std::size_t>(part.step[0]) * sample_size;
  Bytes gathered(part.step[0] == 1 ? 0 : row_samples * sample_size);
  const auto place = [&](std::size_t axis, std::int64_t i) {
    return (part.extent.begin[axis] + i) * part.step[axis] - part.decoded.begin[axis];
  };
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      const std::int64_t first = (place(2, z) * source[1] + place(1, y)) * source[0] + place(0, 0);
      const std::byte* row = decoded.data() + static_cast<std::size_t>(first) * sample_size;
      if (!gathered.empty()) {
        GatherRow(row, stride, row_samples, sample_size, gathered.data());
        row = gathered.data();
      }
      to.WriteRow(y, z, row, row_samples * sample_size);
    }
  }
}

/// Each sample is the one of the coarser level at or before it, or the first.
void WriteRepeated(const PatchPart& part, ByteSpan decoded, const Box& coarse, int coarser,
                   std::size_t sample_size, const SamplePlace& to) {
  const Index3 shape = part.extent.shape();
  const Index3 source = coarse.shape();
  const auto place = [&](std::size_t axis, std::int64_t i) {
    return std::clamp(((part.extent.begin[axis] + i) * part.step[axis]) >> coarser, coarse.begin[axis],
                      coarse.end[axis] - 1) -
           coarse.begin[axis];
  };
  Bytes row(static_cast<std::size_t>(shape[0]) * sample_size);
  for (std::int64_t z = 0; z < shape[2]; ++z) {
    for (std::int64_t y = 0; y < shape[1]; ++y) {
      for (std::int64_t x = 0; x < shape[0]; ++x) {
        const std::int64_t from = (place(2, z) * source[1] + place(1, y)) * source[0] + place(0, x);
        std::memcpy(row.data() + static_cast<std::size_t>(x) * sample_size,
                    decoded.data() + static_cast<std::size_t>(from) * sample_size, sample_size);
      }
      to.WriteRow(y, z, row.data(), row.size());
    }
  }
}

Bytes Copy(const PatchPart& part, ByteSpan decoded, const Box& box, int coarser, std::size_t sample_size) {
  Bytes out(static_cast<std::size_t>(part.extent.volume()) * sample_size);
  WritePart(part, decoded, box, coarser, sample_size,
            SamplePlace::Dense(out.data(), part.extent.shape(), sample_size));
  return out;
}

}  // namespace

PatchPart PartOf(const Query& query, int level, const Box& samples) {
  PatchPart part;
  const Index3 spacing = SpacingAt(query.target, level);
  part.decoded = LevelBox(samples, level);
  part.extent = SpacedBox(Intersect(samples, query.box), spacing);
  // An axis with one sample allows any stride: its only sample is the first.
  for (std::size_t a = 0; a < 3; ++a) part.step[a] = std::max<std::int64_t>(1, spacing[a] >> level);
  return part;
}

void WritePart(const PatchPart& part, ByteSpan decoded, const Box& box, int coarser, std::size_t sample_size,
               const SamplePlace& place) {
  if (coarser > 0) {
    WriteRepeated(part, decoded, box, coarser, sample_size, place);
  } else {
    WriteCut(part, decoded, sample_size, place);
  }
  place.EndWriting();
}

Bytes CutOut(const PatchPart& part, ByteSpan decoded, std::size_t sample_size) {
  return Copy(part, decoded, part.decoded, 0, sample_size);
}

CutSamples Cut(const PatchPart& part, ByteSpan decoded, const Box& box, int coarser,
               std::size_t sample_size) {
  CutSamples cut;
  if (coarser == 0 && part.whole()) {
    cut.samples = decoded;
    return cut;
  }
  cut.copy = Copy(part, decoded, box, coarser, sample_size);
  cut.samples = cut.copy;
  return cut;
}

}  // namespace quarry::query
