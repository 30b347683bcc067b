#pragma once

/// Names of the instruction sets that coders have vector code for, on this architecture.
namespace quarry::testing {

#ifdef __aarch64__
inline constexpr const char* kVectorSets[] = {"neon"};
#else
inline constexpr const char* kVectorSets[] = {"avx2", "avx512"};
#endif

}  // namespace quarry::testing
