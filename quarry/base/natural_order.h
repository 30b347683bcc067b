#pragma once

#include <string>

namespace quarry {

/// Whether `a` comes before `b` when runs of digits count as numbers: "img2" before "img10".
bool NaturalLess(const std::string& a, const std::string& b);

}  // namespace quarry
