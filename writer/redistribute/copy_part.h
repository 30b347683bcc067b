#pragma once

#include <cstddef>

#include "quarry/box_view.h"

/// Parts of boxes in memory.
namespace quarry::redistribute {

/// The first sample of `part`, which lies in `box`.
const std::byte* FirstSample(const BoxView& view, const Box& box, const Box& part);

/// Copies the samples of `part`, which lies in both boxes; the memory of the two must not overlap.
void CopyPart(const BoxView& from, const Box& from_box, const MutableBoxView& to, const Box& to_box,
              const Box& part, std::size_t sample_bytes);

}  // namespace quarry::redistribute
