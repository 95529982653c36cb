// From what came over HTTP to a request, and what its response must look like.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/core/model_config.h"
#include "server/core/request.h"
#include "server/core/shared_memory.h"
#include "server/http/infer_document.h"

namespace camshaft::server {

/// What the client asked for that the response shows.
struct ResponseForm {
  std::set<std::string> binary;  ///< outputs whose bytes follow the JSON
  bool all_binary = false;       ///< all are, where the request names none
  std::set<std::string> shared;  ///< outputs that lie in the client's memory
};

/// "Inference-Header-Content-Length", beside the body. Throws ServerError(invalid_argument) for what is no number.
std::optional<uint64_t> document_length(std::string_view header);

/// A body that starts with `length` bytes of JSON, or is all JSON: its tensors are where the body has them, in the
/// order of the inputs, and those in shared memory as input_bytes() has them. Throws ServerError(invalid_argument)
/// where tensors and body have not the same length.
void decode_request(const Bytes& body, std::optional<uint64_t> length, const SharedMemory& memory, uint64_t limit,
                    Request& request, ResponseForm& form);

/// A body that is the bytes of a model's only input, of a batch of one: its one size that is not known follows from how
/// many there are; of strings there is one. Throws ServerError(invalid_argument) for models with other inputs.
void decode_raw_request(const Bytes& body, const ModelConfig& config, Request& request, ResponseForm& form);

/// Takes out of a request's parameters what has a meaning of its own: sequence_id, priority and so on. Throws
/// ServerError(invalid_argument) for another type, and for names that start with "triton_".
void take_parameters(Parameters parameters, Request& request, ResponseForm& form);

}  // namespace camshaft::server
