#include "quarry/base/checksum.h"

#include <vector>

#include "fmt/format.h"

// The checksums of tiles, from the same function as all others: every page would load the code for XXH3 over
// pieces, and a tile has 2 MiB at most.
struct XXH3_state_s {
  std::vector<std::byte> bytes;
};

extern "C" std::uint64_t quarry_checksum(const void* begin, std::size_t bytes);

namespace quarry {

std::string ChecksumText(std::uint64_t checksum) { return fmt::format("{:#x}", checksum); }

StreamingChecksum::StreamingChecksum() : state_(new XXH3_state_s) {}
StreamingChecksum::~StreamingChecksum() { delete state_; }
void StreamingChecksum::Update(ByteSpan bytes) {
  state_->bytes.insert(state_->bytes.end(), bytes.begin(), bytes.end());
}
std::uint64_t StreamingChecksum::Finish() const {
  return quarry_checksum(state_->bytes.data(), state_->bytes.size());
}

}  // namespace quarry
