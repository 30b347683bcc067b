#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "quarry/storage/storage.h"

namespace quarry {

/// Begins to read ranges on threads that live as long as the reading, see StartHelpers, each of which takes
/// one range after the other. Where there is no thread, the caller reads all of them. An error of one range
/// does not stop the others.
/// @param most  threads
std::unique_ptr<Reading> BeginOnThreads(std::vector<ReadRange> ranges, RangeDone done, std::size_t most);

}  // namespace quarry
