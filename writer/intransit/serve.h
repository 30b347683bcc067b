#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "writer/intransit/roles.h"

namespace quarry::intransit {

struct ServeOptions {
  /// Called on every writer before it receives a step; for logging and tests.
  std::function<void(const std::string& path, std::uint64_t step)> before_step;
};

/// What a writer has done.
struct Served {
  std::uint64_t datasets = 0;
  std::uint64_t steps = 0;       ///< published
  std::uint64_t lost_steps = 0;  ///< not published; the simulation knows why
  double idle_seconds = 0;       ///< waiting for something to do
  double receiving_seconds = 0;  ///< waiting for samples and receiving them
  double writing_seconds = 0;    ///< all of the pipeline
  double simulation_waiting_seconds =
      0;                           ///< of the simulation rank that has waited longest, over all datasets
  std::uint64_t buffer_bytes = 0;  ///< most memory for received samples
};

/// Writes what the simulation hands over, until every simulation rank has destroyed its Roles. Each writer
/// receives one field at a time from the simulation ranks of its group (see groups.h); then all writers write
/// it as insitu::Dataset does.
///
/// Errors of datasets and steps go to the simulation; here they are only counted.
/// @errors kInternal: MPI
/// @collective over the writer ranks
Result<Served> Serve(const Roles& roles, const ServeOptions& options = {});

}  // namespace quarry::intransit
