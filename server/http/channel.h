#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "quarry/base/status.h"
#include "server/certificate.h"
#include "server/peer.h"

// OpenSSL stays in channel.cc.
struct ssl_ctx_st;

namespace quarry::server::http {

/// How far an attempt to read or write has come.
struct Transferred {
  enum class State {
    kDone,       ///< so many bytes, at least one
    kWantRead,   ///< when the socket can be read
    kWantWrite,  ///< when it can be written
    kClosed,     ///< the connection has ended, or is broken
  };
  State state = State::kClosed;
  std::size_t bytes = 0;
};

/// Progress of a message that is sent in pieces.
class Outgoing {
 public:
  void Add(SharedBytes piece) {
    if (!piece.bytes.empty()) pieces_.push_back(std::move(piece));
  }
  void Add(std::string text) { Add(OwnBytes(std::move(text))); }
  void Add(const Message& message) {
    for (const SharedBytes& piece : message) Add(piece);
  }
  bool empty() const { return first_ == pieces_.size(); }
  /// The pieces that are left, the first of them perhaps in part.
  std::span<const SharedBytes> left() const { return std::span(pieces_).subspan(first_); }
  void Sent(std::size_t bytes);

 private:
  Message pieces_;
  std::size_t first_ = 0;
};

/// The bytes of a connection, plain or with TLS. Never blocks, except in the functions with "Wait" in their
/// names. One thread at a time, except for Cut.
class Channel {
 public:
  virtual ~Channel() = default;

  virtual Transferred TryRead(std::span<std::byte> buffer) = 0;
  virtual Transferred TryWrite(std::span<const SharedBytes> pieces) = 0;
  /// Whether bytes can be exchanged: with TLS when the handshake is done.
  virtual bool is_established() const { return true; }
  /// Common name in the client's certificate; empty if it has shown none.
  virtual std::string certificate_name() const { return ""; }
  /// Says that no more will be sent, without waiting.
  virtual void EndWriting() = 0;

  /// Reads something. False: the connection has ended, or was cut.
  bool WaitAndRead(std::string* to, std::size_t most);
  /// Writes everything. False: the client has disconnected, or was cut off.
  bool WaitAndWrite(Outgoing* outgoing);
  /// Whether the client has closed the connection, or its end of it: the answer has no reader any more.
  bool IsGone() const;
  /// Ends everything that waits, now and later. Thread-safe.
  void Cut();

 protected:
  explicit Channel(int descriptor) : descriptor_(descriptor) {}
  int descriptor() const { return descriptor_; }

 private:
  bool WaitFor(Transferred::State state) const;

  const int descriptor_;
  std::atomic<bool> cut_ = false;
};

/// @param descriptor  of a socket that does not block; stays open for as long as the channel lives
std::unique_ptr<Channel> MakePlainChannel(int descriptor);

/// Certificates for connections that are still to come.
class TlsContext {
 public:
  /// @errors kInvalidArgument: OpenSSL does not take the certificate
  static Result<std::shared_ptr<const TlsContext>> Make(const Pem& pem);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// @param descriptor  see MakePlainChannel
  std::unique_ptr<Channel> MakeChannel(int descriptor) const;

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}

  ssl_ctx_st* const context_;
};

}  // namespace quarry::server::http
