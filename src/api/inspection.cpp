// What a page about an engine shows of it beside what its own record says.
#include <fmt/format.h>

#include "api/arena.h"
#include "api/engine.h"
#include "api/record.h"
#include "api/status.h"
#include "api/tensor.h"
#include "base/available_cores.h"
#include "onnx/node_order.h"
#include "onnx/proto_reader.h"

namespace camshaft::api {

namespace {

using nlohmann::json;

json describe(const ArenaBuffer& buffer) {
  return {{"name", buffer.name},          {"workspace", buffer.is_workspace},
          {"device", buffer.device},      {"offset", buffer.offset},
          {"bytes", buffer.bytes},        {"first_step", buffer.first_step},
          {"last_step", buffer.last_step}};
}

json describe(const onnx::NodeProto& node) {
  return {{"name", onnx::display_name(node)},
          {"op", node.op_type},
          {"domain", node.domain},
          {"inputs", node.inputs},
          {"outputs", node.outputs}};
}

json names_of(const std::vector<onnx::ValueInfoProto>& values) {
  json names = json::array();
  for (const onnx::ValueInfoProto& value : values) names.push_back(value.name);
  return names;
}

int threads_or_cores(int32_t threads) {
  if (threads < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} threads; give 1 or more, or 0 for one for each core", threads));
  return threads > 0 ? threads : available_cores();
}

}  // namespace

}  // namespace camshaft::api

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_model_nodes(const char* path, camshaft_record** nodes) {
  return guarded([&] {
    const onnx::ModelProto model = onnx::read_model(given(path, "path"));
    give(nodes, "nodes", [&] {
      json list = json::array();
      for (const onnx::NodeProto& node : model.graph.nodes) list.push_back(describe(node));
      json constants = json::array();
      for (const onnx::TensorProto& tensor : model.graph.initializers) constants.push_back(tensor.name);
      return new_record({{"inputs", names_of(model.graph.inputs)},
                         {"outputs", names_of(model.graph.outputs)},
                         {"initializers", constants},
                         {"nodes", list}});
    });
  });
}

camshaft_status camshaft_engine_arena(const camshaft_engine* engine, const camshaft_shapes* shapes, int32_t threads,
                                      camshaft_record** buffers) {
  return guarded([&] {
    const std::map<std::string, Dims> dims = shapes == nullptr ? std::map<std::string, Dims>() : shapes->dims;
    give(buffers, "buffers", [&] {
      json list = json::array();
      for (const ArenaBuffer& buffer : arena_buffers(given(engine, "engine")->engine, dims, threads_or_cores(threads)))
        list.push_back(describe(buffer));
      return new_record(std::move(list));
    });
  });
}
