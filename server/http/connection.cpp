#include "server/http/connection.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <cstring>
#include <deque>

#include "server/http/http_status.h"
#include "server/http/reply_body.h"

namespace camshaft::server {

namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using boost::beast::error_code;
using PlainStream = net::ip::tcp::socket;
using TlsStream = net::ssl::stream<net::ip::tcp::socket>;

constexpr uint64_t slowest_rate = 256 << 10;  // bytes a second, beyond the time that every body has
constexpr uint64_t drained_body = 1 << 20;    // of a refused request, so that the connection goes on
constexpr uint64_t longest_queue = 64 << 20;  // bytes of a stream that the client does not take
constexpr uint64_t most_chunks = 65536;       // of one body
constexpr size_t first_read = 8 << 10;        // at most so much of a body is copied
constexpr size_t alignment = 64;              // of tensors
constexpr std::chrono::seconds linger_time{2};

template <class Stream>
class Connection;

template <class Stream>
class Exchange final : public HttpExchange, public std::enable_shared_from_this<Exchange<Stream>> {
 public:
  explicit Exchange(std::shared_ptr<Connection<Stream>> connection) : connection_(std::move(connection)) {}

  HttpMethod method() const override {
    switch (parser.get().method()) {
      case http::verb::get:
        return HttpMethod::get;
      case http::verb::head:
        return HttpMethod::head;
      case http::verb::post:
        return HttpMethod::post;
      default:
        return HttpMethod::other;
    }
  }
  std::string_view target() const override { return view(parser.get().target()); }
  std::string_view header(std::string_view name) const override {
    const auto found = parser.get().find(boost::beast::string_view(name.data(), name.size()));
    return found == parser.get().end() ? std::string_view() : view(found->value());
  }
  void each_header(const std::function<void(std::string_view, std::string_view)>& visit) const override {
    for (const auto& field : parser.get()) visit(view(field.name_string()), view(field.value()));
  }
  const Bytes& body() const override { return body_bytes; }
  Clock::time_point received() const override { return received_at; }

  void post(std::function<void()> work) override { net::post(connection_->executor(), std::move(work)); }
  void run_elsewhere(std::function<void()> work) override {
    net::post(connection_->worker().service().elsewhere, std::move(work));
  }
  void run_apart(std::function<void()> work) override {
    net::post(connection_->worker().service().apart, std::move(work));
  }
  void watch(const Cancellation& cancellation) override { cancellation_ = cancellation; }
  void send(HttpReply reply) override { connection_->send(*this, std::move(reply)); }
  void begin_stream(HttpReply head) override { connection_->begin_stream(*this, std::move(head)); }
  void send_piece(std::string piece) override { connection_->send_piece(*this, std::move(piece)); }
  void end_stream() override { connection_->end_stream(*this); }

  void client_left() {
    if (cancellation_) cancellation_->cancel();
  }

  http::request_parser<http::buffer_body> parser;
  Body memory;
  Bytes body_bytes;
  Clock::time_point received_at;
  std::optional<HttpReply> refusal;
  uint64_t chunks = 0;
  std::function<void(uint64_t, boost::beast::string_view, error_code&)> on_chunk;
  std::optional<http::response<ReplyBody>> reply;
  std::optional<http::response_serializer<ReplyBody>> reply_serializer;
  std::optional<http::response<http::empty_body>> stream_head;
  std::optional<http::response_serializer<http::empty_body>> stream_serializer;
  std::deque<std::string> pieces;
  uint64_t queued_bytes = 0;
  bool writing = false, stream_ended = false;

 private:
  static std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

  std::shared_ptr<Connection<Stream>> connection_;
  std::optional<Cancellation> cancellation_;
};

// What an operation reads or writes may belong to the exchange: its handler holds that, as the connection lets go of it
// when it is closed, which may be before a handler that is due has run.
template <class Stream>
class Connection final : public ConnectionBase, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  template <class... Arguments>
  Connection(std::shared_ptr<HttpWorker> worker, HttpHandler& handler, bool refuse, Arguments&&... arguments)
      : worker_(std::move(worker)),
        handler_(handler),
        refuse_(refuse),
        stream_(std::forward<Arguments>(arguments)...),
        buffer_(options().max_header_size + 2 * first_read) {
    buffer_.reserve(first_read);
  }

