#pragma once

namespace quarry {

/// Version of the programs; tests compare it with the build's.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace quarry
