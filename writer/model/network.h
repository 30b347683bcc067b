#pragma once

#include <string>
#include <string_view>

#include "quarry/base/status.h"

namespace quarry::model {

/// How nodes are connected; selects the network term of Czechowski et al., section 3.2.
enum class Topology {
  kFull,          ///< fully connected, equation 3
  kTorus3d,       ///< all-to-all through the bisection of a 3D torus, equation 5
  kTorus3dIdeal,  ///< 3D torus, ranks placed so that neighbours talk, equation 4: a lower bound
  kTorus4d,       ///< through the bisection of a 4D torus
  kTorus5d,
};

std::string_view Name(Topology topology);

/// @param where  of the name, for messages: an option, or the path of a file
/// @errors kInvalidArgument that lists the names
Result<Topology> ParseTopology(std::string_view name, const std::string& where);

/// Links between nodes.
struct Network {
  Topology topology = Topology::kFull;
  double bandwidth_bytes_per_s = 10e9;  ///< link of a node, each direction
  double latency_s = 0;                 ///< until the first byte of a message arrives
};

/// e: an all-to-all of P nodes goes over P^e links at once. 1 fully connected, (d - 1) / d through the
/// bisection of a torus of d dimensions.
/// @source Czechowski et al., equations 3 to 5; kappa in equation 7
double NetworkExponent(Topology topology);

/// Seconds of one exchange between nodes; 0 on a single node, or where nothing moves.
/// @param nodes    P; a model may ask for fractions
/// @param busiest  bytes that the busiest node sends, or receives, whichever is more
/// @param mean     bytes that a node sends on average
/// @source Czechowski et al., equations 3 to 5
double NetworkSeconds(const Network& network, double nodes, double busiest, double mean);

}  // namespace quarry::model
