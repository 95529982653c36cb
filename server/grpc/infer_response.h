// From a response of the core to a ModelInferResponse on the wire.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <string_view>
#include <vector>

#include "server/core/request.h"

namespace camshaft::server {

/// The names of outputs that lie in the client's memory: their contents are not sent.
using SharedOutputs = std::vector<std::string>;

/// Up to so many bytes an output's data is copied into the message; more are a slice of it that owns them. A slice
/// costs about what copying 10 kB does.
inline constexpr size_t copied_output_bytes = 8192;

/// A ModelInferResponse of one that is ok.
grpc::ByteBuffer write_infer_response(const Response& response, const SharedOutputs& shared);

/// The same within a ModelStreamInferResponse.
grpc::ByteBuffer write_stream_response(const Response& response, const SharedOutputs& shared);
/// A ModelStreamInferResponse for a request that failed: its message, and the response's id, model and parameters, so
/// that the client knows which.
grpc::ByteBuffer write_stream_error(const std::string& message, const Response& response);

}  // namespace camshaft::server
