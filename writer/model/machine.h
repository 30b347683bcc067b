#pragma once

#include <span>
#include <string>
#include <string_view>

#include "quarry/base/status.h"
#include "writer/model/network.h"

namespace quarry::model {

/// Constants of a machine, measured by `quarry-plan calibrate` or given by the user. Bandwidths count each
/// byte once, however often a copy touches it. The defaults are round numbers for a small server.
struct Machine {
  std::string name = "default";
  Topology topology = Topology::kFull;

  double cores_per_node = 2;
  double ranks_per_node = 0;  ///< 0: all ranks on one node
  double cores_per_rank = 1;  ///< cores that a rank is bound to; 0: an even share of the node's cores

  double memory_bandwidth_bytes_per_s = 10e9;  ///< copies, all cores of a node together
  double gather_bandwidth_bytes_per_s = 2e9;   ///< one core: rows of patches into fresh memory
  double scan_bandwidth_bytes_per_s = 4e9;     ///< one core: value range of samples

  double send_bandwidth_bytes_per_s = 4e9;      ///< one core: into a message to a rank on the same node
  double receive_bandwidth_bytes_per_s = 4e9;   ///< one core: out of it
  double message_overhead_s = 5e-6;             ///< core time per message, at each end
  double network_bandwidth_bytes_per_s = 10e9;  ///< link of a node, each direction
  double network_latency_s = 5e-6;              ///< until the first byte of a message arrives

  double read_bandwidth_rank_bytes_per_s = 3e9;     ///< file system to one rank
  double read_bandwidth_total_bytes_per_s = 6e9;    ///< to all ranks
  double storage_targets = 1;                       ///< disks of the file system that files are spread over
  double target_write_bandwidth_bytes_per_s = 1e9;  ///< one of them, durable
  double node_write_bandwidth_bytes_per_s = 0;      ///< a node to the file system; 0: no limit of its own
  double stream_write_bandwidth_bytes_per_s = 0;    ///< the busiest writer, after the others; 0: no limit
  double shared_file_lock =
      1;  ///< writers of one target of a file: 1: take turns, 0: do not disturb each other
  double file_create_s = 2e-3;    ///< cost of a writer, for each of its subfiles: name, two syncs, close
  double file_creates_per_s = 0;  ///< all ranks together; 0: no limit of its own
  double part_s = 0;              ///< cost of an aggregator, for each patch that it receives
  double publish_s = 10e-3;       ///< for each step: manifests, syncs of folders, renames

  double encode_s_per_byte = 8e-9;    ///< one core, all others busy; bytes of samples
  double compression_ratio = 4;       ///< bytes of samples over bytes of payload
  double place_s_per_patch = 100e-9;  ///< one core: sharers and placement; every rank does all of it
  double assign_s_per_patch = 20e-9;  ///< one core: cutting a piece of the Morton order into files
  /// Sent about each patch to every rank, which then cuts the whole order, as in the paper; 0: in pieces, as
  /// the writer does.
  double gathered_bytes_per_patch = 0;

  double startup_s = 5e-3;           ///< once: options, opening input and output
  double startup_s_per_rank = 1e-4;  ///< and for each rank on a node
};

/// A constant of a machine and its name in JSON.
struct MachineConstant {
  std::string_view name;
  double Machine::*value;
  bool zero_allowed;
};

std::span<const MachineConstant> MachineConstants();

/// Parses a JSON object of constants; constants left out keep their defaults.
/// @param where  name of the text in messages: the path of the file
/// @errors kInvalidArgument: not JSON, an unknown constant, or a value that is not a number above 0
Result<Machine> ParseMachine(std::string_view json, const std::string& where);
std::string ToJson(const Machine& machine);

/// A number and the name before it. Views into the text.
struct Assignment {
  std::string_view name;
  std::string_view value;
};
/// "name=value" of an option --set. @errors kInvalidArgument: no "="
Result<Assignment> ParseAssignment(std::string_view text);
/// The value as a number. @errors kInvalidArgument
Result<double> ParseNumber(const Assignment& assignment);

/// Sets one constant from "name=value". @errors kInvalidArgument that lists the names
Status SetConstant(std::string_view assignment, Machine* machine);

/// The links of its nodes.
Network NetworkOf(const Machine& machine);

}  // namespace quarry::model
