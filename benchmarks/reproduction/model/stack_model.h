#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "quarry/base/status.h"
#include "writer/distribution/decomposition.h"

/// Predicts how long ranks take to load a stack of images into boxes. Pure functions; no MPI.
namespace quarry::reproduction {

/// Constants of a machine that loads stacks. The defaults are fitted, not measured: least squares of the
/// logarithms of the twelve times of Marrinan et al., table II, which come out within 10 %.
struct StackMachine {
  double decode_s_per_mib = 0.199 / 32;       ///< one reader alone: opening, reading and decoding an image
  double decode_slower_per_reader = 0.00095;  ///< by what part each reader slows down all of them
  double at_once_mib_per_s = 298;             ///< a rank, where all samples are exchanged at once
  double round_mib_per_s = 1650;              ///< a rank, where a round exchanges an image of each
  double round_s_per_rank = 1.0e-3;           ///< a round, for each rank that takes part
};

struct StackConstant {
  std::string_view name;
  double StackMachine::*value;
};
std::span<const StackConstant> StackConstants();

/// Sets one constant from "name=value". @errors kInvalidArgument that lists the names
Status SetConstant(std::string_view assignment, StackMachine* machine);

/// Work to be done, counted by CountStackTraffic.
struct StackWork {
  distribution::ReadingOrder order = distribution::ReadingOrder::kConsecutive;
  std::int64_t ranks = 1;
  std::int64_t images_per_rank = 0;  ///< that the busiest rank decodes
  double image_mib = 0;
  std::int64_t rounds = 0;
  double mib_per_rank_per_round = 0;
};

struct StackSeconds {
  double decode = 0;
  double exchange = 0;

  double total() const { return decode + exchange; }
};

/// Images that a rank decodes, and then the exchange: none, all at once, or a round for each image.
/// @source Marrinan et al., Automated Dynamic Data Redistribution, section IV.A and table II, for the three
/// cases; the form is ours
StackSeconds PredictStack(const StackMachine& machine, const StackWork& work);

}  // namespace quarry::reproduction
