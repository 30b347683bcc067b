#pragma once

#include <cstdint>

namespace quarry::format {

/// In which order the payloads of a subfile lie. The numbers are stored and never change.
enum class PayloadOrder : std::uint8_t {
  kPatch = 1,  ///< in each layer patch by patch, levels coarse to fine: random access first
  kLevel = 2,  ///< in each layer level by level from the coarsest, patches in Morton order: whole-domain
               ///< previews first
};

}  // namespace quarry::format
