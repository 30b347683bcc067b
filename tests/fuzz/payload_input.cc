#include "tests/fuzz/payload_input.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "quarry/codec/patch_reader.h"
#include "quarry/geometry/patch_grid.h"
#include "tests/fuzz/fuzz_target.h"

namespace quarry::fuzz {
namespace {

constexpr std::int64_t kMaxVolume = 4096;
constexpr std::uint8_t kMasked = 0x08;
constexpr int kLayersAt = 4;
constexpr std::size_t kMostLayers = 4;
constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kInt8,  DataType::kUint8,
                               DataType::kInt16,   DataType::kUint16,  DataType::kInt32, DataType::kUint32};

/// Takes numbers and bytes off the front; zeros after the end.
class Taker {
 public:
  explicit Taker(ByteSpan bytes) : bytes_(bytes) {}

  std::size_t Byte() {
    if (bytes_.empty()) return 0;
    const auto byte = std::to_integer<std::size_t>(bytes_[0]);
    bytes_ = bytes_.subspan(1);
    return byte;
  }
  std::size_t Size() {
    const std::size_t low = Byte();
    return low | Byte() << 8;
  }
  ByteSpan Part(std::size_t size) {
    const ByteSpan part = bytes_.first(std::min(size, bytes_.size()));
    bytes_ = bytes_.subspan(part.size());
    return part;
  }

 private:
  ByteSpan bytes_;
};

void PutSize(std::size_t size, Bytes* out) { PutLittleEndian(out, static_cast<std::uint16_t>(size)); }

}  // namespace

PayloadInput ReadInput(ByteSpan bytes, std::span<const DataType> types, int most_layers) {
  Taker taker(bytes);
  PayloadInput input;
  const std::size_t first = taker.Byte();
  input.layout.type = types[(first & 7) % types.size()];
  Index3& shape = input.layout.shape;
  for (std::int64_t& extent : shape) extent = static_cast<std::int64_t>(taker.Byte() % 64 + 1);
  while (Volume(shape) > kMaxVolume) *std::max_element(shape.begin(), shape.end()) /= 2;
  input.layout.levels = static_cast<int>(taker.Byte() % 8 + 1);
  input.layers = std::min(most_layers, static_cast<int>((first >> kLayersAt) % kMostLayers) + 1);
  const auto levels = static_cast<std::size_t>(input.layout.levels);
  const auto parts = static_cast<std::size_t>(input.parts().count());
  const std::size_t of_first_layer = parts - levels;  // the first of its parts
  std::vector<std::size_t> sizes(parts);
  std::vector<std::size_t> mask_sizes(levels);
  for (std::size_t p = parts; p-- > 0;) {
    sizes[p] = taker.Size();
    if ((first & kMasked) != 0 && p >= of_first_layer) mask_sizes[p - of_first_layer] = taker.Size();
  }
  input.levels.resize(parts);
  input.mask_levels.resize(levels);
  for (std::size_t p = parts; p-- > 0;) {
    if (p >= of_first_layer)
      input.mask_levels[p - of_first_layer] = taker.Part(mask_sizes[p - of_first_layer]);
    input.levels[p] = taker.Part(sizes[p]);
  }
  return input;
}

Bytes WriteInput(const PatchLayout& layout, std::span<const DataType> types, std::span<const Bytes> levels,
                 std::span<const Bytes> mask_levels) {
  Bytes out;
  const auto type = std::find(types.begin(), types.end(), layout.type) - types.begin();
  const auto levels_of_layer = static_cast<std::size_t>(layout.levels);
  const std::size_t of_first_layer = levels.size() - levels_of_layer;
  const std::size_t further = levels.size() / levels_of_layer - 1;
  out.push_back(static_cast<std::byte>(static_cast<std::size_t>(type) | (mask_levels.empty() ? 0u : kMasked) |
                                       further << kLayersAt));
  for (const std::int64_t extent : layout.shape) out.push_back(static_cast<std::byte>(extent - 1));
  out.push_back(static_cast<std::byte>(layout.levels - 1));
  const auto has_mask = [&](std::size_t part) { return !mask_levels.empty() && part >= of_first_layer; };
  for (std::size_t p = levels.size(); p-- > 0;) {
    PutSize(levels[p].size(), &out);
    if (has_mask(p)) PutSize(mask_levels[p - of_first_layer].size(), &out);
  }
  for (std::size_t p = levels.size(); p-- > 0;) {
    if (has_mask(p)) {
      const Bytes& mask = mask_levels[p - of_first_layer];
      out.insert(out.end(), mask.begin(), mask.end());
    }
    out.insert(out.end(), levels[p].begin(), levels[p].end());
  }
  return out;
}

