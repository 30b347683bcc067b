#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "quarry/base/status.h"

namespace quarry::server::http {

/// [bytes] The longest head of a request.
inline constexpr std::size_t kMostHead = 16 << 10;
/// [bytes] The most that a body in chunks may have beside its content: lines of chunks, their extensions, and
/// trailers.
inline constexpr std::size_t kMostFraming = 16 << 10;

/// A request as it arrives. Boost.Beast parses it, in this one file. One thread at a time.
class Request {
 public:
  Request();
  ~Request();

  /// Takes arrived bytes: before the head is complete, everything from its first byte on; after it, the next
  /// bytes of the body, which are kept. After an error it stays the same error.
  /// @returns how many bytes it needs no more
  /// @errors kResourceExhausted: a head of more than kMostHead bytes, or a body beyond LimitBody;
  /// kUnimplemented: a transfer coding other than "chunked"; kInvalidArgument: no request, a body whose end
  /// nobody can know, or one with more than kMostFraming bytes between its parts
  Result<std::size_t> Put(std::string_view bytes);

  bool has_head() const;
  /// Whether the whole body has come.
  bool is_done() const;

  // Parts of the head, when it is complete:

  std::string_view method() const;
  std::string_view target() const;
  bool is_old() const;  ///< HTTP/1.0
  bool keep_alive() const;
  /// The first header of a name, in any case.
  std::optional<std::string_view> Header(std::string_view name) const;
  /// How many headers have a name.
  std::size_t Count(std::string_view name) const;
  /// Length of the body, if it was announced.
  std::optional<std::uint64_t> content_length() const;

  /// Most bytes of the body that Put takes from now on.
  void LimitBody(std::uint64_t bytes);
  /// The body so far.
  std::string& body();

 private:
  Result<std::size_t> Parse(std::string_view bytes);
  std::uint64_t Framing(std::size_t unused) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quarry::server::http
