#include "quarry/codec/interpolate/kernels_isa.h"

#define QUARRY_KERNEL

namespace quarry::interpolate::scalar {

#include "quarry/codec/interpolate/kernels.inl"

namespace {

bool DecodeRans(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                std::uint8_t* symbols) {
  return DecodeRansScalar(reader, tables, 0, count, symbols);
}

std::size_t UnfoldLow(const std::uint8_t* symbols, const std::uint8_t* tables, const std::uint8_t* shifts,
                      const std::byte* bits, std::size_t position, std::size_t limit, std::size_t count,
                      std::int32_t* indices) {
  return UnfoldLowScalar(symbols, tables, shifts, bits, position, limit, count, indices);
}

}  // namespace

#include "quarry/codec/interpolate/kernels_table.inl"

const Kernels& Get() {
  static constexpr Kernels kernels = MakeKernels("scalar");
  return kernels;
}

}  // namespace quarry::interpolate::scalar
