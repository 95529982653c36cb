// The responses of a stream in the order in which they are sent.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>
#include <map>

namespace camshaft::server {

/// Of models that are not decoupled the responses come in the order of their requests; those of decoupled models when
/// they are there. Not safe from several threads.
class StreamOutbox {
 public:
  /// Keeps a place for the response of a request that was just read.
  uint64_t reserve() {
    waiting_.emplace(next_, Place{});
    return next_++;
  }
  /// The response of the request with that place.
  void put(uint64_t place, grpc::ByteBuffer message);
  /// A response that waits for no other.
  void put(grpc::ByteBuffer message) {
    bytes_ += message.Length();
    ready_.push_back(std::move(message));
  }

  bool empty() const { return ready_.empty(); }
  grpc::ByteBuffer take();
  /// Bytes that are still to be sent.
  uint64_t bytes() const { return bytes_; }
  void clear();

 private:
  struct Place {
    bool there = false;
    grpc::ByteBuffer message;
  };
  std::map<uint64_t, Place> waiting_;
  std::deque<grpc::ByteBuffer> ready_;
  uint64_t next_ = 0, bytes_ = 0;
};

}  // namespace camshaft::server
