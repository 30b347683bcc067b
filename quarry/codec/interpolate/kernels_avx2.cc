#include "quarry/codec/interpolate/kernels_isa.h"

#ifdef QUARRY_HAS_X86_KERNELS

#include <immintrin.h>

#include "quarry/codec/interpolate/lanes.h"

#define QUARRY_KERNEL __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

namespace quarry::interpolate::avx2 {

#include "quarry/codec/interpolate/kernels.inl"
#include "quarry/codec/interpolate/kernels_x86.inl"

namespace {

QUARRY_KERNEL bool DecodeRans(entropy::RansReader* reader, const std::uint8_t* tables, std::size_t count,
                              std::uint8_t* symbols) {
  switch (reader->lanes) {
    case entropy::kMostLanes:
      return DecodeRounds<8>(reader, tables, count, symbols);
    case entropy::kManyLanes:
      return DecodeRounds<4>(reader, tables, count, symbols);
    case entropy::kFewLanes:
      return DecodeRounds<1>(reader, tables, count, symbols);
    default:
      return DecodeRansScalar(reader, tables, 0, count, symbols);
  }
}

}  // namespace

#include "quarry/codec/interpolate/kernels_table.inl"

const Kernels& Get() {
  static constexpr Kernels kernels = MakeKernels("avx2");
  return kernels;
}

}  // namespace quarry::interpolate::avx2

#endif
