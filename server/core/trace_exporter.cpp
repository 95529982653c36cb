#include "server/core/trace_exporter.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "server/core/log.h"

namespace camshaft::server {

namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using nlohmann::ordered_json;

constexpr size_t most_spans = 4096;  // that wait
constexpr size_t spans_a_request = 512;
constexpr std::chrono::seconds collector_timeout{1};

std::string random_hex(size_t bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  thread_local std::mt19937_64 generator{std::random_device{}()};
  std::string text;
  for (size_t i = 0; i < 2 * bytes; ++i) text += digits[generator() & 15];
  return text;
}

// Nanoseconds since 1970, as a text: 64 bits are too many for JSON's numbers.
std::string unix_nanoseconds(Clock::time_point time) {
  const auto offset = std::chrono::system_clock::now().time_since_epoch() - Clock::now().time_since_epoch();
  return std::to_string(std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch() + offset).count());
}

ordered_json attribute(const char* name, const std::string& value) {
  return {{"key", name}, {"value", {{"stringValue", value}}}};
}

ordered_json span_of(const std::string& trace, const std::string& parent, const std::string& id,
                     const std::string& name, Clock::time_point begin, Clock::time_point end) {
  ordered_json span = {{"traceId", trace}, {"spanId", id}};
  if (!parent.empty()) span["parentSpanId"] = parent;
  span["name"] = name;
  span["kind"] = 2;  // a server's
  span["startTimeUnixNano"] = unix_nanoseconds(begin);
  span["endTimeUnixNano"] = unix_nanoseconds(end);
  return span;
}

}  // namespace

TraceExporter::TraceExporter(const TraceSettings& settings) : service_(settings.service_name) {
  std::string_view url = settings.url;
  constexpr std::string_view scheme = "http://";
  if (!url.starts_with(scheme) || url.size() == scheme.size())
    throw ServerError(StatusCode::invalid_argument,
                      "the collector's url '" + settings.url + "' is not http://host[:port][/path]");
  url.remove_prefix(scheme.size());
  const size_t slash = std::min(url.find('/'), url.size());
  path_ = slash == url.size() ? "/v1/traces" : std::string(url.substr(slash));
  const std::string_view place = url.substr(0, slash);
  const size_t colon = place.rfind(':');
  host_ = place.substr(0, colon);
  port_ = colon == place.npos ? "80" : std::string(place.substr(colon + 1));
  thread_ = std::thread([this] { run(); });
}

TraceExporter::~TraceExporter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void TraceExporter::add(const Request& request, const Timeline& timeline, Clock::time_point end) {
  const std::string trace = random_hex(16), root = random_hex(8);
  ordered_json span = span_of(trace, "", root, "InferRequest", timeline.received, end);
  span["attributes"] = {attribute("triton.model_name", request.model),
                        attribute("triton.model_version", request.version), attribute("triton.request_id", request.id),
                        attribute("triton.trace_id", request.trace_id)};
  std::string text = span.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  if (timeline.compute_start != Clock::time_point()) {
    text += "," + span_of(trace, root, random_hex(8), "queue", timeline.queued, timeline.compute_start).dump();
    text += "," + span_of(trace, root, random_hex(8), "compute", timeline.compute_start, timeline.compute_end).dump();
  }
  const std::lock_guard lock(mutex_);
  if (spans_.size() >= most_spans) {
    ++dropped_;
    return;
  }
  spans_.push_back(std::move(text));
  wake_.notify_one();
}

void TraceExporter::run() {
  std::unique_lock lock(mutex_);
  bool failing = false;
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !spans_.empty(); });
    if (spans_.empty()) return;
    std::string body = R"({"resourceSpans":[{"resource":{"attributes":[)" + attribute("service.name", service_).dump() +
                       R"(]},"scopeSpans":[{"scope":{"name":"camshaft"},"spans":[)";
    const size_t count = std::min(spans_.size(), spans_a_request);
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) body += ',';
      body += spans_.front();
      spans_.pop_front();
    }
    body += "]}]}]}";
    const uint64_t dropped = std::exchange(dropped_, 0);
    lock.unlock();
    const bool sent = send(body);
    if (!sent && !failing) log(LogKind::warning, "no collector of traces answers at '" + host_ + ":" + port_ + "'");
    if (dropped > 0) log(LogKind::warning, std::to_string(dropped) + " traced requests were dropped");
    failing = !sent;
    lock.lock();
    if (failing && stopping_) return;
  }
}

bool TraceExporter::send(const std::string& body) {
  try {
    net::io_context io{1};
    boost::beast::tcp_stream stream(io);
    bool ok = false;
    http::request<http::string_body> request{http::verb::post, path_, 11};
    request.set(http::field::host, host_);
    request.set(http::field::content_type, "application/json");
    request.keep_alive(false);
    request.body() = body;
    request.prepare_payload();
    boost::beast::flat_buffer buffer;
    http::response<http::string_body> response;
    // Asynchronous, as only that has time limits.
    stream.expires_after(collector_timeout);
    net::ip::tcp::resolver resolver(io);
    stream.async_connect(resolver.resolve(host_, port_), [&](boost::system::error_code error, const auto&) {
      if (error) return;
      http::async_write(stream, request, [&](boost::system::error_code failed, size_t) {
        if (failed) return;
        http::async_read(stream, buffer, response, [&](boost::system::error_code wrong, size_t) {
          ok = !wrong && response.result_int() / 100 == 2;
        });
      });
    });
    io.run();
    return ok;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace camshaft::server
