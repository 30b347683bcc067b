#include "quarry/codec/wavelet_zfp/zfp_stream.h"

#include <zfp.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "quarry/base/per_thread.h"
#include "quarry/codec/entropy/varint.h"

namespace quarry::wavelet_zfp {
namespace {

struct FieldDeleter {
  void operator()(zfp_field* field) const { zfp_field_free(field); }
};
struct StreamDeleter {
  void operator()(zfp_stream* stream) const { zfp_stream_close(stream); }
};
struct BitStreamDeleter {
  void operator()(bitstream* bits) const { stream_close(bits); }
};
using Field = std::unique_ptr<zfp_field, FieldDeleter>;
using Stream = std::unique_ptr<zfp_stream, StreamDeleter>;
using BitStream = std::unique_ptr<bitstream, BitStreamDeleter>;

template <typename T>
constexpr zfp_type kZfpType = sizeof(T) == 4 ? zfp_type_float : zfp_type_double;

template <typename T>
Field MakeField(T* data, const Index3& shape) {
  std::size_t n[3] = {0, 0, 0};
  int dims = 0;
  for (const std::int64_t extent : shape) {
    if (extent > 1) n[dims++] = static_cast<std::size_t>(extent);
  }
  void* pointer = const_cast<std::remove_const_t<T>*>(data);
  const zfp_type type = kZfpType<std::remove_const_t<T>>;
  if (dims == 3) return Field(zfp_field_3d(pointer, type, n[0], n[1], n[2]));
  if (dims == 2) return Field(zfp_field_2d(pointer, type, n[0], n[1]));
  return Field(zfp_field_1d(pointer, type, dims == 1 ? n[0] : 1));
}

Stream UnitAccuracyStream() {
  Stream stream(zfp_stream_open(nullptr));
  if (stream) zfp_stream_set_accuracy(stream.get(), 1.0);
  return stream;
}

/// Scratch memory of a thread, in whole words because zfp reads and writes words of up to 64 bits.
std::span<std::uint64_t> Scratch(std::size_t bytes) {
  static const PerThread<std::vector<std::uint64_t>> buffers;
  std::vector<std::uint64_t>& buffer = *buffers;
  const std::size_t words = bytes / sizeof(std::uint64_t) + 1;
  if (buffer.size() < words) buffer.resize(words);
  return std::span(buffer).first(words);
}

Status OutOfMemory() {
  return InternalError("out of memory while coding a patch; use smaller patches or fewer threads");
}

/// One array as a stream, without the zero bytes at its end.
Result<ByteSpan> CompressArray(zfp_stream* stream, zfp_field* field, const Index3& shape) {
  const std::span<std::uint64_t> scratch = Scratch(zfp_stream_maximum_size(stream, field));
  const BitStream bits(stream_open(scratch.data(), scratch.size_bytes()));
  if (!bits) return OutOfMemory();
  zfp_stream_set_bit_stream(stream, bits.get());
  zfp_stream_rewind(stream);
  std::size_t size = zfp_compress(stream, field);
  if (size == 0) return InternalError("zfp cannot compress an array of shape {}", ToString(shape));
  const auto* bytes = reinterpret_cast<const std::byte*>(scratch.data());
  while (size > 0 && bytes[size - 1] == std::byte{0}) --size;
  return ByteSpan(bytes, size);
}

Status DecompressArray(zfp_stream* stream, zfp_field* field, const Index3& shape, ByteSpan payload) {
  const std::size_t capacity = zfp_stream_maximum_size(stream, field);
  if (payload.size() > capacity)
    return DataLoss("an array of shape {} has {} bytes, more than the {} it can need", ToString(shape),
                    payload.size(), capacity);
  const std::span<std::uint64_t> scratch = Scratch(capacity);
  auto* bytes = reinterpret_cast<std::byte*>(scratch.data());
  std::memcpy(bytes, payload.data(), payload.size());
  std::memset(bytes + payload.size(), 0, scratch.size_bytes() - payload.size());
  const BitStream bits(stream_open(scratch.data(), scratch.size_bytes()));
  if (!bits) return OutOfMemory();
  zfp_stream_set_bit_stream(stream, bits.get());
  zfp_stream_rewind(stream);
  if (zfp_decompress(stream, field) == 0)
    return DataLoss("zfp cannot decode an array of shape {}", ToString(shape));
  return Status::Ok();
}

std::vector<Index3> WithoutEmpty(std::span<const Index3> shapes) {
  std::vector<Index3> kept;
  std::copy_if(shapes.begin(), shapes.end(), std::back_inserter(kept),
               [](const Index3& shape) { return Volume(shape) > 0; });
  return kept;
}

}  // namespace

template <typename T>
Status ZfpCompress(const T* data, std::span<const Index3> shapes, Bytes* out) {
  const Stream stream = UnitAccuracyStream();
  if (!stream) return OutOfMemory();
  const std::vector<Index3> arrays = WithoutEmpty(shapes);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Field field = MakeField<const T>(data, arrays[i]);
    QUARRY_ASSIGN_OR_RETURN(const ByteSpan coded, CompressArray(stream.get(), field.get(), arrays[i]));
    if (i + 1 < arrays.size()) entropy::PutVarint(coded.size(), out);
    out->insert(out->end(), coded.begin(), coded.end());
    data += Volume(arrays[i]);
  }
  return Status::Ok();
}

template <typename T>
Status ZfpDecompress(ByteSpan payload, std::span<const Index3> shapes, T* data) {
  const Stream stream = UnitAccuracyStream();
  if (!stream) return OutOfMemory();
  const std::vector<Index3> arrays = WithoutEmpty(shapes);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::uint64_t size = payload.size();
    if (i + 1 < arrays.size()) {
      QUARRY_ASSIGN_OR_RETURN(size, entropy::TakeVarint(&payload));
      if (size > payload.size())
        return DataLoss("a zfp stream of {} bytes has only {}", size, payload.size());
    }
    const Field field = MakeField<T>(data, arrays[i]);
    QUARRY_RETURN_IF_ERROR(DecompressArray(stream.get(), field.get(), arrays[i], payload.first(size)));
    payload = payload.subspan(size);
    data += Volume(arrays[i]);
  }
  return Status::Ok();
}

template Status ZfpCompress<float>(const float*, std::span<const Index3>, Bytes*);
template Status ZfpCompress<double>(const double*, std::span<const Index3>, Bytes*);
template Status ZfpDecompress<float>(ByteSpan, std::span<const Index3>, float*);
template Status ZfpDecompress<double>(ByteSpan, std::span<const Index3>, double*);

}  // namespace quarry::wavelet_zfp
