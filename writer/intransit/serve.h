#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "writer/intransit/roles.h"

namespace quarry::intransit {

struct ServeOptions {
  /// Called on every writer before it takes a step in; for logging and tests.
  std::function<void(const std::string& path, std::uint64_t step)> before_step;
};

/// What a writer has done.
struct Served {
  std::uint64_t datasets = 0;
  std::uint64_t steps = 0;       ///< published
  std::uint64_t lost_steps = 0;  ///< not published; the simulation knows why
  double idle_seconds = 0;       ///< waiting for something to do
  double receiving_seconds = 0;  ///< waiting for samples and taking them in
  double writing_seconds = 0;    ///< all of the pipeline
  double simulation_waiting_seconds =
      0;                           ///< of the simulation rank that has waited longest, over all datasets
  std::uint64_t buffer_bytes = 0;  ///< most memory for samples that have come in
};

/// Writes what the simulation hands over, until every simulation rank has let go of its Roles. Each writer
/// takes in one field at a time of the simulation ranks of its group (see groups.h); then all of them write
/// it as insitu::Dataset does.
///
/// Errors of datasets and steps are the simulation's to hear; here they only count.
/// @errors kInternal: MPI
/// @collective over the writer ranks
Result<Served> Serve(const Roles& roles, const ServeOptions& options = {});

}  // namespace quarry::intransit
