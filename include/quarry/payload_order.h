#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "quarry/result.h"

namespace quarry::format {

/// In which order the payloads of a subfile lie. The numbers are stored and never change.
enum class PayloadOrder : std::uint8_t {
  kPatch = 1,   ///< in each layer patch by patch, levels coarse to fine: random access first
  kLevel = 2,   ///< in each layer level by level from the coarsest, patches in Morton order: whole-domain
                ///< previews first
  kCoarse = 3,  ///< in each layer its coarse levels as in kLevel, then the others as in kPatch: both
};

inline constexpr std::array kPayloadOrders = {PayloadOrder::kPatch, PayloadOrder::kLevel,
                                              PayloadOrder::kCoarse};

/// The word for it in options and lists; nullptr for a number that is none.
constexpr const char* NameOf(PayloadOrder order) {
  switch (order) {
    case PayloadOrder::kPatch:
      return "patch";
    case PayloadOrder::kLevel:
      return "level";
    case PayloadOrder::kCoarse:
      return "coarse";
  }
  return nullptr;
}

/// The order that has this word. @errors kInvalidArgument: none has it
Result<PayloadOrder> ParsePayloadOrder(std::string_view word);

}  // namespace quarry::format
