#include "onnx/export/model_file.h"

#include <functional>
#include <optional>

#include "base/atomic_file.h"
#include "onnx/proto_writer.h"

namespace camshaft::onnx {

namespace {

constexpr uint64_t most_model_bytes = (uint64_t{1} << 31) - 1;
// Beside the tensors' bytes, and for their own fields.
constexpr uint64_t bytes_of_the_rest = uint64_t{64} << 20;
constexpr uint64_t least_external = 1024;
// The page size: other software maps tensors where they lie, as the standard advises.
constexpr uint64_t alignment = 4096;

void for_each_initializer(GraphProto& graph, const std::function<void(TensorProto&)>& visit) {
  for (TensorProto& tensor : graph.initializers) visit(tensor);
  for (NodeProto& node : graph.nodes)
    for (AttributeProto& attribute : node.attributes)
      for (GraphProto& body : attribute.graphs) for_each_initializer(body, visit);
}

}  // namespace

uint64_t write_model(const ModelProto& model, const std::filesystem::path& file, const ModelFileOptions& options) {
  ModelProto written = model;
  uint64_t total = 0;
  for_each_initializer(written.graph, [&](TensorProto& tensor) { total += tensor.raw_data.size(); });
  std::optional<uint64_t> external_from = options.external_from;
  if (!external_from && total + bytes_of_the_rest > most_model_bytes) external_from = least_external;
  // Neither file takes its name before both are written: a new one beside an old one would be no model.
  AtomicFile out(file.string());
  std::optional<AtomicFile> data_out;
  uint64_t bytes = 0;
  if (external_from) {
    const std::filesystem::path data_file = file.string() + ".data";
    AtomicFile& data = data_out.emplace(data_file.string());
    for_each_initializer(written.graph, [&](TensorProto& tensor) {
      if (tensor.raw_data.empty() || tensor.raw_data.size() < *external_from) return;
      data.pad_to((data.position() + alignment - 1) / alignment * alignment);
      tensor.external = ExternalData{data_file.filename().string(), data.position(), tensor.raw_data.size()};
      data.write(tensor.raw_data);
      tensor.raw_data = {};
    });
    bytes = data.position();
  }
  out.write(model_bytes(written));
  if (bytes > 0) data_out->commit();
  bytes += out.position();
  out.commit();
  return bytes;
}

}  // namespace camshaft::onnx
