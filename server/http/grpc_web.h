#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quarry/base/status.h"

/// gRPC-Web: the messages of a call in the bodies of a request and its answer. Pure functions.
/// @source https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md
namespace quarry::server::http {

inline constexpr std::string_view kGrpcWebType = "application/grpc-web+proto";
/// Bytes before each message: a flag, and its length.
inline constexpr std::size_t kFrameHead = 5;

/// Whether a header Content-Type announces gRPC-Web with messages in binary form.
bool IsGrpcWeb(std::string_view content_type);

/// The bytes before a message of this length, or before what else the flags announce.
std::string FrameHead(std::size_t size, char flags = 0);

/// Frame that the first bytes of a body announce.
struct Frame {
  std::uint8_t flags = 0;
  std::uint32_t size = 0;
};
/// @param head  kFrameHead bytes
Frame ParseFrame(std::string_view head);

/// The end of an answer: a frame with the status as trailers.
std::string TrailerFrame(const Status& status, const std::string& request_id);

/// As in the header grpc-message: printable ASCII stays, everything else and "%" become %XX.
/// @source https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, Percent-Encoded
std::string PercentEncoded(std::string_view text);

/// Without padding, as gRPC writes binary headers.
std::string Base64(std::string_view bytes);

/// The header grpc-timeout: at most eight digits and a unit, "250m". Nothing: none that is valid.
std::optional<std::chrono::nanoseconds> ParseTimeout(std::string_view header);

}  // namespace quarry::server::http
