#include "server/grpc/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <mutex>
#include <string>

#include "quarry/base/file.h"

namespace quarry::server {
namespace {

struct Free {
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

Result<std::string> ReadPem(const std::string& path) {
  constexpr std::uint64_t kLargestFile = 16 << 20;
  return ReadTextFile(path, kLargestFile);
}

Bio Open(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

/// Replaces OpenSSL's own, which would ask on the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

/// The first certificate of a file.
Result<Certificate> ParseCertificate(const std::string& pem, const std::string& path) {
  Certificate certificate(PEM_read_bio_X509(Open(pem).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (!certificate)
    return InvalidArgument(
        "{} holds no certificate in PEM format; it should begin with -----BEGIN CERTIFICATE-----", path);
  return certificate;
}

Result<double> EndOf(const X509& certificate) {
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(&certificate), &end) != 1)
    return InvalidArgument("the certificate does not say when it ends");
  return static_cast<double>(timegm(&end));
}

/// The contents of the files.
struct Pem {
  std::string certificate;
  std::string key;
  std::string client_authority;
  double certificate_end = 0;
};

Result<Pem> ReadAndCheck(const TlsFiles& files) {
  Pem pem;
  QUARRY_ASSIGN_OR_RETURN(pem.certificate, ReadPem(files.certificate));
  QUARRY_ASSIGN_OR_RETURN(pem.key, ReadPem(files.key));
  QUARRY_ASSIGN_OR_RETURN(const Certificate certificate,
                          ParseCertificate(pem.certificate, files.certificate));
  const Key key(PEM_read_bio_PrivateKey(Open(pem.key).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (!key)
    return InvalidArgument(
        "{} holds no private key in PEM format, or one with a password; write one without, that "
        "only the server's user may read",
        files.key);
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return InvalidArgument(
        "the key {} does not belong to the certificate {}; the server's own certificate comes first "
        "in its file",
        files.key, files.certificate);
  }
  if (!files.client_authority.empty()) {
    QUARRY_ASSIGN_OR_RETURN(pem.client_authority, ReadPem(files.client_authority));
    QUARRY_RETURN_IF_ERROR(
        quarry::internal::ToStatus(ParseCertificate(pem.client_authority, files.client_authority)));
  }
  QUARRY_ASSIGN_OR_RETURN(pem.certificate_end, EndOf(*certificate));
  return pem;
}

}  // namespace

namespace internal {

/// Like those of grpc::SslServerCredentials, except that gRPC asks for the certificate at each handshake: a
/// function of its C interface that the C++ one lacks.
class ReloadingCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReloadingCredentials(Pem pem)
      : pem_(std::move(pem)),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                pem_.client_authority.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                              : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
                &ReloadingCredentials::Fetch, this))) {}
  ~ReloadingCredentials() override { grpc_server_credentials_release(credentials_); }

  void Set(Pem pem) {
    const std::lock_guard lock(mutex_);
    pem_ = std::move(pem);
    changed_ = true;
  }
  double certificate_end() const {
    const std::lock_guard lock(mutex_);
    return pem_.certificate_end;
  }

  /// The server uses tokens instead (Call).
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status Fetch(void* self,
                                                         grpc_ssl_server_certificate_config** config) {
    return static_cast<ReloadingCredentials*>(self)->Fetch(config);
  }
  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config) {
    const std::lock_guard lock(mutex_);
    if (!changed_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {pem_.key.c_str(), pem_.certificate.c_str()};
    // gRPC requires an authority even if no client is asked for a certificate.
    const std::string& authority = pem_.client_authority.empty() ? pem_.certificate : pem_.client_authority;
    *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
    changed_ = false;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  mutable std::mutex mutex_;
  Pem pem_;
  bool changed_ = true;  ///< since gRPC last fetched it
  grpc_server_credentials* const credentials_;
};

}  // namespace internal

Tls::Tls(TlsFiles files, std::shared_ptr<internal::ReloadingCredentials> credentials)
    : files_(std::move(files)), credentials_(std::move(credentials)) {}

Result<std::shared_ptr<Tls>> Tls::Load(const TlsFiles& files) {
  QUARRY_ASSIGN_OR_RETURN(Pem pem, ReadAndCheck(files));
  auto credentials = std::make_shared<internal::ReloadingCredentials>(std::move(pem));
  return std::shared_ptr<Tls>(new Tls(files, std::move(credentials)));
}

Status Tls::Reload() {
  QUARRY_ASSIGN_OR_RETURN(Pem pem, ReadAndCheck(files_));
  credentials_->Set(std::move(pem));
  return Status::Ok();
}

std::shared_ptr<grpc::ServerCredentials> Tls::credentials() const { return credentials_; }

double Tls::certificate_end() const { return credentials_->certificate_end(); }

}  // namespace quarry::server
