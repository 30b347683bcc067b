#include "quarry/base/memory.h"

#include "quarry/bytes.h"

// Buffers come from the module's own heap: there are no huge pages, and no system to return memory to.
namespace quarry {

void* AllocateBuffer(std::size_t bytes) { return ::operator new(bytes); }
void FreeBuffer(void* buffer) { ::operator delete(buffer); }

}  // namespace quarry
