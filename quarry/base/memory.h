#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace quarry {

/// Tells the C library to reuse freed buffers instead of returning them to the system after each use: a read
/// allocates and frees megabyte buffers all the time. For main() of programs that read. No effect where the
/// library lacks the setting.
void KeepFreedMemory();

/// Returns the kept memory to the system, as far as whole pages are free. Takes some milliseconds, during
/// which other threads wait for memory. Thread-safe.
void ReturnFreedMemory();

/// Returns what this thread has just freed, after it held much in small pieces: the C library keeps an arena
/// for each of many threads, and ReturnFreedMemory leaves the free end of each as it is. Takes microseconds.
void ReturnFreedMemoryOfThread();

/// [bytes] of memory private to this process, without files; 0 where the system does not say.
std::uint64_t PrivateMemory();

/// Asks the system for huge pages when this memory is first touched. No effect if the system has none, or the
/// range holds none.
void AdviseHugePages(void* begin, std::size_t bytes);

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

}  // namespace quarry
