#pragma once

#include <cstddef>

namespace quarry {

/// memcpy past the caches, for arrays that are larger than them: the processor need not read a line of the
/// array before it writes the whole line, and what was in its caches stays there.
/// EndStreaming comes before anybody else reads the bytes.
void StreamBytes(std::byte* to, const std::byte* from, std::size_t bytes);

/// Orders this thread's streamed stores before its next stores, for all other threads.
void EndStreaming();

}  // namespace quarry
