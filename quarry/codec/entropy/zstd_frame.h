#pragma once

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

namespace quarry::entropy {

/// Appends `bytes` as one zstd frame (RFC 8878) without magic number, checksum and content size, which both
/// sides know. For one version of libzstd the frame depends on the arguments alone.
/// Thread-safe: every thread has its own context.
/// @errors throws std::bad_alloc
void AppendZstdFrame(ByteSpan bytes, int level, Bytes* out);

/// Decodes one or more such frames into exactly `bytes`.
/// @errors kDataLoss when they are damaged or hold fewer or more bytes
Status ReadZstdFrame(ByteSpan frame, std::span<std::byte> bytes);

}  // namespace quarry::entropy
