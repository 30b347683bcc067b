#include "quarry/base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <thread>

namespace quarry {
namespace {

struct FreeMask {
  void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
};

}  // namespace

int MachineProcessors() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int UsableProcessors() {
  // The kernel refuses a mask that is shorter than its own (EINVAL), and does not say how long that is.
  constexpr int kMost = 1 << 20;
  for (int processors = CPU_SETSIZE; processors <= kMost; processors *= 2) {
    const std::unique_ptr<cpu_set_t, FreeMask> mask(CPU_ALLOC(static_cast<std::size_t>(processors)));
    if (!mask) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(processors));
    if (::sched_getaffinity(0, bytes, mask.get()) == 0) return std::max(1, CPU_COUNT_S(bytes, mask.get()));
    if (errno != EINVAL) break;
  }
  return MachineProcessors();
}

}  // namespace quarry
