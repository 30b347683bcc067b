#pragma once

#include <string>

#include "quarry/base/status.h"

namespace quarry::tools {

/// Becomes a program of ../libexec/quarry, with the same arguments, in an installation as in a build. Returns
/// where that fails.
/// @param does  for the message: "compares datasets with source files"
Result<int> BecomeHelper(const std::string& name, const std::string& does);

}  // namespace quarry::tools
