#include "quarry/codec/zfp_stream.h"

#include <zfp.h>

#include <cstring>
#include <memory>
#include <vector>

namespace quarry {
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

/// Upper bound of the compressed bytes of all arrays, with room for the word-wise flush of each.
template <typename T>
std::size_t MaximumSize(zfp_stream* stream, std::span<const Index3> shapes) {
  std::size_t bytes = 0;
  for (const Index3& shape : shapes) {
    if (Volume(shape) == 0) continue;
    const Field field = MakeField<T>(nullptr, shape);
    bytes += zfp_stream_maximum_size(stream, field.get()) + sizeof(std::uint64_t);
  }
  return bytes;
}

Status OutOfMemory() { return InternalError("out of memory while coding a patch; use smaller patches or fewer threads"); }

}  // namespace

template <typename T>
Status ZfpCompress(const T* data, std::span<const Index3> shapes, Bytes* out) {
  const Stream stream = UnitAccuracyStream();
  if (!stream) return OutOfMemory();
  // uint64_t: zfp writes whole 64-bit words and wants them aligned.
  thread_local std::vector<std::uint64_t> buffer;
  const std::size_t capacity = MaximumSize<T>(stream.get(), shapes);
  if (buffer.size() * 8 < capacity) buffer.resize(capacity / 8 + 1);
  const BitStream bits(stream_open(buffer.data(), buffer.size() * 8));
  if (!bits) return OutOfMemory();
  zfp_stream_set_bit_stream(stream.get(), bits.get());
  zfp_stream_rewind(stream.get());
  std::size_t size = 0;
  for (const Index3& shape : shapes) {
    if (Volume(shape) == 0) continue;
    const Field field = MakeField<const T>(data, shape);
    size = zfp_compress(stream.get(), field.get());
    if (size == 0) return InternalError("zfp cannot compress an array of shape {}", ToString(shape));
    data += Volume(shape);
  }
  const auto* begin = reinterpret_cast<const std::byte*>(buffer.data());
  out->insert(out->end(), begin, begin + size);
  return Status::Ok();
}

template <typename T>
Status ZfpDecompress(ByteSpan payload, std::span<const Index3> shapes, T* data) {
  const Stream stream = UnitAccuracyStream();
  if (!stream) return OutOfMemory();
  const std::size_t capacity = MaximumSize<T>(stream.get(), shapes);
  if (payload.size() > capacity) return DataLoss("a level has {} bytes, more than the {} it can need", payload.size(), capacity);
  thread_local std::vector<std::uint64_t> buffer;
  if (buffer.size() * 8 < capacity) buffer.resize(capacity / 8 + 1);
  auto* bytes = reinterpret_cast<std::byte*>(buffer.data());
  std::memcpy(bytes, payload.data(), payload.size());
  std::memset(bytes + payload.size(), 0, capacity - payload.size());
  const BitStream bits(stream_open(buffer.data(), buffer.size() * 8));
  if (!bits) return OutOfMemory();
  zfp_stream_set_bit_stream(stream.get(), bits.get());
  zfp_stream_rewind(stream.get());
  for (const Index3& shape : shapes) {
    if (Volume(shape) == 0) continue;
    const Field field = MakeField<T>(data, shape);
    if (zfp_decompress(stream.get(), field.get()) == 0) return DataLoss("zfp cannot decode a level of shape {}", ToString(shape));
    data += Volume(shape);
  }
  return Status::Ok();
}

template Status ZfpCompress<float>(const float*, std::span<const Index3>, Bytes*);
template Status ZfpCompress<double>(const double*, std::span<const Index3>, Bytes*);
template Status ZfpDecompress<float>(ByteSpan, std::span<const Index3>, float*);
template Status ZfpDecompress<double>(ByteSpan, std::span<const Index3>, double*);

}  // namespace quarry
