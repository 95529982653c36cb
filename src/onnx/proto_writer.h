// Writes the structs of proto.h as .onnx files: the inverse of proto_reader.h.
#pragma once

#include <string>

#include "onnx/proto.h"

namespace camshaft::onnx {

/// The model as protobuf, fields in the order of their numbers and lists packed as onnx.proto declares them. Reading
/// the bytes gives an equal model, and a file that holds nothing else than ModelProto keeps comes back byte for byte
/// when its producer wrote so, too. External data stays external: the bytes hold the references, not the data. Fields
/// at their default that say nothing ("" and empty lists) are left out. Sizes are 64 bits, but other software reads
/// less than 2 GiB.
std::string model_bytes(const ModelProto& model);

}  // namespace camshaft::onnx
