/* Functions that zfp's tables mention and a patch never needs: integers, and arrays of four dimensions. */
#include <stddef.h>

#include "zfp.h"

#define NEVER \
  { __builtin_trap(); }

#define BLOCKS_1(name, T)                                                                                    \
  size_t zfp_decode_block_##name##_1(zfp_stream* s, T* b) NEVER size_t zfp_decode_block_strided_##name##_1(  \
      zfp_stream* s, T* p, ptrdiff_t sx)                                                                     \
      NEVER size_t zfp_decode_partial_block_strided_##name##_1(zfp_stream* s, T* p, size_t nx, ptrdiff_t sx) \
          NEVER

#define BLOCKS_2(name, T)                                                                                 \
  size_t zfp_decode_block_strided_##name##_2(zfp_stream* s, T* p, ptrdiff_t sx, ptrdiff_t sy)             \
      NEVER size_t zfp_decode_partial_block_strided_##name##_2(zfp_stream* s, T* p, size_t nx, size_t ny, \
                                                               ptrdiff_t sx, ptrdiff_t sy) NEVER

#define BLOCKS_3(name, T)                                                                                   \
  size_t zfp_decode_block_strided_##name##_3(zfp_stream* s, T* p, ptrdiff_t sx, ptrdiff_t sy, ptrdiff_t sz) \
      NEVER size_t zfp_decode_partial_block_strided_##name##_3(                                             \
          zfp_stream* s, T* p, size_t nx, size_t ny, size_t nz, ptrdiff_t sx, ptrdiff_t sy, ptrdiff_t sz)   \
          NEVER

#define BLOCKS_4(name, T)                                                                                   \
  size_t zfp_decode_block_strided_##name##_4(zfp_stream* s, T* p, ptrdiff_t sx, ptrdiff_t sy, ptrdiff_t sz, \
                                             ptrdiff_t sw)                                                  \
      NEVER size_t zfp_decode_partial_block_strided_##name##_4(                                             \
          zfp_stream* s, T* p, size_t nx, size_t ny, size_t nz, size_t nw, ptrdiff_t sx, ptrdiff_t sy,      \
          ptrdiff_t sz, ptrdiff_t sw) NEVER

BLOCKS_1(int32, int32)
BLOCKS_2(int32, int32)
BLOCKS_3(int32, int32)
BLOCKS_4(int32, int32)
BLOCKS_1(int64, int64)
BLOCKS_2(int64, int64)
BLOCKS_3(int64, int64)
BLOCKS_4(int64, int64)
BLOCKS_4(float, float)
BLOCKS_4(double, double)
