#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>

// Emscripten's own headers define it for functions that the linker keeps and exports.
#define QUARRY_EXPORT extern "C" __attribute__((used, visibility("default")))

#include "quarry/base/checked_math.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/codec/tile.h"
#include "quarry/geometry/patch_grid.h"
#include "xxhash.h"

// Functions for the page. Numbers come from messages: each is checked before memory is allocated for it.
// Payload may be anything. A failed allocation ends the module with a trap, after quarry_error was set: its
// caller starts another.
namespace {

using namespace quarry;

constexpr int kMaxLevels = 32;

char error_text[1024] = "";

void SetError(std::string_view text) {
  const std::size_t size = std::min(text.size(), sizeof(error_text) - 1);
  std::copy_n(text.data(), size, error_text);
  error_text[size] = '\0';
}

int Fail(const Status& status) {
  SetError(status.message());
  return static_cast<int>(status.code());
}

Status CheckLayout(const PatchCoder* coder, int coder_id, const PatchLayout& layout) {
  if (coder == nullptr || !coder->traits().codes_fields) return InvalidArgument("unknown coder {}", coder_id);
  if (SizeOf(layout.type) == 0)
    return InvalidArgument("unknown sample type {}", static_cast<int>(layout.type));
  if (!coder->Supports(layout.type))
    return InvalidArgument("codec {} does not code {}", coder->name(), Name(layout.type));
  if (layout.levels < 1 || layout.levels > kMaxLevels)
    return InvalidArgument("a patch of {} levels; it has 1 to {}", layout.levels, kMaxLevels);
  const Index3& n = layout.shape;
  std::int64_t plane = 0;
  std::int64_t volume = 0;
  if (n[0] < 1 || n[1] < 1 || n[2] < 1 || !CheckedMultiply(n[0], n[1], &plane) ||
      !CheckedMultiply(plane, n[2], &volume) || volume > PatchGrid::kMaxPatchVolume)
    return InvalidArgument("a patch of shape {}; it has 1 to {} samples", ToString(n),
                           PatchGrid::kMaxPatchVolume);
  return Status::Ok();
}

ByteSpan BytesAt(const std::byte* begin, std::size_t size) {
  return size == 0 ? ByteSpan() : ByteSpan(begin, size);
}

[[noreturn]] void StopForMemory() {
  SetError("out of memory");
  __builtin_trap();
}
[[maybe_unused]] const std::new_handler previous_handler = std::set_new_handler(StopForMemory);

}  // namespace

// No exceptions are compiled in: what the coders throw, and the standard library, is std::bad_alloc alone.
extern "C" [[noreturn]] void __cxa_throw(void*, void*, void (*)(void*)) { StopForMemory(); }

/// Null where there is no memory left.
QUARRY_EXPORT void* quarry_allocate(std::size_t bytes) {
  return std::malloc(std::max<std::size_t>(bytes, 1));
}
QUARRY_EXPORT void quarry_release(void* begin) { std::free(begin); }

/// XXH3, 64 bit: the checksum of messages and files.
QUARRY_EXPORT std::uint64_t quarry_checksum(const void* begin, std::size_t bytes) {
  return XXH3_64bits(begin, bytes);
}

/// Null where the arguments are wrong; quarry_error says why.
QUARRY_EXPORT PatchReader* quarry_reader_open(int coder_id, int type, int nx, int ny, int nz, int levels) {
  const bool is_byte = coder_id >= 0 && coder_id <= 255 && type >= 0 && type <= 255;
  const PatchCoder* coder = is_byte ? FindCoder(static_cast<CoderId>(coder_id)) : nullptr;
  const PatchLayout layout{static_cast<DataType>(is_byte ? type : 0), {nx, ny, nz}, levels};
  if (const Status status = CheckLayout(coder, coder_id, layout); !status.ok()) {
    Fail(status);
    return nullptr;
  }
  return new PatchReader(*coder, layout);
}

/// Decodes the next finer level. 0, or a code of quarry::StatusCode: the reader can then only be closed.
QUARRY_EXPORT int quarry_reader_advance(PatchReader* reader, const std::byte* payload, std::size_t size,
                                        const std::byte* mask, std::size_t mask_size) {
  const Status status = reader->Advance(BytesAt(payload, size), BytesAt(mask, mask_size));
  return status.ok() ? 0 : Fail(status);
}

/// Until the next call with this reader.
QUARRY_EXPORT const void* quarry_reader_samples(const PatchReader* reader) {
  return reader->samples().data();
}
QUARRY_EXPORT std::size_t quarry_reader_samples_size(const PatchReader* reader) {
  return reader->samples().size();
}
/// One byte for each sample; null where none is missing.
QUARRY_EXPORT const void* quarry_reader_validity(const PatchReader* reader) {
  const Validity validity = reader->validity();
  return validity.empty() ? nullptr : validity.data();
}
/// [bytes] that it holds.
QUARRY_EXPORT std::size_t quarry_reader_memory(const PatchReader* reader) {
  return static_cast<std::size_t>(reader->memory());
}
QUARRY_EXPORT void quarry_reader_close(PatchReader* reader) { delete reader; }

/// Decodes a tile. 0, or a code of quarry::StatusCode.
/// @param samples  nx ny nz of the type: at most kMaxTileSamples of 8 bytes
QUARRY_EXPORT int quarry_tile_decode(int type, int nx, int ny, int nz, const std::byte* coded,
                                     std::size_t size, std::byte* samples) {
  const TileLayout layout{static_cast<DataType>(type), {nx, ny, nz}};
  const Status status =
      DecodeTile(layout, ByteSpan(coded, size),
                 SamplePlace::Dense(samples, layout.shape, static_cast<std::size_t>(SizeOf(layout.type))));
  return status.ok() ? 0 : Fail(status);
}

/// Text of the last error.
QUARRY_EXPORT const char* quarry_error() { return error_text; }
