#include "quarry/base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "quarry/bytes.h"

namespace quarry {

namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Smaller buffers fit into memory that the process has already touched.
constexpr std::size_t kLargeBuffer = 2 * kHugePage;
constexpr int kKeptAtTheTop = 1 << 30;
}  // namespace

void KeepFreedMemory() {
#if defined(__GLIBC__)
  constexpr int kLargestPooledBuffer = 32 << 20;  // the most that glibc accepts
  mallopt(M_MMAP_THRESHOLD, kLargestPooledBuffer);
  mallopt(M_TRIM_THRESHOLD, kKeptAtTheTop);
#endif
}

void ReturnFreedMemory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

void ReturnFreedMemoryOfThread() {
#if defined(__GLIBC__)
  // Freeing a block of this size looks at the end of the thread's arena, and returns what exceeds the
  // threshold.
  constexpr std::size_t kLooksAtTheEnd = 128 << 10;
  constexpr int kKept = 256 << 10;
  mallopt(M_TRIM_THRESHOLD, kKept);
  void* volatile block = std::malloc(kLooksAtTheEnd);  // volatile: compilers drop an unused allocation
  std::free(block);
  mallopt(M_TRIM_THRESHOLD, kKeptAtTheTop);
#endif
}

void WarmMemoryOfThread(std::size_t bytes) {
  constexpr std::size_t kPage = 4 << 10;
  auto* const block =
      static_cast<volatile char*>(std::malloc(bytes));  // volatile: compilers drop unused writes
  if (block == nullptr) return;
  for (std::size_t at = 0; at < bytes; at += kPage) block[at] = 0;
  std::free(const_cast<char*>(block));
}

std::uint64_t PrivateMemory() {
  std::ifstream statm("/proc/self/statm");  // pages: total, resident, file-backed
  std::uint64_t addresses = 0;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
  if (!(statm >> addresses >> resident >> shared)) return 0;
  return (resident - std::min(resident, shared)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void AdviseHugePages([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  void* first = begin;
  std::size_t left = bytes;
  if (begin == nullptr || std::align(kHugePage, kHugePage, first, left) == nullptr) return;
  ::madvise(first, left / kHugePage * kHugePage, MADV_HUGEPAGE);  // advice: it may be refused
#endif
}

void* AllocateBuffer(std::size_t bytes) {
  void* buffer = nullptr;
  if (bytes < kLargeBuffer) {
    buffer = std::malloc(bytes);
  } else {
    const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    if (rounded < bytes) throw std::bad_alloc();
    buffer = std::aligned_alloc(kHugePage, rounded);
    AdviseHugePages(buffer, rounded);
  }
  if (buffer == nullptr) throw std::bad_alloc();
  return buffer;
}

void FreeBuffer(void* buffer) { std::free(buffer); }

}  // namespace quarry
