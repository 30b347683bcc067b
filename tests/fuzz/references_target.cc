// Hostile payloads of a patch that refers to one or two other steps.
//
// | bytes | meaning |
// |---|---|
// | 1 | bit 0: it refers to two steps |
// | 2 for each of these | u16 size of the payloads of that step, as in payload_input.h |
// | 5 | type, shape and levels, which all steps share, as in payload_input.h |
// | the rest | sizes and payloads of the steps, then of the patch |

#include <algorithm>

#include "quarry/codec/coder.h"
#include "quarry/codec/interpolate/kernels.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/payload_input.h"

namespace quarry::fuzz {
namespace {

constexpr std::size_t kHeaderBytes = 5;

/// A step's input, with the header of all.
Bytes WithHeader(ByteSpan header, ByteSpan rest) {
  Bytes input(header.begin(), header.end());
  input.insert(input.end(), rest.begin(), rest.end());
  return input;
}

void Decode(ByteSpan bytes) {
  if (bytes.empty()) return;
  const std::size_t references = 1 + (std::to_integer<std::size_t>(bytes[0]) & 1);
  if (bytes.size() < 1 + 2 * references + kHeaderBytes) return;
  const PatchCoder& coder = *FindCoder(CoderId::kInterpolate);
  static const std::vector<DataType> types = SupportedTypes(coder);
  const ByteSpan header = bytes.subspan(1 + 2 * references, kHeaderBytes);
  ByteSpan rest = bytes.subspan(1 + 2 * references + kHeaderBytes);
  std::vector<Bytes> inputs;
  for (std::size_t i = 0; i < references; ++i) {
    const std::size_t size =
        std::min<std::size_t>(GetLittleEndian<std::uint16_t>(bytes.data() + 1 + 2 * i), rest.size());
    inputs.push_back(WithHeader(header, rest.first(size)));
    rest = rest.subspan(size);
  }
  inputs.push_back(WithHeader(header, rest));
  std::vector<PayloadInput> steps;
  for (const Bytes& input : inputs) steps.push_back(ReadInput(input, types, coder.traits().most_layers));
  const std::vector<Bytes> decoded = DecodeSteps(coder, steps);
  static const std::string_view best = interpolate::ActiveKernels().name;
  interpolate::SelectKernels("scalar");
  const bool same = DecodeSteps(coder, steps) == decoded;
  interpolate::SelectKernels(best);
  Require(same, "two instruction sets decode the same samples");
}

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quarry::fuzz::Decode(std::as_bytes(std::span(data, size)));
  return 0;
}
