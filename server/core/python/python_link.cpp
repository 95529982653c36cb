#include "server/core/python/python_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "server/core/client_memory.h"
#include "server/core/data_type.h"
#include "server/core/status.h"

namespace camshaft::server {
namespace {

using nlohmann::json;

/// What a process sends at once at most: tensors are not in it.
constexpr uint32_t largest_message = uint32_t{1} << 30;
/// So long may a process leave what it is sent unread.
constexpr timeval send_time = {10, 0};

[[noreturn]] void broken(const std::string& what) {
  throw ServerError(StatusCode::internal, "a Python process sent what is no message: " + what);
}

/// Sends all of it; `descriptor` (-1: none) goes with the first byte.
bool send_all(int socket, std::string_view bytes, int descriptor) {
  while (!bytes.empty()) {
    iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    if (descriptor >= 0) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* item = CMSG_FIRSTHDR(&header);
      item->cmsg_level = SOL_SOCKET;
      item->cmsg_type = SCM_RIGHTS;
      item->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(item), &descriptor, sizeof(int));
    }
    const ssize_t sent = sendmsg(socket, &header, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
    descriptor = -1;
  }
  return true;
}

}  // namespace

PythonLink::PythonLink(int socket)
    : socket_(socket),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      arena_({[this](uint64_t number, const SharedSegment& segment) {
                send_with({{"op", "segment"}, {"id", number}, {"size", segment.span().size()}}, segment.descriptor());
              },
              [this](uint64_t number) {
                send({{"op", "drop"}, {"id", number}});
              }}) {
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &send_time, sizeof(send_time));
}

PythonLink::~PythonLink() {
  close(socket_);
  if (wake_ >= 0) close(wake_);
}

void PythonLink::send(const json& message) {
  send_with(message, -1);
}

void PythonLink::send_with(const json& message, int descriptor) {
  const std::string text = message.dump(-1, ' ', false, json::error_handler_t::replace);
  const auto size = static_cast<uint32_t>(text.size());
  std::string frame(sizeof(size), '\0');
  std::memcpy(frame.data(), &size, sizeof(size));
  frame += text;
  const std::lock_guard lock(send_mutex_);
  if (send_all(socket_, frame, descriptor)) return;
  shut();  // half a message may have gone
  throw ServerError(StatusCode::unavailable, "the model's Python process has ended or does not read its messages");
}

void PythonLink::wake() {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
}

void PythonLink::shut() {
  shutdown(socket_, SHUT_RDWR);
}

bool PythonLink::read(void* to, size_t size, std::vector<int>& descriptors) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    iovec part = {at, size};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control = {};
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t count = recvmsg(socket_, &header, MSG_CMSG_CLOEXEC);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
      if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
      const size_t number = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < number; ++i) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(item) + i * sizeof(int), sizeof(int));
        descriptors.push_back(descriptor);
      }
    }
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

PythonLink::Received PythonLink::receive(json& message, std::optional<Clock::time_point> until) {
  for (;;) {
    std::array<pollfd, 2> waited = {{{socket_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    int timeout = -1;
    if (until) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()).count();
      timeout = left <= 0 ? 0 : static_cast<int>(std::min<int64_t>(left, 3600000));
    }
    const int ready = poll(waited.data(), waited.size(), timeout);
    if (ready < 0 && errno == EINTR) continue;
    if (waited[1].revents != 0) {
      uint64_t count = 0;
      (void)!::read(wake_, &count, sizeof(count));
      return Received::woken;
    }
    if (ready == 0) return Received::woken;

    uint32_t size = 0;
    std::vector<int> descriptors;
    std::string text;
    bool whole = read(&size, sizeof(size), descriptors);
    const bool fits = size <= largest_message;
    if (whole && fits) {
      text.resize(size);
      whole = read(text.data(), size, descriptors);
    }
    std::shared_ptr<SharedSegment> segment;
    message = whole && fits ? json::parse(text, nullptr, false) : json();
    const bool adds = message.is_object() && message.value("op", "") == "segment" && descriptors.size() == 1;
    if (!adds)
      for (const int descriptor : descriptors) close(descriptor);
    if (!whole) return Received::closed;
    if (!fits) broken("it has " + std::to_string(size) + " bytes");
    if (!message.is_object() || !message.contains("op")) broken(text.substr(0, 100));
    if (adds) {
      segment = SharedSegment::adopt(descriptors.front(), message.at("size").get<uint64_t>());
      const std::lock_guard lock(segments_mutex_);
      segments_[message.at("id").get<uint64_t>()] = std::move(segment);
    } else if (message.at("op") == "drop") {
      const std::lock_guard lock(segments_mutex_);
      segments_.erase(message.at("id").get<uint64_t>());
    } else {
      return Received::message;
    }
  }
}

json PythonLink::put(const NamedTensor& tensor, const std::vector<int64_t>& shape) {
  json described = {{"name", tensor.name}, {"type", protocol_name(tensor.dtype)}, {"shape", shape}, {"at", nullptr}};
  const size_t bytes = tensor.data.span.size();
  if (bytes == 0) return described;
  const SharedArena::Block block = arena_.allocate(bytes);
  copy_bytes(block.span.data(), tensor.data);
  described["at"] = {block.segment, block.offset, bytes};
  return described;
}

void PythonLink::take_back(const json& tensors) {
  for (const json& described : tensors)
    if (!described.at("at").is_null())
      arena_.free({described.at("at").at(0).get<uint64_t>(), described.at("at").at(1).get<uint64_t>(), {}});
}

NamedTensor PythonLink::get(const json& described) {
  NamedTensor tensor;
  tensor.name = described.at("name").get<std::string>();
  tensor.dtype = parse_protocol_type(described.at("type").get<std::string>());
  tensor.shape = described.at("shape").get<std::vector<int64_t>>();
  const json& at = described.at("at");
  if (!at.is_null()) {
    const std::lock_guard lock(segments_mutex_);
    const auto found = segments_.find(at.at(0).get<uint64_t>());
    if (found == segments_.end()) broken("a tensor lies in memory that was not shared");
    tensor.data = shared_block(found->second, at.at(1).get<uint64_t>(), at.at(2).get<uint64_t>());
  }
  if (tensor.dtype != DType::string) {
    const uint64_t bytes = byte_size(tensor.dtype, element_count(tensor.shape));
    if (bytes != tensor.data.span.size()) broken("a tensor's bytes and shape differ");
  }
  return tensor;
}

}  // namespace camshaft::server
