#include "quarry/format/text_difference.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "quarry/codec/entropy/varint.h"
#include "quarry/format/byte_reader.h"

namespace quarry::format {
namespace {

/// Lines of the other text that are compared with one: a list there may be longer by as many.
constexpr std::size_t kLinesAhead = 64;

/// Each with its end.
std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end == std::string_view::npos ? text.size() : end + 1));
    text.remove_prefix(lines.back().size());
  }
  return lines;
}

/// The part of a line that says what its value is.
std::string_view KeyOf(std::string_view line) { return line.substr(0, line.find(':')); }

/// Gathers pieces: of what is next to each other there is one.
class Pieces {
 public:
  void Copy(std::size_t position, std::size_t size) {
    if (size == 0) return;
    if (!fresh_.empty() || position != end_) {
      Flush();
      skip_ = position - end_;
      end_ = position;
    }
    copy_ += size;
    end_ += size;
  }
  void Append(std::string_view text) { fresh_ += text; }

  Bytes Take() {
    Flush();
    return std::move(out_);
  }

 private:
  void Flush() {
    if (copy_ == 0 && fresh_.empty()) return;
    for (const std::size_t number : {skip_, copy_, fresh_.size()}) entropy::PutVarint(number, &out_);
    for (const char c : fresh_) out_.push_back(static_cast<std::byte>(c));
    skip_ = copy_ = 0;
    fresh_.clear();
  }

  Bytes out_;
  std::size_t end_ = 0;  ///< end of the last copy, in the other text
  std::size_t skip_ = 0;
  std::size_t copy_ = 0;
  std::string fresh_;
};

}  // namespace

Bytes EncodeDifference(std::string_view text, std::string_view from) {
  const std::vector<std::string_view> others = LinesOf(from);
  Pieces pieces;
  std::size_t next = 0;
  for (const std::string_view line : LinesOf(text)) {
    const auto ahead = others.begin() + static_cast<std::ptrdiff_t>(next);
    const auto limit = ahead + static_cast<std::ptrdiff_t>(std::min(kLinesAhead, others.size() - next));
    const auto found = std::find_if(
        ahead, limit, [key = KeyOf(line)](std::string_view other) { return KeyOf(other) == key; });
    if (found == limit) {
      pieces.Append(line);
      continue;
    }
    const std::string_view other = *found;
    next = static_cast<std::size_t>(found - others.begin()) + 1;
    const std::size_t most = std::min(line.size(), other.size());
    std::size_t front = 0;
    while (front < most && line[front] == other[front]) ++front;
    std::size_t back = 0;
    while (back < most - front && line[line.size() - 1 - back] == other[other.size() - 1 - back]) ++back;
    const auto position = static_cast<std::size_t>(other.data() - from.data());
    pieces.Copy(position, front);
    pieces.Append(line.substr(front, line.size() - front - back));
    pieces.Copy(position + other.size() - back, back);
  }
  return pieces.Take();
}

Result<std::string> DecodeDifference(ByteSpan difference, std::string_view from, std::uint64_t size) {
  ByteReader reader(difference);
  std::string text;
  std::size_t position = 0;
  while (reader.ok() && !reader.at_end()) {
    position += reader.Varint(from.size() - position);
    const std::uint64_t copied =
        reader.Varint(std::min<std::uint64_t>(from.size() - position, size - text.size()));
    text += from.substr(position, copied);
    position += copied;
    const ByteSpan fresh = reader.Take(reader.Varint(size - text.size()));
    text.append(reinterpret_cast<const char*>(fresh.data()), fresh.size());
  }
  if (!reader.ok() || text.size() != size)
    return DataLoss("the differences of a text of {} bytes are damaged", size);
  return text;
}

}  // namespace quarry::format
