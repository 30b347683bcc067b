#pragma once

/// Compiles loops for several instruction sets and selects one at run time: binaries are built for the oldest
/// processor of an architecture. Safe only for code whose results do not depend on the vector width: element
/// by element, no fused multiply-add, no reordered sums.

#if defined(__GNUC__)
#define QUARRY_INLINE [[gnu::always_inline]] inline
#else
#define QUARRY_INLINE inline
#endif

namespace quarry {

#if defined(__GNUC__) && defined(__x86_64__)

namespace internal {

template <typename Kernel, typename... Args>
__attribute__((target("avx2"))) void RunWithAvx2(Args... args) {
  Kernel::Run(args...);
}

}  // namespace internal

/// Calls Kernel::Run(args...). Run and the functions in which it spends its time must be QUARRY_INLINE.
template <typename Kernel, typename... Args>
void RunOnBestInstructionSet(Args... args) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return internal::RunWithAvx2<Kernel, Args...>(args...);
  Kernel::Run(args...);
}

#else

template <typename Kernel, typename... Args>
void RunOnBestInstructionSet(Args... args) {
  Kernel::Run(args...);
}

#endif

}  // namespace quarry
