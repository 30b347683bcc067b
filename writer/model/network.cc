#include "writer/model/network.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace quarry::model {
namespace {

constexpr std::array kTopologies = {Topology::kFull, Topology::kTorus3d, Topology::kTorus3dIdeal,
                                    Topology::kTorus4d, Topology::kTorus5d};

}  // namespace

std::string_view Name(Topology topology) {
  switch (topology) {
    case Topology::kFull:
      return "full";
    case Topology::kTorus3d:
      return "torus3d";
    case Topology::kTorus3dIdeal:
      return "torus3d-ideal";
    case Topology::kTorus4d:
      return "torus4d";
    case Topology::kTorus5d:
      break;
  }
  return "torus5d";
}

Result<Topology> ParseTopology(std::string_view name, const std::string& where) {
  std::string known;
  for (const Topology topology : kTopologies) {
    if (Name(topology) == name) return topology;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", Name(topology));
  }
  return InvalidArgument("{}: topology \"{}\" is not known; known are {}", where, name, known);
}

double NetworkExponent(Topology topology) {
  switch (topology) {
    case Topology::kFull:
      return 1;
    case Topology::kTorus3d:
      return 2.0 / 3;
    case Topology::kTorus3dIdeal:
      return 5.0 / 6;
    case Topology::kTorus4d:
      return 3.0 / 4;
    case Topology::kTorus5d:
      break;
  }
  return 4.0 / 5;
}

double NetworkSeconds(const Network& network, double nodes, double busiest, double mean) {
  if (nodes < 2 || busiest == 0) return 0;
  // Every node sends what it has over its own link; no topology is faster than that. In place of the P links
  // of equation 3, an all-to-all through a torus has P^e.
  const double links = std::pow(nodes, NetworkExponent(network.topology));
  const double sent = std::max(busiest, mean * nodes / links);
  return network.latency_s + sent / network.bandwidth_bytes_per_s;
}

}  // namespace quarry::model
