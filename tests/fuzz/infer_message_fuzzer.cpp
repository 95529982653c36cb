// libFuzzer target: any bytes as a ModelInferRequest that comes over gRPC. What was read is written again as a
// response, and protobuf's own classes must read that, and agree on what is a message at all.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "inference.pb.h"
#include "server/grpc/infer_request.h"
#include "server/grpc/infer_response.h"

namespace camshaft::server {
namespace {

std::string joined(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) std::abort();
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

void echo(InferRequest made) {
  Response response;
  response.model = made.request.model;
  response.version = made.request.version;
  response.id = made.request.id;
  response.parameters = std::move(made.request.parameters);
  response.outputs = std::move(made.request.inputs);
  inference::ModelInferResponse read;
  if (!read.ParseFromString(joined(write_infer_response(response, {})))) std::abort();
  if (read.outputs_size() != static_cast<int>(response.outputs.size())) std::abort();
  inference::ModelStreamInferResponse stream;
  if (!stream.ParseFromString(joined(write_stream_response(response, {})))) std::abort();
  if (stream.infer_response().SerializeAsString().size() != read.SerializeAsString().size()) std::abort();
}

void try_message(const uint8_t* data, size_t size) {
  // Memory of its own, so that a byte too far is seen.
  auto bytes = std::make_shared<std::vector<std::byte>>(size);
  if (size > 0) std::memcpy(bytes->data(), data, size);
  InferMessage message;
  try {
    read_infer_message(*bytes, message);
  } catch (const ServerError&) {
    return;
  }
  echo(make_infer_request(message, bytes, SharedMemory(true)));
}

}  // namespace
}  // namespace camshaft::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    camshaft::server::try_message(data, size);
  } catch (const camshaft::server::ServerError&) {
  }
  return 0;
}
