#pragma once

#include "quarry/base/status.h"

namespace quarry::reproduction {

/// `quarry-reproduce fft --predictions`: the numbers of the paper beside the model's, and figures 5 and 6.
/// @param memory_constant  A of the figures, and of a column beside the printed A and the one that most
/// numbers
///                         need
Status PrintPaper(double memory_constant, bool json);

}  // namespace quarry::reproduction
