// The classification extension: the largest elements of an output, with their names.
#pragma once

#include <string>
#include <vector>

#include "server/core/model.h"
#include "server/core/request.h"

namespace camshaft::server {

/// In place of a tensor [n, …] its `classes` largest elements, for each element of the batch or, where `batched` is
/// false, of all: texts "value:index[:label]" as BYTES of [n, classes] or [classes], fewer where there are not so many.
/// Of equal elements the first comes first; what is no number comes last. Throws ServerError(invalid_argument) for
/// other types than integers, FP32 and FP64, and for more than a million elements.
NamedTensor classified(const NamedTensor& tensor, int64_t classes, bool batched,
                       const std::vector<std::string>& labels);

/// The same for all outputs of a response that are asked for so. A response that cannot be becomes an error.
void classify(const std::vector<RequestedOutput>& outputs, const Model& model, Response& response);

}  // namespace camshaft::server
