#include "quarry/codec/entropy/zstd_frame.h"

// For frames without magic number, and for the parameter that makes frames independent of the machine. Both
// are unchanged since zstd 1.5.0.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <new>

#include "quarry/base/per_thread.h"

namespace quarry::entropy {
namespace {

ZSTD_CCtx* MakeCompressor() {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (context == nullptr) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context, ZSTD_c_format, ZSTD_f_zstd1_magicless);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 0);
  // By default, zstd uses this match finder only on machines with SIMD; it finds different matches.
  ZSTD_CCtx_setParameter(context, ZSTD_c_useRowMatchFinder, ZSTD_ps_enable);
  return context;
}

ZSTD_DCtx* MakeDecompressor() {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  if (context == nullptr) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(context, ZSTD_d_format, ZSTD_f_zstd1_magicless);
  return context;
}

/// Contexts of a thread.
struct Compressor {
  Compressor() : context(MakeCompressor()) {}
  ~Compressor() { ZSTD_freeCCtx(context); }
  ZSTD_CCtx* const context;
};
struct Decompressor {
  Decompressor() : context(MakeDecompressor()) {}
  ~Decompressor() { ZSTD_freeDCtx(context); }
  ZSTD_DCtx* const context;
};

}  // namespace

void AppendZstdFrame(ByteSpan bytes, int level, Bytes* out) {
  static const PerThread<Compressor> compressors;
  ZSTD_CCtx* const context = compressors->context;
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  const std::size_t begin = out->size();
  out->resize(begin + ZSTD_compressBound(bytes.size()));
  const std::size_t size =
      ZSTD_compress2(context, out->data() + begin, out->size() - begin, bytes.data(), bytes.size());
  // The output is large enough: the only possible error is a failed allocation of tables.
  if (ZSTD_isError(size)) throw std::bad_alloc();
  out->resize(begin + size);
}

Status ReadZstdFrame(ByteSpan frame, std::span<std::byte> bytes) {
  static const PerThread<Decompressor> decompressors;
  ZSTD_DCtx* const context = decompressors->context;
  const std::size_t size =
      ZSTD_decompressDCtx(context, bytes.data(), bytes.size(), frame.data(), frame.size());
  if (ZSTD_isError(size)) return DataLoss("a zstd frame cannot be decoded: {}", ZSTD_getErrorName(size));
  if (size != bytes.size()) return DataLoss("a zstd frame has {} bytes instead of {}", size, bytes.size());
  return Status::Ok();
}

}  // namespace quarry::entropy
