#pragma once

#include "tools/quarry/command.h"

namespace quarry::tools {

/// The options of `quarry cp`.
struct CpOptions {
  std::string from;
  std::string to;
  ServerOptions server;
  std::string box;
  std::string region;
  std::optional<int> level;
  std::string recode;
  std::string steps;
  std::vector<std::string> fields;
  std::string memory = "256MiB";
  bool allow_damage = false;
  bool dry_run = false;
  bool clean = false;
  bool break_lock = false;
  bool json = false;

  /// Whether samples are read and coded anew, where otherwise files are copied as they are.
  bool is_subset() const { return !box.empty() || !region.empty() || level || !recode.empty(); }
};

/// "3 steps"
std::string CountText(std::uint64_t count, std::string_view what);

/// Copies the samples of a box or a level. `quarry` runs quarry-subset for it: most calls write no dataset.
Result<int> CpSubset(CpOptions options);

}  // namespace quarry::tools
