#include "server/http/grpc_web.h"

#include <algorithm>

#include "quarry/base/numbers.h"
#include "server/status_details.h"

namespace quarry::server::http {
namespace {

constexpr char kTrailers = '\x80';

}  // namespace

bool IsGrpcWeb(std::string_view content_type) {
  const std::size_t end = std::min(content_type.find_first_of("; "), content_type.size());
  const std::string_view type = content_type.substr(0, end);
  return type == kGrpcWebType || type == "application/grpc-web";
}

std::string FrameHead(std::size_t size, char flags) {
  std::string head(1, flags);
  for (int shift = 24; shift >= 0; shift -= 8)
    head += static_cast<char>(static_cast<unsigned char>(size >> shift));
  return head;
}

Frame ParseFrame(std::string_view head) {
  Frame frame;
  frame.flags = static_cast<std::uint8_t>(head[0]);
  for (std::size_t i = 1; i < kFrameHead; ++i)
    frame.size = frame.size << 8 | static_cast<std::uint8_t>(head[i]);
  return frame;
}

std::string TrailerFrame(const Status& status, const std::string& request_id) {
  const StatusDetails details = DetailsOf(status, request_id);
  std::string trailers = fmt::format("grpc-status: {}\r\n", static_cast<int>(status.code()));
  if (!status.ok()) {
    trailers += fmt::format("grpc-message: {}\r\n", PercentEncoded(details.message));
    trailers += fmt::format("grpc-status-details-bin: {}\r\n", Base64(details.bytes));
  }
  return FrameHead(trailers.size(), kTrailers) + trailers;
}

std::string PercentEncoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::string Base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (held += 8; held >= 6; held -= 6) text += kDigits[bits >> (held - 6) & 63];
  }
  if (held > 0) text += kDigits[bits << (6 - held) & 63];
  return text;
}

std::optional<std::chrono::nanoseconds> ParseTimeout(std::string_view header) {
  using std::chrono::nanoseconds;
  constexpr std::size_t kMostDigits = 8;
  if (header.size() < 2 || header.size() > kMostDigits + 1) return std::nullopt;
  std::int64_t number = 0;
  if (!ReadNumber(header.substr(0, header.size() - 1), &number) || number < 0) return std::nullopt;
  // Eight digits of hours are more nanoseconds than there are numbers for.
  constexpr std::int64_t kMostHours = 1'000'000;
  switch (header.back()) {
    case 'H':
      return nanoseconds(std::chrono::hours(std::min(number, kMostHours)));
    case 'M':
      return nanoseconds(std::chrono::minutes(number));
    case 'S':
      return nanoseconds(std::chrono::seconds(number));
    case 'm':
      return nanoseconds(std::chrono::milliseconds(number));
    case 'u':
      return nanoseconds(std::chrono::microseconds(number));
    case 'n':
      return nanoseconds(number);
    default:
      return std::nullopt;
  }
}

}  // namespace quarry::server::http
