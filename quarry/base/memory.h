#pragma once

#include <cstddef>
#include <cstdint>

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

/// Touches memory of this thread's arena, for the first large buffers of the thread. Does nothing if there is
/// no memory.
void WarmMemoryOfThread(std::size_t bytes);

/// [bytes] of memory private to this process, without files; 0 where the system does not say.
std::uint64_t PrivateMemory();

/// Asks the system for huge pages when this memory is first touched. No effect if the system has none, or the
/// range holds none.
void AdviseHugePages(void* begin, std::size_t bytes);

}  // namespace quarry
