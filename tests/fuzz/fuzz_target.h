#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

/// What libFuzzer and replay_main.cc call with every input. A crash, a report of a sanitizer or an abort is a
/// finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace quarry::fuzz {

/// Ends the process when something does not hold that must hold for any bytes.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "BROKEN: %s\n", what);
  std::abort();
}

}  // namespace quarry::fuzz
