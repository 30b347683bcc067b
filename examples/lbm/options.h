// The command line.

#pragma once

#include <optional>
#include <string>

#include "lattice.h"
#include "solver.h"

namespace lbm {

struct Options {
  Int3 dims = {128, 64, 64};  ///< cells along x, y, z
  int steps = 1800;
  int dump_every = 600;  ///< steps
  std::string output = "lbm-dump";
  bool no_dump = false;    ///< no raw files are written
  std::string insitu;      ///< dataset to be written in situ; empty for none
  int intransit = 0;       ///< ranks that do nothing but write it; 0: the others do it
  int consumers = 0;       ///< ranks that draw pictures, and write the dataset if there is one
  std::string pictures;    ///< directory for the pictures
  double relative = 1e-3;  ///< largest error in it, as a fraction of a field's range
  Flow flow = {.reynolds = 250.0f, .inflow = 0.1f};
};

inline constexpr int kExitOk = 0;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitIo = 6;

/// Returns the options, or nothing if the program is to end with `exit_code`,
/// after an error or after --help. Only a rank that is to `report` prints.
std::optional<Options> ParseOptions(int argc, char** argv, bool report, int& exit_code);

}  // namespace lbm
