#pragma once

#include <span>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"
#include "quarry/box.h"

namespace quarry::wavelet_zfp {

/// Appends `arrays` to `out` as zfp fixed-accuracy streams of tolerance 1. Values are expected in units of
/// the wanted accuracy: zfp rounds tolerances down to powers of two, and 1 is one already. Axes of one sample
/// are dropped, so that thin arrays do not pay for blocks of 4^3. Empty arrays are skipped. Each stream but
/// the last follows its length. Trailing zero bytes are omitted, so the bytes do not depend on the word size
/// of zfp.
/// @param data  the arrays back to back, x fastest, shapes as given; finite
template <typename T>
Status ZfpCompress(const T* data, std::span<const Index3> shapes, Bytes* out);

/// Inverse of ZfpCompress. Safe for any `stream`: type, shapes and mode come from the arguments alone, and
/// zfp reads from a padded copy, because it runs past the end of short or hostile streams.
/// @errors kDataLoss when the stream is longer than such arrays can need, or zfp fails
template <typename T>
Status ZfpDecompress(ByteSpan stream, std::span<const Index3> shapes, T* data);

}  // namespace quarry::wavelet_zfp
