#pragma once

#include <cstddef>
#include <functional>

namespace quarry {

/// Makes calls that do not depend on each other, on this thread and on some that live as long as this
/// function, within the CancelScope of this one. They mostly wait for a storage; so a process has a limited
/// number of them, however many callers there are, and a caller that gets none makes all calls itself.
/// @param most  threads, this one included
/// @param call  is given the numbers from 0 on; an exception of it is thrown here, when all have ended
void CallAtOnce(std::size_t calls, std::size_t most, const std::function<void(std::size_t)>& call);

}  // namespace quarry
