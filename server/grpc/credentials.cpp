#include "server/grpc/credentials.h"

#include <fstream>
#include <iterator>
#include <string>

namespace camshaft::server {
namespace {

std::string read_pem(const std::string& file, const char* flag) {
  if (file.empty()) throw ServerError(StatusCode::invalid_argument, std::string(flag) + " is missing");
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in || text.find("-----BEGIN") == std::string::npos)
    throw ServerError(StatusCode::invalid_argument, std::string(flag) + ": '" + file + "' is not a file in PEM form");
  return text;
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> server_credentials(const TlsFiles& files) {
  if (!files.enabled()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(files.mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                                         : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_key_cert_pairs.push_back(
      {read_pem(files.key, "--grpc-server-key"), read_pem(files.certificate, "--grpc-server-cert")});
  if (files.mutual || !files.authorities.empty())
    options.pem_root_certs = read_pem(files.authorities, "--grpc-root-cert");
  return grpc::SslServerCredentials(options);
}

}  // namespace camshaft::server
