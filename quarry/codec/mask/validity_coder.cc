#include "quarry/codec/mask/validity_coder.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "quarry/base/checked_math.h"
#include "quarry/codec/entropy/binary_coder.h"
#include "quarry/codec/mask/bit_grid.h"
#include "quarry/codec/mask/refine.h"
#include "quarry/codec/mask/sample_streams.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

using mask::BitGrid;
using mask::Models;

// First byte of the coarsest level of a patch that is not all valid.
enum class PatchMode : std::uint8_t {
  kMissing = 0,       // no valid sample at any level; no other byte follows
  kFirstMissing = 1,  // some are valid; sample (0, 0, 0) is missing
  kFirstValid = 2,    // some are missing; sample (0, 0, 0) is valid
};

/// Drops axes of one sample, so that planes and lines lie along x, the axis of the words.
Index3 WithoutUnitAxes(const Index3& shape) {
  Index3 squeezed = {1, 1, 1};
  std::size_t axes = 0;
  for (const std::int64_t extent : shape) {
    if (extent > 1) squeezed[axes++] = extent;
  }
  return squeezed;
}

/// The finest level with a single sample.
int Depth(const Index3& shape) {
  int level = 0;
  while (Volume(LevelShape(shape, level)) > 1) ++level;
  return level;
}

/// The levels in one payload: `finest` refined from `coarsest`. The coarsest payload starts from a single
/// sample.
struct LevelRange {
  int coarsest;
  int finest;
};

LevelRange LevelsOfPayload(const PatchLayout& layout, int level) {
  if (level < layout.levels - 1) return {level + 1, level};
  return {std::max(level, Depth(layout.shape)), level};
}

/// Samples that a range of levels adds.
std::int64_t NewSamples(const Index3& shape, const LevelRange& range) {
  return Volume(LevelShape(shape, range.finest)) - Volume(LevelShape(shape, range.coarsest));
}

/// Appends the samples of a range of levels.
/// @param grids  every level of the patch
void EncodeRange(const std::vector<BitGrid>& grids, const LevelRange& range, Models* models, Bytes* out) {
  const auto run = [&](auto* samples) {
    for (int level = range.coarsest - 1; level >= range.finest; --level) {
      const BitGrid& fine = grids[static_cast<std::size_t>(level)];
      mask::Refine(grids[static_cast<std::size_t>(level) + 1], fine.shape(), &fine, samples);
    }
  };
  const Models models_before = *models;
  Bytes stream;
  entropy::BinaryEncoder encoder(&stream);
  mask::PredictedSamples predicted(entropy::BitWriter{&encoder}, models);
  run(&predicted);
  encoder.Finish();
  const auto samples = static_cast<std::size_t>(NewSamples(grids[0].shape(), range));
  const std::size_t bitmap_size = CeilDivide<std::size_t>(samples, 8);
  // Noise decodes many times faster from a bitmap: the coder must save at least an eighth.
  if (stream.size() > bitmap_size - CeilDivide<std::size_t>(bitmap_size, 8)) {
    *models = models_before;
    stream.clear();
    mask::BitmapWriter bitmap(&stream);
    run(&bitmap);
  }
  out->insert(out->end(), stream.begin(), stream.end());
}

Result<BitGrid> DecodeRange(BitGrid grid, const Index3& shape, const LevelRange& range, ByteSpan payload,
                            Models* models) {
  const auto samples = static_cast<std::size_t>(NewSamples(shape, range));
  const std::size_t bitmap_size = CeilDivide<std::size_t>(samples, 8);
  if (payload.size() > bitmap_size)
    return DataLoss("the mask of {} samples has {} bytes, more than {}", samples, payload.size(),
                    bitmap_size);
  const auto run = [&](auto stream) {
    for (int level = range.coarsest - 1; level >= range.finest; --level) {
      grid = mask::Refine(std::move(grid), LevelShape(shape, level), nullptr, &stream);
    }
  };
  // The length tells them apart: the arithmetic coder is used only where it is shorter.
  if (payload.size() == bitmap_size) {
    run(mask::BitmapReader(payload));
  } else {
    entropy::BinaryDecoder decoder(payload);
    run(mask::PredictedSamples(entropy::BitReader{&decoder}, models));
  }
  return grid;
}

class Decoder final : public PatchDecoder {
 public:
  explicit Decoder(const PatchLayout& layout) : layout_(layout), level_(layout.levels) {
    layout_.shape = WithoutUnitAxes(layout.shape);
  }

  int level() const override { return level_; }
  ByteSpan samples() const override { return samples_; }
  std::unique_ptr<PatchDecoder> Clone() const override { return std::make_unique<Decoder>(*this); }
  std::uint64_t memory() const override { return samples_.size() + samples_.size() / 8; }

