#pragma once

#include <string>

namespace quarry {

/// Whether `a` comes before `b` when runs of digits count as numbers: "img2" before "img10".
bool NaturalLess(const std::string& a, const std::string& b);

/// "/step0001/u" -> "/step#/u": names that differ in their numbers alone become the same.
std::string WithoutNumbers(const std::string& name);

}  // namespace quarry
