// Tensors that lie in memory of clients: the host's or a GPU's.
#pragma once

#include "server/core/request.h"

namespace camshaft::server {

/// Copies all bytes to `to`, on the host, from wherever they are. Throws ServerError.
void copy_bytes(std::byte* to, const Bytes& from);
/// The same bytes on the host: themselves where they are there.
Bytes on_host(Bytes bytes);

/// Throws ServerError(invalid_argument) when what the client wants the output in is smaller than the output.
void check_target(const RequestedOutput& wanted, size_t bytes);
/// Puts an output where its client wants it, if it wants it anywhere; the tensor then lies there. Throws ServerError as
/// check_target() does.
void place_output(const RequestedOutput& wanted, NamedTensor& tensor);

}  // namespace camshaft::server
