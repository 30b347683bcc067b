// Hostile payloads for the coders with safeguards; the first byte chooses one.

#include "quarry/codec/coder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/payload_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  constexpr CoderId kCoders[] = {CoderId::kInterpolateZeros, CoderId::kInterpolateSigns,
                                 CoderId::kInterpolateRelative};
  if (size == 0) return 0;
  const PatchCoder& coder = *FindCoder(kCoders[data[0] % std::size(kCoders)]);
  const std::vector<DataType> types = fuzz::SupportedTypes(coder);
  const fuzz::PayloadInput input =
      fuzz::ReadInput(std::as_bytes(std::span(data + 1, size - 1)), types, coder.traits().most_layers);
  fuzz::DecodeInput(coder, input);
  return 0;
}
