#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace quarry {

/// Threads that mostly wait for a storage: a process has 128 of them, however many callers there are. Each
/// does this work within the CancelScope of the caller. It must not throw.
/// @returns at most so many; none where all are taken, or there is no memory for one
std::vector<std::jthread> StartHelpers(std::size_t most, const std::function<void()>& work);

}  // namespace quarry