std::vector<DataType> SupportedTypes(const PatchCoder& coder) {
  std::vector<DataType> types;
  for (const DataType type : kTypes) {
    if (coder.Supports(type)) types.push_back(type);
  }
  return types;
}

namespace {

/// The next level straight into an array: the same samples as in the reader, or an error as there.
/// @param after  the reader after Advance, if that went well; otherwise null
void RequireTheSameInAnArray(PatchReader before, const PatchLayout& layout, std::span<const LevelParts> steps,
                             const PatchReader* after) {
  const Index3 shape = LevelShape(layout.shape, before.level() - 1);
  const std::size_t size = SizeOf(layout.type);
  Bytes array(static_cast<std::size_t>(Volume(shape)) * size);
  const Status status = before.AdvanceInto(steps, SamplePlace::Dense(array.data(), shape, size));
  Require(status.ok() == (after != nullptr), "a level decodes to an array if it decodes");
  Require(after == nullptr || std::ranges::equal(array, after->samples()),
          "an array gets the samples of the level");
}

/// A level of a patch, each payload in its own memory, so that a read beyond the end is detected.
struct OwnLevel {
  OwnLevel(const PayloadInput& input, int level)
      : mask(Copy(input.mask_levels[static_cast<std::size_t>(level)])) {
    for (int k = 0; k < input.layers; ++k) payloads.push_back(Copy(input.levels[input.parts().Of(k, level)]));
    spans.assign(payloads.begin(), payloads.end());
  }
  static Bytes Copy(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

  std::vector<Bytes> payloads;
  std::vector<ByteSpan> spans;
  Bytes mask;
};

/// The last of some steps refers to the others.
ReferenceGraph LastRefers(std::size_t steps) {
  if (steps == 1) return {};
  ReferenceGraph graph(steps);
  for (std::size_t i = 0; i + 1 < steps; ++i) graph.back().push_back(i);
  return graph;
}

void CheckLevel(const PatchReader& reader, const PatchLayout& layout, int level) {
  const auto count = static_cast<std::size_t>(Volume(LevelShape(layout.shape, level)));
  Require(reader.level() == level, "a level that was decoded is the level of the reader");
  Require(reader.samples().size() == count * SizeOf(layout.type), "samples fill the level");
  Require(reader.validity().empty() || reader.validity().size() == count, "the mask fills the level");
  const bool flags = std::all_of(reader.validity().begin(), reader.validity().end(),
                                 [](std::uint8_t valid) { return valid <= 1; });
  Require(flags, "a mask is made of 0 and 1");
}

}  // namespace

std::vector<Bytes> DecodeInput(const PatchCoder& coder, const PayloadInput& input) {
  return DecodeSteps(coder, {&input, 1});
}

std::vector<Bytes> DecodeSteps(const PatchCoder& coder, std::span<const PayloadInput> steps) {
  const PatchLayout& layout = steps.back().layout;
  std::vector<Bytes> decoded;
  PatchReader reader(coder, layout, steps.back().layers, LastRefers(steps.size()));
  for (int level = layout.levels - 1; level >= 0; --level) {
    std::vector<OwnLevel> own;
    for (const PayloadInput& step : steps) own.emplace_back(step, level);
    std::vector<LevelParts> parts;
    for (const OwnLevel& step : own) parts.push_back({step.spans, step.mask});
    std::optional<PatchReader> before;
    if (level == 0) before = reader.Clone();
    const Status status = reader.Advance(parts);
    if (before) RequireTheSameInAnArray(*std::move(before), layout, parts, status.ok() ? &reader : nullptr);
    if (!status.ok()) {
      Require(status.code() == StatusCode::kDataLoss, "an error of hostile bytes is kDataLoss");
      Require(!reader.Advance(parts).ok(), "after an error there is another one");
      break;
    }
    CheckLevel(reader, layout, level);
    decoded.emplace_back(reader.samples().begin(), reader.samples().end());
  }
  return decoded;
}

}  // namespace quarry::fuzz
