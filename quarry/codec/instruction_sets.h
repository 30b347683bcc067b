#pragma once

/// Loops compiled for more than one instruction set, chosen when the program runs: binaries are built for the
/// oldest processor of an architecture. Safe only for code whose results do not depend on the width of
/// vectors: element by element, no fused multiply-add, no reordered sums.

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

/// Calls Kernel::Run(args...), which has to be QUARRY_INLINE together with whatever it spends its time in.
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
