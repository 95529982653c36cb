#include "tools/inspection.h"

#include "tools/explain.h"
#include "tools/report.h"
#include "tools/tensor_text.h"

namespace camshaft::tools {

std::string precision(const LayerInfo& layer) {
  if (layer.outputs.empty()) return "";
  const std::string& text = layer.outputs.front();
  const size_t end = text.rfind('[');
  const size_t start = text.rfind(": ", end);
  return start == std::string::npos || end == std::string::npos ? "" : text.substr(start + 2, end - start - 2);
}

nlohmann::json inspection(const std::string& path, const OpenedEngine& opened) {
  const Engine& engine = opened.engine;
  nlohmann::json json = {{"path", path},
                         {"kind", opened.from_model ? "model" : "engine"},
                         {"inputs", nlohmann::json::array()},
                         {"outputs", nlohmann::json::array()},
                         {"profiles", nlohmann::json::array()},
                         {"metadata", engine.metadata()},
                         {"memory", to_json(engine.memory())},
                         {"weight_streaming", to_json(engine.weight_streaming())},
                         {"layers", nlohmann::json::array()}};
  for (const TensorInfo& info : engine.inputs()) json["inputs"].push_back(to_json(info));
  for (const TensorInfo& info : engine.outputs()) json["outputs"].push_back(to_json(info));
  for (const Profile& profile : engine.profiles()) json["profiles"].push_back(to_json(profile));
  for (const LayerInfo& layer : engine.layers()) {
    nlohmann::json weights = nlohmann::json::array();
    for (const LayerWeight& weight : layer.weights)
      weights.push_back(
          {{"name", weight.name}, {"layout", weight.layout}, {"bytes", weight.bytes}, {"offset", weight.offset}});
    json["layers"].push_back({{"name", layer.name},
                              {"op", layer.op},
                              {"tactic", layer.tactic},
                              {"precision", precision(layer)},
                              {"description", layer.description},
                              {"inputs", layer.inputs},
                              {"outputs", layer.outputs},
                              {"sources", layer.sources},
                              {"tried", to_json(layer.tried)},
                              {"notes", layer.notes},
                              {"at_binding", layer.at_binding},
                              {"reads", layer.reads},
                              {"weights", weights},
                              {"streamed_bytes", layer.streamed_bytes}});
  }
  return json;
}

}  // namespace camshaft::tools
