#include "tests/testing/failing_memory.h"

#include <cstdlib>
#include <new>

namespace quarry::testing {
namespace {

thread_local int left = 0;  ///< allocations until the one that fails; 0: none does

void* Allocate(std::size_t bytes) {
  if (left > 0 && --left == 0) throw std::bad_alloc();
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

FailingAllocation::FailingAllocation(int n) { left = n; }
FailingAllocation::~FailingAllocation() { left = 0; }
bool FailingAllocation::failed() const { return left == 0; }

}  // namespace quarry::testing

void* operator new(std::size_t bytes) { return quarry::testing::Allocate(bytes); }
void* operator new[](std::size_t bytes) { return quarry::testing::Allocate(bytes); }
// std::stable_sort asks for memory in this way, and goes on without it.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return quarry::testing::Allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
