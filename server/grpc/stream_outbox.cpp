#include "server/grpc/stream_outbox.h"

#include <utility>

namespace camshaft::server {

void StreamOutbox::put(uint64_t place, grpc::ByteBuffer message) {
  const auto found = waiting_.find(place);
  if (found == waiting_.end()) return;  // cleared since
  bytes_ += message.Length();
  found->second = {true, std::move(message)};
  while (!waiting_.empty() && waiting_.begin()->second.there) {
    ready_.push_back(std::move(waiting_.begin()->second.message));
    waiting_.erase(waiting_.begin());
  }
}

grpc::ByteBuffer StreamOutbox::take() {
  grpc::ByteBuffer message = std::move(ready_.front());
  ready_.pop_front();
  bytes_ -= message.Length();
  return message;
}

void StreamOutbox::clear() {
  waiting_.clear();
  ready_.clear();
  bytes_ = 0;
}

}  // namespace camshaft::server
