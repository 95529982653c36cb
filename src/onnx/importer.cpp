#include "onnx/importer.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "onnx/branch_cases.h"
#include "onnx/declared_type.h"
#include "onnx/missing_operators.h"
#include "onnx/node_importer.h"
#include "onnx/onnx_dtype.h"
#include "onnx/proto_reader.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

class InputTypes {
 public:
  InputTypes(const std::vector<ValueInfoProto>& inputs, const ImportOptions& options) : options_(options) {
    for (const ValueInfoProto& input : inputs)
      for (size_t axis = 0; input.type.shape && axis < input.type.shape->size(); ++axis)
        if (const auto size = only_size({input.name, axis}))
          only_sizes_.try_emplace((*input.type.shape)[axis].param, *size);
  }

  TensorType type(const ValueInfoProto& input, const std::string& where) {
    if (input.type.kind != TypeProto::Kind::tensor) return container_type_from(input.type, input.name, where);
    TensorType type{dtype_from_onnx(input.type.elem_type, where), {}};
    const size_t rank = input.type.shape ? input.type.shape->size() : given_rank(input.name, where);
    check_axes(rank, where);
    for (size_t axis = 0; axis < rank; ++axis) {
      const DimensionProto d = input.type.shape ? (*input.type.shape)[axis] : DimensionProto{};
      if (d.value && *d.value > 0) {
        type.shape.emplace_back(*d.value);
      } else if (const auto size = only_size({input.name, axis})) {
        type.shape.emplace_back(*size);
      } else if (is_size_name(d.param) && !has_size({input.name, axis}) && only_sizes_.contains(d.param)) {
        type.shape.emplace_back(only_sizes_.at(d.param));
      } else if (is_size_name(d.param) && may_share(d.param, {input.name, axis})) {
        type.shape.push_back(Dim::symbol(d.param));
      } else {
        type.shape.push_back(Dim::symbol(fmt::format("{}.{}", symbol_base(input.name), axis)));
      }
    }
    return type;
  }

 private:
  struct Axis {
    std::string input;
    size_t axis = 0;
  };

  size_t given_rank(const std::string& input, const std::string& where) const {
    for (const auto& shapes : options_.shapes)
      if (const auto it = shapes.find(input); it != shapes.end()) return it->second.size();
    throw Error(ErrorCode::unsupported, fmt::format("{} does not say how many axes it has; give a shape for it when "
                                                    "building (--shapes), or export the model with one",
                                                    where));
  }

  // Where a set of shapes gives the axis no size, any will do.
  static std::optional<int64_t> size_of(const std::map<std::string, std::vector<int64_t>>& shapes, const Axis& axis) {
    const auto it = shapes.find(axis.input);
    if (it == shapes.end() || axis.axis >= it->second.size()) return std::nullopt;
    return it->second[axis.axis];
  }

  bool has_size(const Axis& axis) const {
    return std::any_of(options_.shapes.begin(), options_.shapes.end(),
                       [&](const auto& shapes) { return size_of(shapes, axis).has_value(); });
  }

  // That all sets of shapes give the axis.
  std::optional<int64_t> only_size(const Axis& axis) const {
    std::optional<int64_t> only;
    for (const auto& shapes : options_.shapes) {
      const auto size = size_of(shapes, axis);
      if (!size || *size < 1 || (only && *only != *size)) return std::nullopt;
      only = size;
    }
    return only;
  }

  // Adds the axis to those of this name unless it is given another size than one of them.
  bool may_share(const std::string& symbol, const Axis& axis) {
    std::vector<Axis>& others = axes_[symbol];
    for (const auto& shapes : options_.shapes)
      for (const Axis& other : others) {
        const auto a = size_of(shapes, axis), b = size_of(shapes, other);
        if (a && b && *a != *b) return false;
      }
    others.push_back(axis);
    return true;
  }

  const ImportOptions& options_;
  std::map<std::string, std::vector<Axis>> axes_;  // by the symbol they share
  std::map<std::string, int64_t> only_sizes_;      // of symbols that stand for one size in all sets of shapes
};

}  // namespace

ImportedModel import_model(const std::filesystem::path& file, const ImportOptions& options) {
  return import_model(read_model(file), options);
}

ImportedModel import_model(const ModelProto& model, const ImportOptions& options) {
  check_operators(model);
  TensorReader tensors(model);
  NamedTensors named(model.graph, options.initializers);
  GraphUnderConstruction target(tensors, named);
  target.graph.name = model.graph.name;
  NodeImporter importer(model);
  Scope scope(model.opsets, target);
  importer.add_initializers(model.graph, scope);
  std::set<std::string> names;
  InputTypes types(model.graph.inputs, options);
  for (const ValueInfoProto& input : model.graph.inputs) {
    const std::string where = fmt::format("{}: input {}", model.file, quote(input.name));
    if (!names.insert(input.name).second) throw Error(ErrorCode::invalid_model, where + " is listed twice");
    if (scope.initializers.contains(input.name) || scope.values.contains(input.name)) continue;
    scope.values[input.name] = target.graph.add_input(input.name, types.type(input, where));
  }
  std::vector<std::string> results;
  for (const ValueInfoProto& output : model.graph.outputs) results.push_back(output.name);
  try {
    importer.add_nodes(model.graph.nodes, results, scope);
  } catch (const RanksDiffer& e) {
    importer.refuse(e.what);
  }
  importer.report();
  if (model.graph.outputs.empty())
    throw Error(ErrorCode::invalid_model,
                fmt::format("{}: the model has no outputs: nothing would be computed", model.file));
  names.clear();
  for (const ValueInfoProto& output : model.graph.outputs) {
    const std::string where = fmt::format("{}: output {}", model.file, quote(output.name));
    if (!names.insert(output.name).second) throw Error(ErrorCode::invalid_model, where + " is listed twice");
    const auto value = importer.find(output.name, scope);
    if (!value) throw Error(ErrorCode::invalid_model, where + " is computed by no node");
    target.graph.add_output(output.name, *value);
  }
  remove_dead(target.graph);

  ImportedModel out;
  out.graph = std::move(target.graph);
  out.producer = model.producer_name + (model.producer_version.empty() ? "" : " " + model.producer_version);
  // A model whose nodes are all of other domains need not name a version of the default one.
  const bool has_default = model.opsets.contains("") || model.opsets.contains("ai.onnx");
  out.opset = has_default || !model.functions.empty() ? opset_version("", model.opsets, model) : 0;
  out.metadata = model.metadata;
  out.model_nodes = static_cast<int64_t>(model.graph.nodes.size());
  return out;
}

}  // namespace camshaft::onnx
