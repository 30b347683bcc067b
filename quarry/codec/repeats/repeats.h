#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "quarry/codec/coder.h"

/// Patches that do not depend on an axis: all planes across it are the same, and one of them is coded.
/// docs/format.md, "Repeats".
namespace quarry::repeats {

/// The axes that a patch does not depend on.
struct Repeats {
  std::array<bool, 3> along{};  ///< x, y, z
  bool mask = false;            ///< the validity does not depend on them either

  bool any() const { return along[0] || along[1] || along[2]; }
};

/// The first byte of such a patch; no coder begins a payload with it.
std::byte ToByte(const Repeats& repeats);

/// @return nothing if the byte is one of a coder
std::optional<Repeats> FromByte(std::byte first);

/// The shape of the patch that is coded: one sample along the axes that repeat.
Index3 CodedShape(const Repeats& repeats, const Index3& shape);

/// The samples of a level with coordinate 0 along the axes that repeat.
/// @param samples  of the whole level, `size` bytes each
Bytes FirstPlanes(const Repeats& repeats, ByteSpan samples, const Index3& shape, std::size_t size);

/// Writes a level from the samples of its coded shape.
/// @param shape  of the whole level
void Repeat(const Repeats& repeats, ByteSpan coded, const Index3& shape, std::size_t size,
            const SamplePlace& place);

/// The same into an array.
Bytes Repeat(const Repeats& repeats, ByteSpan coded, const Index3& shape, std::size_t size);

/// Decodes a patch that may repeat.
/// @param coder  a registered one
std::unique_ptr<PatchDecoder> NewDecoder(CoderId coder, const PatchLayout& layout);

}  // namespace quarry::repeats
