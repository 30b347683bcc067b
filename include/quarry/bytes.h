#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace quarry {

/// Large buffers come in huge pages where the system has them: touching fresh memory page by page took a
/// fifth of the time of a large read.
/// @errors throws std::bad_alloc
void* AllocateBuffer(std::size_t bytes);
void FreeBuffer(void* buffer);

/// Allocator of byte strings and sample arrays. Leaves new elements uninitialized instead of writing zeros: a
/// read or a decoder fills nearly every buffer at once.
template <typename T>
struct BufferAllocator {
  using value_type = T;

  BufferAllocator() = default;
  template <typename U>
  BufferAllocator(const BufferAllocator<U>&) {}  // NOLINT: allocators convert implicitly

  T* allocate(std::size_t count) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(AllocateBuffer(count * sizeof(T)));
  }
  void deallocate(T* buffer, std::size_t) { FreeBuffer(buffer); }

  template <typename U, typename... Args>
  void construct(U* p, Args&&... args) {
    if constexpr (sizeof...(Args) > 0) ::new (static_cast<void*>(p)) U(std::forward<Args>(args)...);
  }
  friend bool operator==(const BufferAllocator&, const BufferAllocator&) { return true; }
};

/// A byte string. resize() to a larger size leaves the new bytes unset.
using Bytes = std::vector<std::byte, BufferAllocator<std::byte>>;
using ByteSpan = std::span<const std::byte>;

}  // namespace quarry
