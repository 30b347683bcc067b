#include "server/grpc/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <mutex>
#include <string>

namespace quarry::server {
namespace internal {

/// Like those of grpc::SslServerCredentials, except that gRPC asks for the certificate at each handshake: a
/// function of its C interface that the C++ one lacks.
class ReloadingCredentials final : public PortCredentials {
 public:
  explicit ReloadingCredentials(Pem pem)
      : PortCredentials(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                pem.client_authority.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
                &ReloadingCredentials::Fetch, this))),
        pem_(std::move(pem)) {}

  void Set(Pem pem) {
    const std::lock_guard lock(mutex_);
    pem_ = std::move(pem);
    changed_ = true;
  }
  Pem pem() const {
    const std::lock_guard lock(mutex_);
    return pem_;
  }

 private:
  static grpc_ssl_certificate_config_reload_status Fetch(void* self,
                                                         grpc_ssl_server_certificate_config** config) {
    return static_cast<ReloadingCredentials*>(self)->Fetch(config);
  }
  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config) {
    const std::lock_guard lock(mutex_);
    if (!changed_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {pem_.key.c_str(), pem_.certificate.c_str()};
    // gRPC requires an authority even where clients need no certificate.
    const std::string& authority = pem_.client_authority.empty() ? pem_.certificate : pem_.client_authority;
    *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
    changed_ = false;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  mutable std::mutex mutex_;
  Pem pem_;
  bool changed_ = true;  ///< since gRPC last fetched it
};

}  // namespace internal

Tls::Tls(TlsFiles files, std::shared_ptr<internal::ReloadingCredentials> credentials)
    : files_(std::move(files)), credentials_(std::move(credentials)) {}

Result<std::shared_ptr<Tls>> Tls::Load(const TlsFiles& files) {
  QUARRY_ASSIGN_OR_RETURN(Pem pem, ReadPem(files));
  auto credentials = std::make_shared<internal::ReloadingCredentials>(std::move(pem));
  return std::shared_ptr<Tls>(new Tls(files, std::move(credentials)));
}

Status Tls::Reload() {
  QUARRY_ASSIGN_OR_RETURN(Pem pem, ReadPem(files_));
  credentials_->Set(std::move(pem));
  return Status::Ok();
}

std::shared_ptr<PortCredentials> Tls::credentials() const { return credentials_; }

Pem Tls::pem() const { return credentials_->pem(); }

}  // namespace quarry::server
