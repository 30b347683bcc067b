#pragma once

#include "quarry/codec/interpolate/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define QUARRY_HAS_X86_KERNELS 1
#endif
#if defined(__aarch64__) && defined(__GNUC__)
#define QUARRY_HAS_NEON_KERNELS 1
#endif

namespace quarry::interpolate {

namespace scalar {
const Kernels& Get();
}
#ifdef QUARRY_HAS_X86_KERNELS
namespace avx2 {
const Kernels& Get();
}
namespace avx512 {
const Kernels& Get();
}
#endif
#ifdef QUARRY_HAS_NEON_KERNELS
namespace neon {
const Kernels& Get();
}
#endif

}  // namespace quarry::interpolate
