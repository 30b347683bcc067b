#include "quarry/codec/interpolate/kernels_isa.h"

#define QUARRY_KERNEL

namespace quarry::interpolate::scalar {

#include "quarry/codec/interpolate/kernels.inl"

namespace {

bool DecodeRans(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                std::uint8_t* symbols) {
  return DecodeRansScalar(reader, tables, 0, count, symbols);
}

void EncodeRans(entropy::RansWriter* writer, const entropy::CodedSymbol* symbols, std::size_t count) {
  EncodeRansScalar(writer, symbols, 0, count);
}

constexpr auto* Classify = &ClassifyScalar;
constexpr auto* Compact = &CompactScalar;
constexpr auto* Expand = &ExpandScalar;
constexpr auto* FoldLow = &FoldLowScalar;

void UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables, std::size_t count, LowBits* low_bits,
               std::int32_t* indices) {
  UnfoldLowScalar(symbols, tables, count, low_bits, indices);
}

}  // namespace

#include "quarry/codec/interpolate/kernels_table.inl"

const Kernels& Get() {
  static constexpr Kernels kernels = MakeKernels("scalar");
  return kernels;
}

}  // namespace quarry::interpolate::scalar
