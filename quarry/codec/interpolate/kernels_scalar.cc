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

void Classify(const std::uint16_t* activity, std::size_t count, std::span<const std::uint16_t> thresholds,
              std::uint8_t* out) {
  ClassifyScalar(activity, count, thresholds, out);
}

std::size_t Compact(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count,
                    std::uint8_t* out) {
  return CompactScalar(bytes, valid, count, out);
}

void Expand(const std::uint8_t* bytes, const std::uint8_t* valid, std::size_t count, std::uint8_t fill,
            std::uint8_t* out) {
  ExpandScalar(bytes, valid, count, fill, out);
}

void UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables, std::size_t count, LowBits* low_bits,
               std::int32_t* indices) {
  UnfoldLowScalar(symbols, tables, count, low_bits, indices);
}

bool FoldLow(const std::int32_t* indices, const std::uint8_t* tables, const FoldTables& fold,
             std::size_t count, entropy::CodedSymbol* symbols, std::uint32_t* low) {
  return FoldLowScalar(indices, tables, fold, count, symbols, low);
}

}  // namespace

#include "quarry/codec/interpolate/kernels_table.inl"

const Kernels& Get() {
  static constexpr Kernels kernels = MakeKernels("scalar");
  return kernels;
}

}  // namespace quarry::interpolate::scalar
