#include "server/http/worker.h"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <ctime>
#include <vector>

namespace camshaft::server {

namespace {

constexpr std::chrono::milliseconds tick_period{100};

std::string http_date() {
  static constexpr const char* days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[utc.tm_wday], utc.tm_mday,
                months[utc.tm_mon], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return text;
}

}  // namespace

HttpService::HttpService(const HttpOptions& chosen, const std::shared_ptr<RequestMemory>& memory)
    : options(chosen), bodies(memory), elsewhere(4), apart(4) {}

HttpWorker::HttpWorker(HttpService& service) : service_(service), date_(http_date()) {}

void HttpWorker::start() {
  tick();
  thread_ = std::thread([this] {
    io_.run();
    left_ = true;
  });
}

void HttpWorker::stop() {
  boost::asio::post(io_, [this] {
    stopping_ = true;
    const std::vector<std::shared_ptr<ConnectionBase>> all(connections_.begin(), connections_.end());
    for (const auto& connection : all) connection->stop();
    leave_if_done();
  });
}

void HttpWorker::join(std::chrono::seconds longest) {
  if (!thread_.joinable()) return;
  const auto end = Clock::now() + longest;
  while (!left_ && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (!left_) io_.stop();
  thread_.join();
}

void HttpWorker::add(std::shared_ptr<ConnectionBase> connection) {
  ++service_.connections;
  connections_.insert(std::move(connection));
}

void HttpWorker::remove(const std::shared_ptr<ConnectionBase>& connection) {
  if (connections_.erase(connection) == 0) return;
  --service_.connections;
  leave_if_done();
}

void HttpWorker::leave_if_done() {
  if (!stopping_ || !connections_.empty()) return;
  timer_.cancel();
  guard_.reset();
}

void HttpWorker::tick() {
  date_ = http_date();
  timer_.expires_after(tick_period);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error || (stopping_ && connections_.empty())) return;
    const Clock::time_point now = Clock::now();
    const std::vector<std::shared_ptr<ConnectionBase>> all(connections_.begin(), connections_.end());
    for (const auto& connection : all) connection->tick(now);
    tick();
  });
}

}  // namespace camshaft::server
