// From an ONNX model to a graph of this library's operators.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "onnx/proto.h"

namespace camshaft::onnx {

struct ImportedModel {
  Graph graph;
  std::string producer;  ///< name and version of the exporter, as the file says
  int64_t opset = 0;     ///< of the default domain; 0 when no node needs it
  Metadata metadata;
  int64_t model_nodes = 0;  ///< nodes of the ONNX graph, function bodies and sub-graphs left out
};

struct ImportOptions {
  /// Shapes of inputs by name, each map one set that the model is to take, and no size between two sets' where all give
  /// the same. They say how many axes an input has whose type says nothing of a shape, and tell sizes apart that
  /// exporters gave one name though they differ.
  std::vector<std::map<std::string, std::vector<int64_t>>> shapes;
  /// Filled, where it is not null, with the initializers that nodes read and the values of Constant nodes, by the names
  /// that provenances have of them (ir/provenance.h).
  std::map<std::string, Tensor>* initializers = nullptr;
};

/// Reads and converts a model.
///
/// Inputs and outputs keep their names and order; initializers are constants, also those listed as inputs. A dimension
/// to which all `shapes` give one size has that size. Another named one is a symbol of that name; one that is unknown
/// (nothing, "?", "-1", "None", 0 or negative), or to which `shapes` gives another size than to one before it of that
/// name, is a symbol of its own, "<input>.<axis>". (A true 0, which no model with a use has, is among the sizes that it
/// takes.) A size without a number for which an operator has one, as channels that the weights of a convolution take,
/// is that number. Inner values keep the names of ONNX's tensors where they are unique. Functions of the model are
/// inlined. Nodes without effect on the outputs are left out. Declared shapes of outputs and inner values are not
/// trusted: shapes follow from the inputs.
///
/// Throws Error(unsupported) that lists every node that cannot be converted, Error(invalid_model) that names the node
/// that is wrong, and what read_model() throws.
ImportedModel import_model(const std::filesystem::path& file, const ImportOptions& options = {});
ImportedModel import_model(const ModelProto& model, const ImportOptions& options = {});

}  // namespace camshaft::onnx
