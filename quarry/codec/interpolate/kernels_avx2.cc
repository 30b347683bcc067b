#include "quarry/codec/interpolate/kernels_isa.h"

#ifdef QUARRY_HAS_X86_KERNELS

#include <immintrin.h>

#include "quarry/codec/interpolate/lanes.h"

#define QUARRY_KERNEL __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))

namespace quarry::interpolate::avx2 {

#include "quarry/codec/interpolate/kernels.inl"
#include "quarry/codec/interpolate/kernels_x86.inl"
// The rounds are those of kernels_x86.inl.
#include "quarry/codec/interpolate/kernels_rounds.inl"
#include "quarry/codec/interpolate/kernels_table.inl"

const Kernels& Get() {
  static constexpr Kernels kernels = MakeKernels("avx2");
  return kernels;
}

}  // namespace quarry::interpolate::avx2

#endif
