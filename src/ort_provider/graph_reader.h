// The graph that ONNX Runtime shows, as an ONNX model of ours.
#pragma once

#include <string>
#include <vector>

#include "onnx/proto.h"
#include "ort_provider/host.h"

namespace camshaft::ort_provider {

struct GraphFacts {
  /// Nodes stand in the order in which they can be computed. Constant initializers are those that nodes read, also from
  /// a graph around; their bytes are ONNX Runtime's unless they have an owner, and valid as long as the graph. What may
  /// be replaced from run to run is an input. value_infos have all other values whose type is known.
  onnx::ModelProto model;
  // Of each node of the model:
  std::vector<const OrtNode*> nodes;
  std::vector<std::string> unreadable;             ///< why it cannot be read; "" for most
  std::vector<std::vector<std::string>> captured;  ///< what only its sub-graphs read of the values around them
  std::vector<bool> is_taken;                      ///< by another provider
  std::string model_path;                          ///< "" of a model in memory
};

/// Whether a graph is the body of a control flow node: its name is not the main graph's. One that has the same name is
/// taken for that.
bool is_body(const Host& host, const OrtGraph* graph);

/// Throws Error when a call of ONNX Runtime's fails.
GraphFacts read_graph(const Host& host, const OrtGraph* graph);

/// The names of a node's inputs or outputs, "" for those left out.
std::vector<std::string> input_names(const Host& host, const OrtNode* node);
std::vector<std::string> output_names(const Host& host, const OrtNode* node);

/// An attribute of text; "" when there is none. The bytes may be anything.
std::string text_attribute(const Host& host, const OrtNode* node, const char* name);
int64_t integer_attribute(const Host& host, const OrtNode* node, const char* name, int64_t otherwise);

}  // namespace camshaft::ort_provider
