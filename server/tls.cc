#include "server/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
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

/// Instead of OpenSSL's own, which would ask on the terminal.
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

}  // namespace

Result<Tls> LoadTls(const TlsFiles& files) {
  QUARRY_ASSIGN_OR_RETURN(const std::string certificate_pem, ReadPem(files.certificate));
  QUARRY_ASSIGN_OR_RETURN(const std::string key_pem, ReadPem(files.key));
  QUARRY_ASSIGN_OR_RETURN(const Certificate certificate,
                          ParseCertificate(certificate_pem, files.certificate));
  const Key key(PEM_read_bio_PrivateKey(Open(key_pem).get(), nullptr, NoPassword, nullptr));
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
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({key_pem, certificate_pem});
  if (!files.client_authority.empty()) {
    QUARRY_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem(files.client_authority));
    QUARRY_RETURN_IF_ERROR(
        internal::ToStatus(ParseCertificate(options.pem_root_certs, files.client_authority)));
    options.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  Tls tls;
  tls.credentials = grpc::SslServerCredentials(options);
  QUARRY_ASSIGN_OR_RETURN(tls.certificate_end, EndOf(*certificate));
  return tls;
}

}  // namespace quarry::server
