#include "quarry/base/memory.h"

#include <cstdlib>

// Buffers come from the module's own heap: there are no huge pages, and no system to return memory to.
namespace quarry {

void* AllocateBuffer(std::size_t bytes) {
  void* buffer = std::malloc(bytes);
  if (buffer == nullptr) throw std::bad_alloc();
  return buffer;
}

void FreeBuffer(void* buffer) { std::free(buffer); }

}  // namespace quarry
