#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "quarry/base/endian.h"
#include "tests/fuzz/fuzz_target.h"

namespace quarry::fuzz {

/// Bytes as an in-memory file with a path.
class MemoryFile {
 public:
  explicit MemoryFile(ByteSpan bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    while (!bytes.empty()) {
      const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
      Require(put > 0, "a file in memory can be written");
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

}  // namespace quarry::fuzz
