#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace quarry::writer {

/// The order in which steps of a series are written that refer to each other, and to which each refers:
/// keyframes every `keyframe` steps, then the step in the middle of two, from the mean of both, and so on
/// between them. So a step needs at most 2 + log2(keyframe) others. Steps after the last keyframe hang on the
/// last step, which refers to that keyframe.
/// @param steps     ascending
/// @param keyframe  0 and 1: no step refers to another, and the order stays
std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>> OrderSteps(
    const std::vector<std::uint64_t>& steps, int keyframe);

}  // namespace quarry::writer
