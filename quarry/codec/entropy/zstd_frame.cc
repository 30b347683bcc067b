#include "quarry/codec/entropy/zstd_frame.h"

// For frames without magic number, and for the parameter that makes frames independent of the machine. Both
// are unchanged since zstd 1.5.0.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <memory>
#include <new>

namespace quarry::entropy {
namespace {

struct CompressorDeleter {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct DecompressorDeleter {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

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

}  // namespace

void AppendZstdFrame(ByteSpan bytes, int level, Bytes* out) {
  thread_local const std::unique_ptr<ZSTD_CCtx, CompressorDeleter> context(MakeCompressor());
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  const std::size_t begin = out->size();
  out->resize(begin + ZSTD_compressBound(bytes.size()));
  const std::size_t size =
      ZSTD_compress2(context.get(), out->data() + begin, out->size() - begin, bytes.data(), bytes.size());
  // The output is large enough: the only possible error is a failed allocation of tables.
  if (ZSTD_isError(size)) throw std::bad_alloc();
  out->resize(begin + size);
}

Status ReadZstdFrame(ByteSpan frame, std::span<std::byte> bytes) {
  thread_local const std::unique_ptr<ZSTD_DCtx, DecompressorDeleter> context(MakeDecompressor());
  const std::size_t size =
      ZSTD_decompressDCtx(context.get(), bytes.data(), bytes.size(), frame.data(), frame.size());
  if (ZSTD_isError(size)) return DataLoss("a zstd frame cannot be decoded: {}", ZSTD_getErrorName(size));
  if (size != bytes.size()) return DataLoss("a zstd frame has {} bytes instead of {}", size, bytes.size());
  return Status::Ok();
}

}  // namespace quarry::entropy
