#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quarry::writer::internal {

/// How many times this process has opened an image of a stack and decoded any of it. @threads safe
std::uint64_t TiffImagesRead();

/// Whether `a` comes before `b` when runs of digits count as numbers: "img2" before "img10".
bool NaturalLess(const std::string& a, const std::string& b);

}  // namespace quarry::writer::internal
