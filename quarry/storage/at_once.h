#pragma once

#include <cstddef>
#include <functional>

namespace quarry {

/// Makes calls that do not depend on each other, on this thread and on some that live as long as this
/// function, see StartHelpers. A caller that gets none makes all calls itself.
/// @param most  threads, this one included
/// @param call  is given the numbers from 0 on; an exception of it is thrown here, when all have ended
void CallAtOnce(std::size_t calls, std::size_t most, const std::function<void(std::size_t)>& call);

}  // namespace quarry
