#include "writer/model/machine.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "quarry/base/numbers.h"

namespace quarry::model {
namespace {

constexpr std::array kConstants = {
    MachineConstant{"cores_per_node", &Machine::cores_per_node, false},
    MachineConstant{"ranks_per_node", &Machine::ranks_per_node, true},
    MachineConstant{"cores_per_rank", &Machine::cores_per_rank, true},
    MachineConstant{"memory_bandwidth_bytes_per_s", &Machine::memory_bandwidth_bytes_per_s, false},
    MachineConstant{"gather_bandwidth_bytes_per_s", &Machine::gather_bandwidth_bytes_per_s, false},
    MachineConstant{"scan_bandwidth_bytes_per_s", &Machine::scan_bandwidth_bytes_per_s, false},
    MachineConstant{"send_bandwidth_bytes_per_s", &Machine::send_bandwidth_bytes_per_s, false},
    MachineConstant{"receive_bandwidth_bytes_per_s", &Machine::receive_bandwidth_bytes_per_s, false},
    MachineConstant{"message_overhead_s", &Machine::message_overhead_s, true},
    MachineConstant{"network_bandwidth_bytes_per_s", &Machine::network_bandwidth_bytes_per_s, false},
    MachineConstant{"network_latency_s", &Machine::network_latency_s, true},
    MachineConstant{"read_bandwidth_rank_bytes_per_s", &Machine::read_bandwidth_rank_bytes_per_s, false},
    MachineConstant{"read_bandwidth_total_bytes_per_s", &Machine::read_bandwidth_total_bytes_per_s, false},
    MachineConstant{"storage_targets", &Machine::storage_targets, false},
    MachineConstant{"target_write_bandwidth_bytes_per_s", &Machine::target_write_bandwidth_bytes_per_s,
                    false},
    MachineConstant{"node_write_bandwidth_bytes_per_s", &Machine::node_write_bandwidth_bytes_per_s, true},
    MachineConstant{"stream_write_bandwidth_bytes_per_s", &Machine::stream_write_bandwidth_bytes_per_s, true},
    MachineConstant{"shared_file_lock", &Machine::shared_file_lock, true},
    MachineConstant{"file_create_s", &Machine::file_create_s, true},
    MachineConstant{"file_creates_per_s", &Machine::file_creates_per_s, true},
    MachineConstant{"part_s", &Machine::part_s, true},
    MachineConstant{"publish_s", &Machine::publish_s, true},
    MachineConstant{"encode_s_per_byte", &Machine::encode_s_per_byte, true},
    MachineConstant{"compression_ratio", &Machine::compression_ratio, false},
    MachineConstant{"place_s_per_patch", &Machine::place_s_per_patch, true},
    MachineConstant{"assign_s_per_patch", &Machine::assign_s_per_patch, true},
    MachineConstant{"gathered_bytes_per_patch", &Machine::gathered_bytes_per_patch, true},
    MachineConstant{"startup_s", &Machine::startup_s, true},
    MachineConstant{"startup_s_per_rank", &Machine::startup_s_per_rank, true},
};

Status SetNumber(std::string_view name, double value, const std::string& where, Machine* machine) {
  for (const MachineConstant& constant : kConstants) {
    if (constant.name != name) continue;
    if (!std::isfinite(value) || value < 0 || (value == 0 && !constant.zero_allowed)) {
      return InvalidArgument("{}: {} is {}; it must be a number {}", where, name, value,
                             constant.zero_allowed ? "of at least 0" : "above 0");
    }
    machine->*constant.value = value;
    return Status::Ok();
  }
  std::string known = "topology";
  for (const MachineConstant& constant : kConstants) known += fmt::format(", {}", constant.name);
  return InvalidArgument("{}: \"{}\" is no constant of a machine; known are {}", where, name, known);
}

Status SetTopology(std::string_view name, const std::string& where, Machine* machine) {
  QUARRY_ASSIGN_OR_RETURN(machine->topology, ParseTopology(name, where));
  return Status::Ok();
}

}  // namespace

std::span<const MachineConstant> MachineConstants() { return kConstants; }

Result<Machine> ParseMachine(std::string_view json, const std::string& where) {
  const auto object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object())
    return InvalidArgument("\"{}\" is not a JSON object; make one with quarry-plan calibrate", where);
  Machine machine;
  for (const auto& [name, value] : object.items()) {
    if (name == "name" && value.is_string()) {
      machine.name = value.get<std::string>();
    } else if (name == "topology" && value.is_string()) {
      QUARRY_RETURN_IF_ERROR(SetTopology(value.get<std::string>(), where, &machine));
    } else if (value.is_number()) {
      QUARRY_RETURN_IF_ERROR(SetNumber(name, value.get<double>(), where, &machine));
    } else {
      return InvalidArgument("{}: {} is {}; it must be a number", where, name, value.dump());
    }
  }
  return machine;
}

std::string ToJson(const Machine& machine) {
  auto json = nlohmann::ordered_json::object();
  json["name"] = machine.name;
  json["topology"] = Name(machine.topology);
  for (const MachineConstant& constant : kConstants) {
    // Four digits are more than any measurement has.
    json[std::string(constant.name)] = std::stod(fmt::format("{:.4g}", machine.*constant.value));
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Network NetworkOf(const Machine& machine) {
  return {machine.topology, machine.network_bandwidth_bytes_per_s, machine.network_latency_s};
}

Result<Assignment> ParseAssignment(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos)
    return InvalidArgument("--set \"{}\" has no \"=\"; write for example --set network_latency_s=5e-6", text);
  return Assignment{text.substr(0, equals), text.substr(equals + 1)};
}

Result<double> ParseNumber(const Assignment& assignment) {
  return quarry::ParseNumber<double>(assignment.value).Annotate(fmt::format("--set {}", assignment.name));
}

Status SetConstant(std::string_view text, Machine* machine) {
  QUARRY_ASSIGN_OR_RETURN(const Assignment assignment, ParseAssignment(text));
  if (assignment.name == "topology") return SetTopology(assignment.value, "--set", machine);
  QUARRY_ASSIGN_OR_RETURN(const double value, ParseNumber(assignment));
  return SetNumber(assignment.name, value, "--set", machine);
}

}  // namespace quarry::model
