#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

/// libFuzzer and replay_main.cc call this with every input. A crash, a sanitizer report or an abort is a
/// finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace quarry::fuzz {

/// Ends the process when a condition fails that must hold for any bytes.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "BROKEN: %s\n", what);
  std::abort();
}

}  // namespace quarry::fuzz
