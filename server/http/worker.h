// A thread with the connections that it serves.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>

#include "server/http/body_pool.h"
#include "server/http/handler.h"
#include "server/http/http_server.h"

namespace camshaft::server {

/// What all connections share.
struct HttpService {
  HttpService(const HttpOptions& chosen, const std::shared_ptr<RequestMemory>& memory);
  const HttpOptions options;
  BodyPool bodies;
  boost::asio::thread_pool elsewhere;  ///< for what computes for long
  boost::asio::thread_pool apart;      ///< for what waits for long
  std::atomic<uint32_t> connections = 0;
};

/// A connection as its thread sees it.
class ConnectionBase {
 public:
  virtual ~ConnectionBase() = default;
  virtual void start() = 0;
  /// Some times a second: ends what is beyond its time, notices a client that went away.
  virtual void tick(Clock::time_point now) = 0;
  /// Closes it now or, while a request is under way, after its answer.
  virtual void stop() = 0;
};

/// Its members are used on its thread alone, but for post().
class HttpWorker {
 public:
  explicit HttpWorker(HttpService& service);
  void start();
  /// Ends when the last connection does, at most after so many seconds.
  void stop();
  void join(std::chrono::seconds longest);

  boost::asio::io_context& io() { return io_; }
  HttpService& service() { return service_; }
  bool stopping() const { return stopping_; }
  /// For "Date".
  const std::string& date() const { return date_; }
  void add(std::shared_ptr<ConnectionBase> connection);
  void remove(const std::shared_ptr<ConnectionBase>& connection);

 private:
  void tick();
  void leave_if_done();

  HttpService& service_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{io_.get_executor()};
  boost::asio::steady_timer timer_{io_};
  std::unordered_set<std::shared_ptr<ConnectionBase>> connections_;
  std::string date_;
  bool stopping_ = false;
  std::atomic<bool> left_ = false;
  std::thread thread_;
};

}  // namespace camshaft::server
