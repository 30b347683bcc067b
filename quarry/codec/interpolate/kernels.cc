#include "quarry/codec/interpolate/kernels.h"

#include <atomic>
#include <cstdlib>

#include "quarry/codec/interpolate/kernels_isa.h"

namespace quarry::interpolate {
namespace {

const Kernels& Best() {
  if (const char* wanted = std::getenv("QUARRY_ISA")) {
    if (const Kernels* found = FindKernels(wanted)) return *found;
  }
  for (const std::string_view name : {"avx512", "avx2", "neon"}) {
    if (const Kernels* found = FindKernels(name)) return *found;
  }
  return scalar::Get();
}

std::atomic<const Kernels*>& Active() {
  static std::atomic<const Kernels*> active = &Best();
  return active;
}

}  // namespace

const Kernels& ActiveKernels() { return *Active().load(std::memory_order_relaxed); }

const Kernels* FindKernels(std::string_view name) {
#ifdef QUARRY_HAS_X86_KERNELS
  if (name == "avx512") {
    const bool here = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return here ? &avx512::Get() : nullptr;
  }
  if (name == "avx2")
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") ? &avx2::Get() : nullptr;
#endif
#ifdef QUARRY_HAS_NEON_KERNELS
  if (name == "neon") return &neon::Get();
#endif
  return name == "scalar" ? &scalar::Get() : nullptr;
}

void SelectKernels(const Kernels& kernels) { Active().store(&kernels); }

bool SelectKernels(std::string_view name) {
  const Kernels* kernels = FindKernels(name);
  if (kernels != nullptr) SelectKernels(*kernels);
  return kernels != nullptr;
}

}  // namespace quarry::interpolate
