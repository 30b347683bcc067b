#include "quarry/base/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <charconv>
#include <new>

namespace quarry {

std::uint64_t Checksum(ByteSpan bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string ChecksumText(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

Result<std::uint64_t> ParseChecksum(std::string_view text) {
  std::uint64_t value = 0;
  if (text.size() != 16) return DataLoss("checksum \"{}\" does not have sixteen digits", text);
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (ChecksumText(value) != text) return DataLoss("checksum \"{}\" is not hexadecimal", text);
  return value;
}

StreamingChecksum::StreamingChecksum() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state_);
}
StreamingChecksum::~StreamingChecksum() { XXH3_freeState(state_); }
void StreamingChecksum::Update(ByteSpan bytes) { XXH3_64bits_update(state_, bytes.data(), bytes.size()); }
std::uint64_t StreamingChecksum::Finish() const { return XXH3_64bits_digest(state_); }

}  // namespace quarry
