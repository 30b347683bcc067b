#include "writer/convert/step_order.h"

#include <algorithm>

namespace quarry::writer {
namespace {

using Order = std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>>;

/// The steps between two places.
void AddBetween(const std::vector<std::uint64_t>& steps, std::size_t first, std::size_t last, Order* order) {
  if (last - first < 2) return;
  const std::size_t middle = first + (last - first) / 2;
  order->push_back({steps[middle], {steps[first], steps[last]}});
  AddBetween(steps, first, middle, order);
  AddBetween(steps, middle, last, order);
}

}  // namespace

Order OrderSteps(const std::vector<std::uint64_t>& steps, int keyframe) {
  Order order;
  if (keyframe <= 1) {
    for (const std::uint64_t step : steps) order.push_back({step, {}});
    return order;
  }
  if (steps.empty()) return order;
  order.push_back({steps.front(), {}});
  const auto span = static_cast<std::size_t>(keyframe);
  for (std::size_t first = 0; first + 1 < steps.size(); first += span) {
    const std::size_t last = std::min(first + span, steps.size() - 1);
    const bool is_keyframe = last == first + span;
    order.push_back({steps[last], is_keyframe ? std::vector<std::uint64_t>() : std::vector{steps[first]}});
    AddBetween(steps, first, last, &order);
  }
  return order;
}

}  // namespace quarry::writer
