#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

struct XXH3_state_s;

namespace quarry {

/// XXH3 (64 bit, seed 0) of `bytes`: the checksum of every part of a dataset.
/// @source xxHash specification, XXH3_64bits
std::uint64_t Checksum(ByteSpan bytes);

/// Sixteen lower-case hexadecimal digits, most significant first.
std::string ChecksumText(std::uint64_t checksum);
/// @errors kDataLoss: it is no such text
Result<std::uint64_t> ParseChecksum(std::string_view text);

/// Checksum of data that arrives in pieces; the result equals Checksum() of the whole. One caller at a time.
class StreamingChecksum {
 public:
  StreamingChecksum();
  ~StreamingChecksum();
  StreamingChecksum(const StreamingChecksum&) = delete;
  StreamingChecksum& operator=(const StreamingChecksum&) = delete;

  void Update(ByteSpan bytes);
  std::uint64_t Finish() const;

 private:
  XXH3_state_s* state_;
};

}  // namespace quarry
