// One request over HTTP and its answer, as handlers see them; connection.h has the sockets.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/core/request.h"

namespace camshaft::server {

enum class HttpMethod { get, head, post, other };

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";  ///< empty: there is no body
  std::vector<std::pair<std::string, std::string>> headers;
  std::string text;
  std::vector<Bytes> tensors;  ///< after the text; sent from where they are
};

/// All calls are made on the connection's thread; from others through post().
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual HttpMethod method() const = 0;
  virtual std::string_view target() const = 0;
  /// Empty for a header that is not there. Names have no case.
  virtual std::string_view header(std::string_view name) const = 0;
  virtual void each_header(const std::function<void(std::string_view name, std::string_view value)>& visit) const = 0;
  virtual const Bytes& body() const = 0;
  virtual Clock::time_point received() const = 0;

  /// Runs something on the connection's thread; safe from any.
  virtual void post(std::function<void()> work) = 0;
  /// Runs something that computes for long on another thread.
  virtual void run_elsewhere(std::function<void()> work) = 0;
  /// Runs something that may wait for minutes, as a load does, on another thread.
  virtual void run_apart(std::function<void()> work) = 0;
  /// Is cancelled when the client goes away before the answer.
  virtual void watch(const Cancellation& cancellation) = 0;

  /// The answer; exactly once, unless it is a stream.
  virtual void send(HttpReply reply) = 0;
  /// An answer in pieces, whose length is not known: begin, any number of pieces, end.
  virtual void begin_stream(HttpReply head) = 0;
  virtual void send_piece(std::string piece) = 0;
  virtual void end_stream() = 0;
};

}  // namespace camshaft::server