  Result<bool> Advance(const LevelInput& input) override {
    ByteSpan payload = input.payload;
    if (level_ == 0) return InternalError("a mask of {} levels has no finer level", layout_.levels);
    const int level = level_ - 1;
    if (level_ == layout_.levels) QUARRY_RETURN_IF_ERROR(Start(&payload));
    if (state_ == State::kMixed) {
      QUARRY_ASSIGN_OR_RETURN(grid_, DecodeRange(std::move(grid_), layout_.shape,
                                                 LevelsOfPayload(layout_, level), payload, &models_));
      samples_ = mask::Unpack(grid_);
    } else {
      if (!payload.empty())
        return DataLoss("level {} of a mask of equal samples has {} bytes", level, payload.size());
      const auto value = static_cast<std::byte>(state_ == State::kValid ? 1 : 0);
      samples_.assign(static_cast<std::size_t>(Volume(LevelShape(layout_.shape, level))), value);
    }
    level_ = level;
    return false;
  }

 private:
  enum class State { kValid, kMissing, kMixed };

  /// Reads the mode off the front of the coarsest payload.
  Status Start(ByteSpan* payload) {
    if (payload->empty()) return Status::Ok();
    const auto mode = static_cast<PatchMode>(payload->front());
    if (mode > PatchMode::kFirstValid) return DataLoss("unknown mode {} of a mask", static_cast<int>(mode));
    *payload = payload->subspan(1);
    state_ = mode == PatchMode::kMissing ? State::kMissing : State::kMixed;
    grid_ = BitGrid({1, 1, 1});
    *grid_.Row(0, 0) = mode == PatchMode::kFirstValid ? 1 : 0;
    return Status::Ok();
  }

  PatchLayout layout_;
  int level_;
  State state_ = State::kValid;
  Models models_;
  BitGrid grid_;
  Bytes samples_;
};

Status CheckMask(const PatchLayout& layout, ByteSpan samples) {
  if (layout.type != DataType::kUint8)
    return InvalidArgument("a mask has samples of type uint8, not {}", Name(layout.type));
  if (samples.size() != static_cast<std::size_t>(Volume(layout.shape)) || samples.empty())
    return InvalidArgument("a mask of shape {} has {} samples", ToString(layout.shape), samples.size());
  if (std::any_of(samples.begin(), samples.end(), [](std::byte sample) { return sample > std::byte{1}; }))
    return InvalidArgument("a sample of a mask is neither 0 nor 1");
  return Status::Ok();
}

/// The mask at every level down to one sample, 0 the finest.
std::vector<BitGrid> Pyramid(const PatchLayout& layout, ByteSpan samples) {
  const Index3 shape = WithoutUnitAxes(layout.shape);
  const int levels = std::max(layout.levels, Depth(shape) + 1);
  std::vector<BitGrid> grids = {mask::Pack(samples, shape)};
  while (static_cast<int>(grids.size()) < levels) {
    grids.push_back(mask::Subsample(grids.back(), {0, 0, 0}, {2, 2, 2}));
  }
  return grids;
}

}  // namespace

Result<CodedPatch> ValidityCoder::EncodeChecked(const EncodeRequest& request) const {
  const PatchLayout& layout = request.layout;
  const ByteSpan samples = request.samples;
  QUARRY_RETURN_IF_ERROR(CheckMask(layout, samples));
  CodedPatch coded;
  coded.levels.resize(static_cast<std::size_t>(layout.levels));
  const std::vector<BitGrid> grids = Pyramid(layout, samples);
  for (int level = 0; level < layout.levels; ++level) {
    coded.decoded.push_back(mask::Unpack(grids[static_cast<std::size_t>(level)]));
  }
  const bool some_valid = std::find(samples.begin(), samples.end(), std::byte{1}) != samples.end();
  const bool some_missing = std::find(samples.begin(), samples.end(), std::byte{0}) != samples.end();
  if (!some_missing) return coded;
  const PatchMode mode = !some_valid                       ? PatchMode::kMissing
                         : samples.front() == std::byte{1} ? PatchMode::kFirstValid
                                                           : PatchMode::kFirstMissing;
  coded.levels.back().push_back(static_cast<std::byte>(mode));
  if (mode == PatchMode::kMissing) return coded;
  Models models;
  for (int level = layout.levels - 1; level >= 0; --level) {
    EncodeRange(grids, LevelsOfPayload(layout, level), &models,
                &coded.levels[static_cast<std::size_t>(level)]);
  }
  return coded;
}

std::unique_ptr<PatchDecoder> ValidityCoder::NewPlainDecoder(const PatchLayout& layout) const {
  return std::make_unique<Decoder>(layout);
}

bool ValidityCoder::SaysAllMissing(ByteSpan coarsest_payload) {
  return !coarsest_payload.empty() && coarsest_payload[0] == static_cast<std::byte>(PatchMode::kMissing);
}

}  // namespace quarry
