#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "server/http/channel.h"

namespace quarry::server::http {
namespace {

using State = Transferred::State;

struct Free {
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(BIO_METHOD* p) const { BIO_meth_free(p); }
  void operator()(SSL* p) const { SSL_free(p); }
  void operator()(SSL_CTX* p) const { SSL_CTX_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

// ---- The socket below: OpenSSL's own would let a client that leaves end the process by SIGPIPE.

int DescriptorOf(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

int ReadSocket(BIO* bio, char* buffer, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = ::recv(DescriptorOf(bio), buffer, static_cast<std::size_t>(size), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

int WriteSocket(BIO* bio, const char* buffer, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(DescriptorOf(bio), buffer, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

long ControlSocket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const kMethod = [] {
    Owned<BIO_METHOD> method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket"));
    BIO_meth_set_read(method.get(), ReadSocket);
    BIO_meth_set_write(method.get(), WriteSocket);
    BIO_meth_set_ctrl(method.get(), ControlSocket);
    return method.release();  // never freed
  }();
  return kMethod;
}

class TlsChannel final : public Channel {
 public:
  TlsChannel(SSL_CTX* context, int descriptor) : Channel(descriptor), ssl_(SSL_new(context)) {
    BIO* const bio = BIO_new(SocketMethod());
    if (!ssl_ || bio == nullptr) throw std::bad_alloc();
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);  // which owns it now
    SSL_set_accept_state(ssl_.get());
  }

  Transferred TryRead(std::span<std::byte> buffer) override {
    ERR_clear_error();
    return Outcome(SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size())));
  }

  Transferred TryWrite(std::span<const SharedBytes> pieces) override {
    ERR_clear_error();
    // A record for each small piece would be mostly frames. The same pieces make the same record in the next
    // attempt, as OpenSSL requires.
    constexpr std::size_t kRecord = 16 << 10;
    if (pieces.front().bytes.size() >= kRecord)
      return Outcome(SSL_write(ssl_.get(), pieces.front().bytes.data(), static_cast<int>(kRecord)));
    std::array<std::byte, kRecord> record;
    std::size_t filled = 0;
    for (const SharedBytes& piece : pieces) {
      const std::size_t part = std::min(piece.bytes.size(), kRecord - filled);
      std::memcpy(record.data() + filled, piece.bytes.data(), part);
      filled += part;
      if (filled == kRecord) break;
    }
    return Outcome(SSL_write(ssl_.get(), record.data(), static_cast<int>(filled)));
  }

  bool is_established() const override { return SSL_is_init_finished(ssl_.get()) == 1; }

  std::string certificate_name() const override {
    const Owned<X509> certificate(SSL_get1_peer_certificate(ssl_.get()));
    if (!certificate) return "";
    std::array<char, 256> name{};
    const int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName,
                                               name.data(), static_cast<int>(name.size()));
    return size > 0 ? std::string(name.data(), static_cast<std::size_t>(size)) : "";
  }

  void EndWriting() override {
    ERR_clear_error();
    if (is_established()) (void)SSL_shutdown(ssl_.get());
    ERR_clear_error();
    (void)::shutdown(descriptor(), SHUT_WR);
  }

 private:
  Transferred Outcome(int result) const {
    if (result > 0) return {State::kDone, static_cast<std::size_t>(result)};
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return {State::kWantRead};
      case SSL_ERROR_WANT_WRITE:
        return {State::kWantWrite};
      default:
        return {State::kClosed};
    }
  }

  const Owned<SSL> ssl_;
};

// ---- Certificates

/// Browsers that offer HTTP/2 as well learn that this is HTTP/1.1.
int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered,
                   unsigned int offered_size, void*) {
  static constexpr unsigned char kOurs[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, kOurs, sizeof(kOurs), offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

Owned<BIO> Open(const std::string& pem) {
  return Owned<BIO>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

/// The first certificate is the server's, the others lead to its authority.
bool UseChain(SSL_CTX* context, const std::string& pem) {
  const Owned<BIO> text = Open(pem);
  const Owned<X509> own(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  if (!own || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (Owned<X509> next{PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)}) {
    if (SSL_CTX_add0_chain_cert(context, next.get()) != 1) return false;
    (void)next.release();
  }
  return true;
}

bool UseKey(SSL_CTX* context, const std::string& pem) {
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(Open(pem).get(), nullptr, nullptr, nullptr));
  return key && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

bool RequireClients(SSL_CTX* context, const std::string& pem) {
  const Owned<BIO> text = Open(pem);
  while (const Owned<X509> authority{PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)}) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1) return false;
    (void)SSL_CTX_add_client_CA(context, authority.get());
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return true;
}

void SetRules(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A returning client shows its certificate again: the authority may be another one by then.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_alpn_select_cb(context, ChooseProtocol, nullptr);
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::Make(const Pem& pem) {
  Owned<SSL_CTX> context(SSL_CTX_new(TLS_server_method()));
  if (!context) return ResourceExhausted("there is no memory for certificates");
  SetRules(context.get());
  const bool good = UseChain(context.get(), pem.certificate) && UseKey(context.get(), pem.key) &&
                    (pem.client_authority.empty() || RequireClients(context.get(), pem.client_authority));
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_peek_error(), reason.data(), reason.size());
  ERR_clear_error();
  if (!good) return InvalidArgument("the certificate cannot be used for TLS: {}", reason.data());
  return std::shared_ptr<const TlsContext>(new TlsContext(context.release()));
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

std::unique_ptr<Channel> TlsContext::MakeChannel(int descriptor) const {
  return std::make_unique<TlsChannel>(context_, descriptor);
}

}  // namespace quarry::server::http
