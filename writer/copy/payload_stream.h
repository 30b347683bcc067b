#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quarry/base/checksum.h"
#include "quarry/format/subfile_table.h"

namespace quarry::writer {

/// Compares the checksums of payloads while the bytes of their file pass from front to back.
class PayloadStream {
 public:
  /// @param walk  over the table of the file
  /// @param path  for messages
  PayloadStream(format::TableWalk walk, std::string path);

  /// The next bytes of the file.
  /// @errors kDataLoss: a payload has another checksum, or lies where it should not; the rest can be passed
  /// all the same
  Status Take(ByteSpan bytes);
  /// After the last byte. @errors kDataLoss: a payload did not come
  Status Finish() const;

 private:
  struct Payload {
    std::uint64_t patch = 0;
    int part = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t checksum = 0;
  };

  Status Next();
  Status EndPayload();

  format::TableWalk walk_;
  const std::string path_;
  const std::vector<format::PartRun> runs_;
  // The payload after `now_`: a run, a block, a row and a part.
  std::size_t run_ = 0;
  std::uint64_t block_ = 0;
  std::size_t row_ = 0;
  int part_ = 0;
  bool in_block_ = false;
  std::optional<Payload> now_;  ///< nothing: all have passed
  std::optional<StreamingChecksum> sum_;
  std::uint64_t position_ = 0;  ///< [bytes] that have come
  std::uint64_t passed_ = 0;    ///< end of the payload before `now_`
};

}  // namespace quarry::writer
