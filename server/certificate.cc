#include "server/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>

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

Result<std::string> ReadPemFile(const std::string& path) {
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

}  // namespace

Result<Pem> ReadPem(const TlsFiles& files) {
  Pem pem;
  QUARRY_ASSIGN_OR_RETURN(pem.certificate, ReadPemFile(files.certificate));
  QUARRY_ASSIGN_OR_RETURN(pem.key, ReadPemFile(files.key));
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
    QUARRY_ASSIGN_OR_RETURN(pem.client_authority, ReadPemFile(files.client_authority));
    QUARRY_RETURN_IF_ERROR(
        quarry::internal::ToStatus(ParseCertificate(pem.client_authority, files.client_authority)));
  }
  QUARRY_ASSIGN_OR_RETURN(pem.certificate_end, EndOf(*certificate));
  return pem;
}

}  // namespace quarry::server
