#include "server/top/status_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <fstream>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::chrono::seconds patience{5};
// Thousands of models have some MB.
constexpr uint64_t most_bytes = uint64_t{64} << 20;

std::string first_word(const std::string& file) {
  std::ifstream in(file);
  std::string word;
  if (!(in >> word))
    throw ServerError(StatusCode::invalid_argument, "there is no token in the file '" + file + "' of --token-file");
  return word;
}

struct Exchange {
  http::request<http::empty_body> request;
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  error_code error;
};

// Asynchronous, as only that has time limits.
template <class Stream>
void ask(Stream& stream, Exchange& exchange) {
  http::async_write(stream, exchange.request, [&](error_code failed, size_t) {
    exchange.error = failed;
    if (failed) return;
    http::async_read(stream, exchange.buffer, exchange.parser,
                     [&](error_code wrong, size_t) { exchange.error = wrong; });
  });
}

net::ssl::context make_context(const StatusSource& source) {
  net::ssl::context context(net::ssl::context::tls_client);
  error_code error;
  const auto check = [&](const char* option, const std::string& file) {
    if (error)
      throw ServerError(StatusCode::invalid_argument,
                        std::string("cannot use ") + option + " '" + file + "': " + error.message());
  };
  if (source.root_cert.empty())
    context.set_default_verify_paths(error);
  else
    context.load_verify_file(source.root_cert, error);
  check("--root-cert", source.root_cert);
  if (!source.client_cert.empty()) {
    context.use_certificate_chain_file(source.client_cert, error);
    check("--client-cert", source.client_cert);
    context.use_private_key_file(source.client_key, net::ssl::context::pem, error);
    check("--client-key", source.client_key);
  }
  context.set_verify_mode(net::ssl::verify_peer);
  return context;
}

}  // namespace

StatusClient::StatusClient(StatusSource source) : source_(std::move(source)) {
  std::string_view url = source_.url;
  if (const size_t scheme = url.find("://"); scheme != url.npos) {
    tls_ = url.substr(0, scheme) == "https";
    if (!tls_ && url.substr(0, scheme) != "http")
      throw ServerError(StatusCode::invalid_argument, "'" + source_.url + "' is neither http:// nor https://");
    url.remove_prefix(scheme + 3);
  }
  url = url.substr(0, url.find('/'));
  const size_t colon = url.rfind(':'), bracket = url.rfind(']');
  const bool has_port = colon != url.npos && (bracket == url.npos || colon > bracket);
  host_ = url.substr(0, has_port ? colon : url.npos);
  port_ = has_port ? std::string(url.substr(colon + 1)) : tls_ ? "443" : "8000";
  if (host_.starts_with('[') && host_.ends_with(']')) host_ = host_.substr(1, host_.size() - 2);
  const bool is_number = !port_.empty() && port_.find_first_not_of("0123456789") == std::string::npos;
  if (host_.empty() || !is_number)
    throw ServerError(StatusCode::invalid_argument,
                      "'" + source_.url + "' is not where a server is: http://HOST:PORT, as http://localhost:8000");
  place_ = url;
  if (!has_port) place_ += ":" + port_;
  if (!source_.token_file.empty()) first_word(source_.token_file);
  if (tls_) make_context(source_);
}

std::string StatusClient::exchange(int& status) const {
  Exchange exchange;
  exchange.request = {http::verb::get, "/status.json", 11};
  exchange.request.set(http::field::host, place_);
  exchange.request.set(http::field::user_agent, "camshaft-top");
  exchange.request.keep_alive(false);
  if (!source_.token_file.empty())
    exchange.request.set(http::field::authorization, "Bearer " + first_word(source_.token_file));
  exchange.parser.body_limit(most_bytes);
  net::io_context io{1};
  net::ip::tcp::resolver resolver(io);
  const auto places = resolver.resolve(host_, port_);
  if (tls_) {
    net::ssl::context context = make_context(source_);
    boost::beast::ssl_stream<boost::beast::tcp_stream> stream(io, context);
    SSL_set_tlsext_host_name(stream.native_handle(), host_.c_str());
    stream.set_verify_callback(net::ssl::host_name_verification(host_));
    get_lowest_layer(stream).expires_after(patience);
    get_lowest_layer(stream).async_connect(places, [&](error_code error, const auto&) {
      exchange.error = error;
      if (error) return;
      stream.async_handshake(net::ssl::stream_base::client, [&](error_code refused) {
        exchange.error = refused;
        if (!refused) ask(stream, exchange);
      });
    });
    io.run();
  } else {
    boost::beast::tcp_stream stream(io);
    stream.expires_after(patience);
    stream.async_connect(places, [&](error_code error, const auto&) {
      exchange.error = error;
      if (!error) ask(stream, exchange);
    });
    io.run();
  }
  if (exchange.error) throw boost::system::system_error(exchange.error);
  status = exchange.parser.get().result_int();
  return std::move(exchange.parser.get().body());
}

nlohmann::json StatusClient::read() const {
  int status = 0;
  std::string body;
  try {
    body = exchange(status);
  } catch (const boost::system::system_error& error) {
    throw ServerError(StatusCode::unavailable, "no server answers at " + source_.url + " (" + error.code().message() +
                                                   "): --url says where one is, `camshaft serve` starts one");
  }
  if (status == 401 || status == 403)
    throw ServerError(StatusCode::permission_denied,
                      "the server at " + source_.url + " asks for a token: --token-file FILE" +
                          (source_.token_file.empty() ? "" : ", it is not the one in '" + source_.token_file + "'"));
  nlohmann::json document = nlohmann::json::parse(body, nullptr, false);
  if (status != 200 || !document.is_object() || !document.contains("models"))
    throw ServerError(StatusCode::unsupported,
                      "what answers at " + source_.url + " (status " + std::to_string(status) +
                          ") has no figures to show: it is no server of Camshaft, or was started with "
                          "--status-page=false");
  return document;
}

}  // namespace camshaft::server
