// From a response to what goes over HTTP.
#pragma once

#include "server/core/request.h"
#include "server/http/exchange.h"
#include "server/http/infer_request.h"

namespace camshaft::server {

/// The JSON of a response and, behind it, the tensors that are wanted so: those are not copied. Throws as
/// append_elements().
HttpReply encode_response(const Response& response, const ResponseForm& form);

/// The answer of generate: outputs and parameters are members of one object; of an output with one element it is the
/// member itself.
std::string encode_generated(const Response& response);

}  // namespace camshaft::server
