// What the server and a Python process say to each other, and the tensors that they share.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/core/python/shared_arena.h"
#include "server/core/request.h"

namespace camshaft::server {

/// One end of a socket: messages are JSON objects with a member "op", each behind its length as u32. send() and the
/// tensors are safe from several threads, receive() is for one.
class PythonLink {
 public:
  /// Takes the socket over.
  explicit PythonLink(int socket);
  ~PythonLink();
  PythonLink(const PythonLink&) = delete;
  PythonLink& operator=(const PythonLink&) = delete;

  /// Throws ServerError(unavailable) when the process is gone or does not read.
  void send(const nlohmann::json& message);
  enum class Received { message, woken, closed };
  /// Waits for a message, for wake(), or until then. Throws ServerError(internal) for what is no message.
  Received receive(nlohmann::json& message, std::optional<Clock::time_point> until);
  void wake();
  /// Both ends find the socket closed.
  void shut();

  /// What a message says of a tensor, whose bytes are copied into shared memory.
  nlohmann::json put(const NamedTensor& tensor, const std::vector<int64_t>& shape);
  /// Frees what put() made for a message that is not sent.
  void take_back(const nlohmann::json& tensors);
  /// The tensor that a message of the process describes, in its memory. Throws ServerError(internal).
  NamedTensor get(const nlohmann::json& described);

 private:
  void send_with(const nlohmann::json& message, int descriptor);
  bool read(void* to, size_t size, std::vector<int>& descriptors);

  const int socket_;
  int wake_ = -1;
  std::mutex send_mutex_;
  SharedArena arena_;
  std::mutex segments_mutex_;
  std::map<uint64_t, std::shared_ptr<SharedSegment>> segments_;  ///< of the process
};

}  // namespace camshaft::server
