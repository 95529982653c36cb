#include "server/http/tls_context.h"

namespace camshaft::server {

namespace net = boost::asio;

std::unique_ptr<net::ssl::context> make_tls_context(const TlsFiles& files) {
  auto context = std::make_unique<net::ssl::context>(net::ssl::context::tls_server);
  boost::system::error_code error;
  const auto check = [&](const char* what, const std::string& file) {
    if (error)
      throw ServerError(StatusCode::invalid_argument,
                        std::string("cannot use ") + what + " '" + file + "': " + error.message());
  };
  context->set_options(net::ssl::context::default_workarounds | net::ssl::context::no_sslv2 |
                           net::ssl::context::no_sslv3 | net::ssl::context::no_tlsv1 | net::ssl::context::no_tlsv1_1,
                       error);
  context->use_certificate_chain_file(files.certificate, error);
  check("the certificate", files.certificate);
  context->use_private_key_file(files.key, net::ssl::context::pem, error);
  check("the private key", files.key);
  if (SSL_CTX_check_private_key(context->native_handle()) != 1)
    throw ServerError(StatusCode::invalid_argument,
                      "the private key '" + files.key + "' is not that of '" + files.certificate + "'");
  if (!files.authorities.empty()) {
    context->load_verify_file(files.authorities, error);
    check("the authorities' certificates", files.authorities);
  }
  if (files.mutual) {
    if (files.authorities.empty())
      throw ServerError(StatusCode::invalid_argument,
                        "clients' certificates are asked for without authorities that they could be of");
    context->set_verify_mode(net::ssl::verify_peer | net::ssl::verify_fail_if_no_peer_cert);
  }
  return context;
}

}  // namespace camshaft::server
