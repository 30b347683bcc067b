#include "benchmarks/reproduction/model/stack_model.h"

#include <array>
#include <string>

#include "quarry/base/numbers.h"

namespace quarry::reproduction {

using distribution::ReadingOrder;

std::span<const StackConstant> StackConstants() {
  static constexpr std::array kConstants = {
      StackConstant{"decode_s_per_mib", &StackMachine::decode_s_per_mib},
      StackConstant{"decode_slower_per_reader", &StackMachine::decode_slower_per_reader},
      StackConstant{"at_once_mib_per_s", &StackMachine::at_once_mib_per_s},
      StackConstant{"round_mib_per_s", &StackMachine::round_mib_per_s},
      StackConstant{"round_s_per_rank", &StackMachine::round_s_per_rank},
  };
  return kConstants;
}

Status SetConstant(std::string_view assignment, StackMachine* machine) {
  const std::size_t equals = std::min(assignment.find('='), assignment.size());
  const std::string_view name = assignment.substr(0, equals);
  std::string known;
  for (const StackConstant& constant : StackConstants()) {
    known += (known.empty() ? "" : ", ") + std::string(constant.name);
    if (name != constant.name) continue;
    const std::string_view text = assignment.substr(std::min(equals + 1, assignment.size()));
    const Result<double> value = quarry::ParseNumber<double>(text);
    // Bandwidths are divided by.
    const bool zero_allowed = !name.ends_with("mib_per_s");
    if (!value.ok() || *value < 0 || (*value == 0 && !zero_allowed)) {
      return InvalidArgument("--set {}: \"{}\" is not a number {} 0", name, text,
                             zero_allowed ? "of at least" : "above");
    }
    machine->*constant.value = *value;
    return Status::Ok();
  }
  return InvalidArgument("--set \"{}\": there is no constant \"{}\"; known are {}", assignment, name, known);
}

StackSeconds PredictStack(const StackMachine& machine, const StackWork& work) {
  const auto ranks = static_cast<double>(work.ranks);
  StackSeconds seconds;
  seconds.decode = static_cast<double>(work.images_per_rank) * work.image_mib * machine.decode_s_per_mib *
                   (1 + machine.decode_slower_per_reader * ranks);
  const auto rounds = static_cast<double>(work.rounds);
  if (work.order == ReadingOrder::kConsecutive)
    seconds.exchange = rounds * work.mib_per_rank_per_round / machine.at_once_mib_per_s;
  if (work.order == ReadingOrder::kRoundRobin) {
    seconds.exchange =
        rounds * (work.mib_per_rank_per_round / machine.round_mib_per_s + machine.round_s_per_rank * ranks);
  }
  return seconds;
}

}  // namespace quarry::reproduction
