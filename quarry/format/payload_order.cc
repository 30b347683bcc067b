#include "quarry/payload_order.h"

#include <string>

#include "quarry/base/status.h"

namespace quarry::format {

Result<PayloadOrder> ParsePayloadOrder(std::string_view word) {
  std::string known;
  for (const PayloadOrder order : kPayloadOrders) {
    if (word == NameOf(order)) return order;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", NameOf(order));
  }
  return InvalidArgument("\"{}\" is no payload order; give one of {}", word, known);
}

}  // namespace quarry::format
