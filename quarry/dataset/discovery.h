#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "quarry/base/status.h"

namespace quarry {

struct FoundDataset {
  std::string name;  ///< path below the root without ".quarry", "/" between parts; the name that clients use
  std::filesystem::path path;
};

/// All datasets in the directory tree below `root`, by name; `root` itself when it is one. Hidden directories
/// (staging of writers among them), those whose names are not UTF-8, and the insides of datasets are not
/// entered.
/// @errors kNotFound: there is no such directory
Result<std::vector<FoundDataset>> FindDatasets(const std::filesystem::path& root);

}  // namespace quarry
