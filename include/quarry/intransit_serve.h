#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "quarry/intransit_consumer.h"
#include "quarry/intransit_roles.h"
#include "quarry/result.h"

namespace quarry::intransit {

struct ServeOptions {
  /// Called on every writer before it receives a step; for logging and tests.
  std::function<void(const std::string& path, std::uint64_t step)> before_step;
  /// Gets the boxes that it names of every step, beside or instead of the dataset. On every writer or on
  /// none.
  Consumer consumer;
  /// Whether the dataset is written; the same on every writer. Without it, its path is a name only.
  bool writes = true;
};

/// Counters of a writer.
struct Served {
  std::uint64_t datasets = 0;
  std::uint64_t steps = 0;           ///< published
  std::uint64_t lost_steps = 0;      ///< not published; the simulation knows why. 0 where nothing is written
  std::uint64_t consumed_steps = 0;  ///< that the consumers have taken
  double idle_seconds = 0;           ///< waiting for something to do
  double receiving_seconds = 0;      ///< waiting for samples and receiving them
  double writing_seconds = 0;        ///< all of the pipeline
  double delivering_seconds = 0;     ///< redistribution to the boxes of the consumers
  double consuming_seconds = 0;      ///< time of the consumer of this rank, and of waiting for the others
  double simulation_waiting_seconds = 0;  ///< longest wait of a simulation rank, over all datasets
  std::uint64_t buffer_bytes = 0;         ///< most memory for received samples
  std::uint64_t consumer_bytes = 0;       ///< most memory for the boxes of the consumer
  std::vector<std::string> warnings;      ///< about published steps, for the user; one writer has them
};

/// Writes what the simulation hands over, or brings it to consumers, or both, until every simulation rank has
/// destroyed its Roles. Each writer receives one field at a time from the simulation ranks of its group,
/// which are neighbours; then all writers write it as insitu::Dataset does, and redistribute it to the boxes
/// that the consumers need. A step is published before the consumers get it, and they get it also if it
/// cannot be published.
///
/// Errors of datasets and steps go to the simulation; here they are only counted. An error of a consumer ends
/// everything, see Consumer: steps that come later are received, dropped, and answered with that error.
/// @errors one for all writers and simulation ranks: that of the consumer, or kInvalidArgument: options that
/// differ between the writers, or that leave nothing to do. kInternal: MPI
/// @collective over the writer ranks
Result<Served> Serve(const Roles& roles, const ServeOptions& options = {});

}  // namespace quarry::intransit
