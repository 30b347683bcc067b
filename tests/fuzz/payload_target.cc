// Hostile payloads for one coder, which CMake selects.

#include "quarry/codec/coder.h"
#include "quarry/codec/interpolate/kernels.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/payload_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  static const PatchCoder& coder = *FindCoder(CoderId::QUARRY_FUZZ_CODER);
  static const std::vector<DataType> types = fuzz::SupportedTypes(coder);
  const fuzz::PayloadInput input =
      fuzz::ReadInput(std::as_bytes(std::span(data, size)), types, coder.traits().most_layers);
  const std::vector<Bytes> decoded = fuzz::DecodeInput(coder, input);
  if (coder.id() == CoderId::kInterpolate) {
    // Hostile bytes also decode to the same samples with every instruction set.
    static const std::string_view best = interpolate::ActiveKernels().name;
    interpolate::SelectKernels("scalar");
    const bool same = fuzz::DecodeInput(coder, input) == decoded;
    interpolate::SelectKernels(best);
    fuzz::Require(same, "two instruction sets decode the same samples");
  }
  return 0;
}
