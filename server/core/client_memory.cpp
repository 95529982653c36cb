#include "server/core/client_memory.h"

#include <cstring>

#include "server/core/cuda_memory.h"

namespace camshaft::server {

void copy_bytes(std::byte* to, const Bytes& from) {
  if (from.span.empty()) return;
  if (from.device.is_host())
    std::memcpy(to, from.span.data(), from.span.size());
  else
    copy_to_host(to, from.span, from.device);
}

Bytes on_host(Bytes bytes) {
  if (bytes.device.is_host()) return bytes;
  auto copy = std::make_shared<std::vector<std::byte>>(bytes.span.size());
  copy_bytes(copy->data(), bytes);
  return {*copy, copy};
}

void check_target(const RequestedOutput& wanted, size_t bytes) {
  if (wanted.target->size() < bytes)
    throw ServerError(StatusCode::invalid_argument, "shared memory size specified with the request for output '" +
                                                        wanted.name + "' (" + std::to_string(wanted.target->size()) +
                                                        " bytes) should be at least " + std::to_string(bytes) +
                                                        " bytes to hold the results");
}

void place_output(const RequestedOutput& wanted, NamedTensor& tensor) {
  if (!wanted.target || wanted.classes > 0) return;
  const size_t bytes = tensor.data.span.size();
  check_target(wanted, bytes);
  if (wanted.target_device.is_host())
    copy_bytes(wanted.target->data(), tensor.data);
  else
    copy_to_device(wanted.target->data(), wanted.target_device, on_host(tensor.data).span);
  tensor.data = {wanted.target->first(bytes), wanted.target_owner, wanted.target_device};
}

}  // namespace camshaft::server
