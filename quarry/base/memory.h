#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace quarry {

/// Tells the C library to reuse freed buffers instead of giving them back to the system after each use. A
/// read takes and frees megabyte buffers all the time. For main() of programs that read; no effect where
/// there is no such setting.
void KeepFreedMemory();

/// Gives back what was kept, as far as whole pages are free. Takes some milliseconds; other threads wait for it
/// when they want memory. Thread-safe.
void ReturnFreedMemory();

/// [bytes] of memory that this process has for itself, without files; 0 where the system does not say.
std::uint64_t PrivateMemory();

/// Asks the system for huge pages where memory is touched for the first time. No effect where it has none, or
/// the range holds none.
void AdviseHugePages(void* begin, std::size_t bytes);

/// Memory for large buffers comes in huge pages where the system has them: touching fresh memory page by page
/// was a fifth of the time of a large read.
/// @errors throws std::bad_alloc
void* AllocateBuffer(std::size_t bytes);
void FreeBuffer(void* buffer);

/// Allocator of byte strings and sample arrays. Leaves new elements as they are instead of writing zeros:
/// nearly every buffer is filled by a read or a decoder at once.
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

}  // namespace quarry
