// Encodes one patch with a coder of the library, for tests that read its payloads with a decoder of their
// own.

#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quarry/base/split.h"
#include "quarry/codec/coder.h"
#include "quarry/geometry/patch_grid.h"

namespace quarry {
namespace {

constexpr const char* kUsage =
    "usage: encode_patch CODER TYPE SHAPE LEVELS TOLERANCES SAMPLES MASK FOLDER\n"
    "  SHAPE      as 9x5x3, x fastest\n"
    "  TOLERANCES of the layers of accuracy, as 1e-2,1e-4\n"
    "  SAMPLES    file of the raw samples, little-endian\n"
    "  MASK       file with a byte for each sample, 1 valid or 0 missing; - when all are valid\n"
    "  FOLDER     gets payload.K.L and decoded.K.L of level L of layer K, as the library's decoder reads "
    "it\n";

Result<Bytes> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) return NotFound("cannot read \"{}\"", path);
  const ByteSpan bytes = std::as_bytes(std::span(text));
  return Bytes(bytes.begin(), bytes.end());
}

Status WriteFile(const std::string& path, ByteSpan bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  return out ? Status::Ok() : InternalError("cannot write \"{}\"", path);
}

/// Samples as bytes that are little-endian, or were: swapping is its own inverse.
Bytes LittleEndianSamples(ByteSpan samples, std::size_t size) {
  Bytes swapped(samples.begin(), samples.end());
  if constexpr (std::endian::native == std::endian::big) {
    for (auto at = swapped.begin(); at != swapped.end(); at += static_cast<std::ptrdiff_t>(size))
      std::reverse(at, at + static_cast<std::ptrdiff_t>(size));
  }
  return swapped;
}

/// Every 2^level-th sample of a mask.
Bytes LevelMask(ByteSpan mask, const Index3& shape, int level) {
  Bytes coarse;
  const std::int64_t stride = std::int64_t{1} << level;
  for (std::int64_t z = 0; z < shape[2] && !mask.empty(); z += stride) {
    for (std::int64_t y = 0; y < shape[1]; y += stride) {
      for (std::int64_t x = 0; x < shape[0]; x += stride)
        coarse.push_back(mask[static_cast<std::size_t>((z * shape[1] + y) * shape[0] + x)]);
    }
  }
  return coarse;
}

Validity AsValidity(const Bytes& mask) {
  return {reinterpret_cast<const std::uint8_t*>(mask.data()), mask.size()};
}

/// Checks that the decoder gets the samples that the encoder announces, bit by bit where they are valid.
Status CheckPromise(ByteSpan decoded, ByteSpan promised, const Bytes& mask, std::size_t size, int level) {
  if (decoded.size() != promised.size()) return InternalError("level {} has a wrong size", level);
  for (std::size_t i = 0; i * size < decoded.size(); ++i) {
    if (!mask.empty() && mask[i] == std::byte{0}) continue;
    if (std::memcmp(decoded.data() + i * size, promised.data() + i * size, size) != 0)
      return InternalError("sample {} of level {} is decoded otherwise than the encoder said", i, level);
  }
  return Status::Ok();
}

std::vector<double> ParseTolerances(const std::string& text) {
  std::vector<double> tolerances;
  for (const std::string_view part : Split(text, ','))
    tolerances.push_back(std::strtod(std::string(part).c_str(), nullptr));
  return tolerances;
}

Status Run(char** arguments) {
  QUARRY_ASSIGN_OR_RETURN(const CoderId id, ParseCoder(arguments[0]));
  PatchLayout layout;
  QUARRY_ASSIGN_OR_RETURN(layout.type, ParseDataType(arguments[1]));
  QUARRY_ASSIGN_OR_RETURN(layout.shape, ParseShape(arguments[2], "SHAPE"));
  layout.levels = std::atoi(arguments[3]);
  const std::vector<double> tolerances = ParseTolerances(arguments[4]);
  const std::size_t size = SizeOf(layout.type);
  QUARRY_ASSIGN_OR_RETURN(const Bytes stored, ReadFile(arguments[5]));
  Bytes mask;
  if (std::string(arguments[6]) != "-") {
    QUARRY_ASSIGN_OR_RETURN(mask, ReadFile(arguments[6]));
  }
  const std::string folder = arguments[7];

  const PatchCoder& coder = *FindCoder(id);
  const Bytes samples = LittleEndianSamples(stored, size);
  QUARRY_ASSIGN_OR_RETURN(const CodedPatch coded,
                          coder.Encode({layout, samples, AsValidity(mask), tolerances}));
  std::vector<std::unique_ptr<PatchDecoder>> layers;
  const PatchParts parts{layout.levels, static_cast<int>(tolerances.size())};
  for (std::size_t k = 0; k < tolerances.size(); ++k) layers.push_back(coder.NewDecoder(layout));
  for (int level = layout.levels - 1; level >= 0; --level) {
    const Bytes level_mask = LevelMask(mask, layout.shape, level);
    for (std::size_t k = 0; k < layers.size(); ++k) {
      const std::size_t part = parts.Of(static_cast<int>(k), level);
      const Bytes& payload = coded.levels[part];
      QUARRY_RETURN_IF_ERROR(layers[k]->Advance({.payload = payload,
                                                 .validity = AsValidity(level_mask),
                                                 .before = k == 0 ? nullptr : layers[k - 1].get()}));
      const ByteSpan decoded = layers[k]->samples();
      QUARRY_RETURN_IF_ERROR(CheckPromise(decoded, coded.decoded[part], level_mask, size, level));
      QUARRY_RETURN_IF_ERROR(WriteFile(fmt::format("{}/payload.{}.{}", folder, k, level), payload));
      QUARRY_RETURN_IF_ERROR(
          WriteFile(fmt::format("{}/decoded.{}.{}", folder, k, level), LittleEndianSamples(decoded, size)));
    }
  }
  return Status::Ok();
}

}  // namespace
}  // namespace quarry

int main(int count, char** arguments) {
  if (count != 9) {
    fmt::print(stderr, "{}", quarry::kUsage);
    return 2;
  }
  const quarry::Status status = quarry::Run(arguments + 1);
  if (!status.ok()) fmt::print(stderr, "encode_patch: {}\n", status.message());
  return status.ok() ? 0 : 1;
}
