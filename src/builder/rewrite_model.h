// From an ONNX file to another one.
#pragma once

#include <filesystem>
#include <functional>

#include "builder/builder.h"
#include "onnx/proto.h"
#include "optimize/pass.h"

namespace camshaft {

/// What became of a model that was written anew.
struct RewriteReport {
  int64_t nodes_before = 0, nodes = 0;    ///< of the models' graphs, sub-graphs left out
  uint64_t bytes_before = 0, bytes = 0;   ///< of the models and of the data beside them
  int64_t opset_before = 0, opset = 0;    ///< of the default domain; 0 where the model uses none
  std::vector<OutputError> verification;  ///< as in BuildReport
  std::vector<std::string> samples;
  std::vector<std::string> not_verified;
};

/// How a model is changed.
struct ModelRewrite {
  const char* doing;  ///< "simplifying"
  const char* done;   ///< "simplified"
  /// Makes the graph to write of the imported one, and returns a graph that computes the same: what an engine of the
  /// new model is judged by.
  std::function<Graph(Graph& graph, const PassContext& context)> run;
  /// Changes what is written in a way that changes no number; may be empty.
  std::function<void(onnx::ModelProto& model)> settle = {};
  /// Operators that reading takes apart are written as they were: for what adds no nodes within them.
  bool keeps_operators = false;
};

/// Reads a model, changes it, and writes it as a model of ONNX's own operators (onnx/export/export_model.h). Profiles
/// in the options fix the sizes that all of them give.
///
/// Unless options.verify is off, an engine is built of the new model and judged against the reference evaluation of
/// what the change returned, as Builder does it; nothing is written where that fails. `external_data` puts tensors of
/// at least 1 KiB into the file "<output>.data".
///
/// Throws what Builder::build() throws, and Error(unsupported) naming a node that ONNX has no operators for. `report`
/// is filled as far as it got.
void rewrite_model(const std::filesystem::path& model, const std::filesystem::path& output, const BuildOptions& options,
                   bool external_data, const ModelRewrite& rewrite, RewriteReport& report);

}  // namespace camshaft