  auto executor() { return stream_.get_executor(); }
  HttpWorker& worker() { return *worker_; }

  void start() override {
    if (worker_->stopping()) return;
    worker_->add(this->shared_from_this());
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      deadline_ = Clock::now() + options().header_timeout;
      stream_.async_handshake(net::ssl::stream_base::server, [self = this->shared_from_this()](error_code error) {
        error || self->closed_ ? self->close() : self->first_request();
      });
    } else {
      first_request();
    }
  }

  void tick(Clock::time_point now) override {
    // The time for a header starts with its first byte.
    if (waiting_ && buffer_.size() > 0) {
      waiting_ = false;
      deadline_ = now + options().header_timeout;
    }
    if (now >= deadline_) return close();
    if (!handling_ || gone_ || now < look_at_) return;
    look_at_ = now + std::chrono::milliseconds(100);
    pollfd state{stream_.lowest_layer().native_handle(), POLLRDHUP, 0};
    if (poll(&state, 1, 0) <= 0 || (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0) return;
    gone_ = true;
    if (exchange_) exchange_->client_left();
  }

  void stop() override {
    if (exchange_ == nullptr || (reading_header_ && buffer_.size() == 0)) close();
  }

  void send(Exchange<Stream>& exchange, HttpReply reply) {
    if (closed_ || gone_) return close();
    handling_ = false;
    const bool keep = keep_alive(exchange);
    auto& message = exchange.reply.emplace();
    fill(message, exchange, reply, keep);
    message.body().text = std::move(reply.text);
    message.body().tensors = std::move(reply.tensors);
    message.body().gather();
    const uint64_t size = ReplyBody::size(message.body());
    message.content_length(size);
    auto& serializer = exchange.reply_serializer.emplace(message);
    allow(size);
    auto done = [self = this->shared_from_this(), held = exchange.shared_from_this(), keep](error_code error, size_t) {
      self->answered(error, keep);
    };
    if (exchange.method() == HttpMethod::head)
      http::async_write_header(stream_, serializer, std::move(done));
    else
      http::async_write(stream_, serializer, std::move(done));
  }

  void begin_stream(Exchange<Stream>& exchange, HttpReply head) {
    if (closed_ || gone_) return;
    auto& message = exchange.stream_head.emplace();
    const bool chunked = exchange.parser.get().version() >= 11;
    fill(message, exchange, head, keep_alive(exchange) && chunked);
    message.chunked(chunked);
    auto& serializer = exchange.stream_serializer.emplace(message);
    exchange.writing = true;
    allow(0);
    http::async_write_header(stream_, serializer,
                             [self = this->shared_from_this(), held = exchange.shared_from_this()](
                                 error_code error, size_t) { self->piece_sent(error); });
  }

  void send_piece(Exchange<Stream>& exchange, std::string piece) {
    if (closed_ || gone_ || piece.empty()) return;
    exchange.queued_bytes += piece.size();
    exchange.pieces.push_back(std::move(piece));
    if (exchange.queued_bytes > longest_queue) return close();
    if (!exchange.writing) write_piece(exchange);
  }

  void end_stream(Exchange<Stream>& exchange) {
    if (closed_ || gone_) return close();
    exchange.stream_ended = true;
    if (!exchange.writing) write_piece(exchange);
  }

 private:
  const HttpOptions& options() const { return worker_->service().options; }

  bool keep_alive(const Exchange<Stream>& exchange) const {
    return !lingers_ && !worker_->stopping() && exchange.parser.keep_alive();
  }

  // So long may it take to send or to receive `size` bytes.
  void allow(uint64_t size) {
    deadline_ = Clock::now() + options().body_timeout + std::chrono::seconds(size / slowest_rate);
  }

  template <class Message>
  void fill(Message& message, const Exchange<Stream>& exchange, const HttpReply& reply, bool keep) {
    message.version(exchange.parser.get().version() == 10 ? 10 : 11);
    message.result(static_cast<unsigned>(reply.status));
    message.set(http::field::date, worker_->date());
    if (!reply.content_type.empty()) message.set(http::field::content_type, reply.content_type);
    for (const auto& [name, value] : reply.headers) message.insert(name, value);
    message.keep_alive(keep);
  }

  void first_request() {
    if (!refuse_) return read_header();
    exchange_ = std::make_shared<Exchange<Stream>>(this->shared_from_this());
    refuse_with(error_reply(503, "the server has as many connections as it takes: try again later"));
  }

  // Answers and closes, whatever else the client sends.
  void refuse_with(HttpReply reply) {
    lingers_ = true;
    exchange_->send(std::move(reply));
  }

  void read_header() {
    exchange_ = std::make_shared<Exchange<Stream>>(this->shared_from_this());
    exchange_->parser.header_limit(options().max_header_size);
    exchange_->parser.body_limit(boost::none);
    waiting_ = buffer_.size() == 0;
    reading_header_ = true;
    deadline_ = Clock::now() + (waiting_ ? options().idle_timeout : options().header_timeout);
    http::async_read_header(
        stream_, buffer_, exchange_->parser,
        [self = this->shared_from_this(), held = exchange_](error_code error, size_t) { self->header_read(error); });
  }

  void header_read(error_code error) {
    reading_header_ = waiting_ = false;
    if (closed_) return;
    if (error) {
      const bool malformed = error.category() == make_error_code(http::error::bad_method).category() &&
                             error != http::error::end_of_stream && error != http::error::partial_message;
      if (!malformed) return close();
      if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return refuse_with(
            error_reply(431, "the header is larger than " + std::to_string(options().max_header_size) + " bytes"));
      return refuse_with(error_reply(400, "the request is no HTTP: " + error.message()));
    }
    Exchange<Stream>& exchange = *exchange_;
    exchange.received_at = Clock::now();
    try {
      exchange.refusal = handler_.gate(exchange);
    } catch (...) {
      exchange.refusal = error_reply(current_exception_status());
    }
    const bool chunked = exchange.parser.chunked();
    const uint64_t length = chunked || !exchange.parser.content_length() ? 0 : *exchange.parser.content_length();
    if (!exchange.refusal && length > options().max_input_size)
      exchange.refusal = error_reply(400, "the body has " + std::to_string(length) +
                                              " bytes, which exceeds the maximum allowed value of " +
                                              std::to_string(options().max_input_size) +
                                              " bytes. Use --http-max-input-size to increase the limit.");
    const std::string_view expect = exchange.header("Expect");
    const bool expects = !expect.empty() && (chunked || length > 0) && exchange.parser.get().version() >= 11;
    if (exchange.refusal && (chunked || length > drained_body || expects))
      return refuse_with(std::move(*exchange.refusal));
    if (!chunked && length == 0) return dispatch();
    try {
      if (chunked) {
        exchange.memory = worker_->service().bodies.take(64 << 10);
      } else {
        // The first tensor, which follows the JSON, then lies at a multiple of 64 bytes.
        const size_t lead = (alignment - document_size(exchange) % alignment) % alignment;
        exchange.memory = worker_->service().bodies.take(length + lead);
        exchange.memory.span = exchange.memory.span.subspan(lead);
      }
    } catch (const ServerError& failure) {
      return refuse_with(error_reply(failure.status()));
    }
    if (expects && buffer_.size() == 0) return send_continue(chunked, length);
    read_body(chunked, length);
  }

  // As its header says; 0 for what is no number: that is told with the rest.
  static uint64_t document_size(const Exchange<Stream>& exchange) {
    const std::string_view text = exchange.header("Inference-Header-Content-Length");
    uint64_t size = 0;
    std::from_chars(text.data(), text.data() + text.size(), size);
    return size;
  }

  void send_continue(bool chunked, uint64_t length) {
    auto& message = exchange_->stream_head.emplace(http::status::continue_, 11);
    auto& serializer = exchange_->stream_serializer.emplace(message);
    deadline_ = Clock::now() + options().body_timeout;
    http::async_write(stream_, serializer,
                      [self = this->shared_from_this(), held = exchange_, chunked, length](error_code error, size_t) {
                        if (error) return self->close();
                        if (self->closed_) return;
                        self->exchange_->stream_serializer.reset();
                        self->exchange_->stream_head.reset();
                        self->read_body(chunked, length);
                      });
  }

  void read_body(bool chunked, uint64_t length) {
    body_start_ = Clock::now();
    if (chunked) {
      exchange_->parser.body_limit(options().max_input_size);
      exchange_->on_chunk = [this](uint64_t size, boost::beast::string_view, error_code& error) {
        if (size > 0 && ++exchange_->chunks > most_chunks) error = http::error::body_limit;
      };
      exchange_->parser.on_chunk_header(exchange_->on_chunk);
      return read_chunks(0);
    }
    allow(length);
    const std::span<std::byte> memory = exchange_->memory.span;
    const size_t have = std::min<uint64_t>(buffer_.size(), length);
    std::memcpy(memory.data(), buffer_.data().data(), have);
    buffer_.consume(have);
    if (have == length) return body_read(length);
    net::async_read(
        stream_, net::buffer(memory.data() + have, length - have),
        [](error_code error, size_t) -> size_t { return error ? 0 : size_t{1} << 30; },
        [self = this->shared_from_this(), held = exchange_, length](error_code error, size_t) {
          if (error) return self->close();
          if (!self->closed_) self->body_read(length);
        });
  }

  // Reads on behind the first `have` bytes of the body, in memory that grows.
  void read_chunks(uint64_t have) {
    Body& memory = exchange_->memory;
    if (have == memory.span.size()) {
      try {
        Body larger = worker_->service().bodies.take(std::min<uint64_t>(2 * have, options().max_input_size + 1));
        std::memcpy(larger.span.data(), memory.span.data(), have);
        memory = std::move(larger);
      } catch (const ServerError& failure) {
        return refuse_with(error_reply(failure.status()));
      }
    }
    deadline_ = body_start_ + options().body_timeout + std::chrono::seconds(have / slowest_rate);
    auto& body = exchange_->parser.get().body();
    body.data = memory.span.data() + have;
    body.size = memory.span.size() - have;
    body.more = true;
    http::async_read(
        stream_, buffer_, exchange_->parser,
        [self = this->shared_from_this(), held = exchange_](error_code error, size_t) { self->chunks_read(error); });
  }

  void chunks_read(error_code error) {
    if (closed_) return;
    const uint64_t have = exchange_->memory.span.size() - exchange_->parser.get().body().size;
    if (error == http::error::need_buffer) error = {};
    if (error == http::error::body_limit)
      return refuse_with(error_reply(400, "the body exceeds the maximum allowed value of " +
                                              std::to_string(options().max_input_size) + " bytes (or " +
                                              std::to_string(most_chunks) +
                                              " chunks). Use --http-max-input-size to increase the limit."));
    if (error.category() == make_error_code(http::error::bad_method).category() &&
        error != http::error::partial_message && error != http::error::end_of_stream)
      return refuse_with(error_reply(400, "the body is malformed: " + error.message()));
    if (error) return close();
    exchange_->parser.is_done() ? body_read(have) : read_chunks(have);
  }

  void body_read(uint64_t size) {
    exchange_->memory.span = exchange_->memory.span.first(size);
    exchange_->body_bytes = exchange_->memory.bytes();
    exchange_->memory = {};
    dispatch();
  }

  void dispatch() {
    deadline_ = Clock::time_point::max();
    handling_ = true;
    look_at_ = Clock::now() + std::chrono::milliseconds(100);
    const std::shared_ptr<Exchange<Stream>> exchange = exchange_;
    if (exchange->refusal) return exchange->send(std::move(*exchange->refusal));
    try {
      handler_.handle(exchange);
    } catch (...) {
      exchange->send(error_reply(current_exception_status()));
    }
  }

  void answered(error_code error, bool keep) {
    if (error || closed_) return close();
    handling_ = false;
    exchange_.reset();
    if (keep && !worker_->stopping()) return read_header();
    leave();
  }

  void piece_sent(error_code error) {
    if (error || closed_) return close();
    exchange_->writing = false;
    deadline_ = Clock::time_point::max();
    if (!exchange_->pieces.empty() || exchange_->stream_ended) write_piece(*exchange_);
  }

  void write_piece(Exchange<Stream>& exchange) {
    exchange.writing = true;
    const bool chunked = exchange.stream_head->chunked();
    if (exchange.pieces.empty()) {
      const bool keep = exchange.stream_head->keep_alive();
      if (!chunked) return answered({}, false);
      deadline_ = Clock::now() + options().body_timeout;
      return net::async_write(stream_, http::make_chunk_last(),
                              [self = this->shared_from_this(), held = exchange_, keep](error_code error, size_t) {
                                self->answered(error, keep);
                              });
    }
    // One write of all that has come together.
    auto text = std::make_shared<std::string>(std::move(exchange.pieces.front()));
    exchange.pieces.pop_front();
    for (; !exchange.pieces.empty(); exchange.pieces.pop_front()) *text += exchange.pieces.front();
    exchange.queued_bytes = 0;
    allow(text->size());
    auto done = [self = this->shared_from_this(), text](error_code error, size_t) { self->piece_sent(error); };
    if (chunked)
      net::async_write(stream_, http::make_chunk(net::buffer(*text)), std::move(done));
    else
      net::async_write(stream_, net::buffer(*text), std::move(done));
  }

  // Says goodbye; where the client has more to send it is read and thrown away, so that it gets to see the answer.
  void leave() {
    deadline_ = Clock::now() + linger_time;
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      stream_.async_shutdown([self = this->shared_from_this()](error_code) { self->close(); });
    } else {
      if (!lingers_) return close();
      error_code ignored;
      stream_.shutdown(net::ip::tcp::socket::shutdown_send, ignored);
      throw_away();
    }
  }

  void throw_away() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(first_read), [self = this->shared_from_this()](error_code error, size_t) {
      if (error || self->closed_) return self->close();
      self->throw_away();
    });
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    const auto self = this->shared_from_this();
    if (exchange_ != nullptr) exchange_->client_left();
    exchange_.reset();
    error_code ignored;
    stream_.lowest_layer().shutdown(net::ip::tcp::socket::shutdown_both, ignored);
    stream_.lowest_layer().close(ignored);
    worker_->remove(self);
  }

  const std::shared_ptr<HttpWorker> worker_;
  HttpHandler& handler_;
  const bool refuse_;
  Stream stream_;
  boost::beast::flat_buffer buffer_;
  std::shared_ptr<Exchange<Stream>> exchange_;  // the one under way
  Clock::time_point deadline_ = Clock::time_point::max(), look_at_, body_start_;
  bool waiting_ = false;  // for the first byte of a request
  bool reading_header_ = false;
  bool handling_ = false;  // the answer is yet to come
  bool lingers_ = false;   // after this answer the connection ends, though the client may be sending
  bool gone_ = false;      // the client is
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<ConnectionBase> make_connection(const std::shared_ptr<HttpWorker>& worker, HttpHandler& handler,
                                                net::ip::tcp::socket socket, net::ssl::context* tls, bool refuse) {
  error_code ignored;
  socket.set_option(net::ip::tcp::no_delay(true), ignored);
  if (tls != nullptr) return std::make_shared<Connection<TlsStream>>(worker, handler, refuse, std::move(socket), *tls);
  return std::make_shared<Connection<PlainStream>>(worker, handler, refuse, std::move(socket));
}

}  // namespace camshaft::server
