#include "onnx/missing_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "onnx/claimed_operators.h"
#include "onnx/converters.h"
#include "onnx/node_order.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

// Domains whose operators are not for plugins to bring.
bool is_of_onnx(const std::string& domain) {
  return domain.starts_with("ai.onnx") || domain.starts_with("com.microsoft");
}

// The first operator set after the model's that has the operator; 0: none.
int64_t first_opset_after(const NodeProto& n, int64_t opset) {
  for (int64_t later = std::max<int64_t>(opset, 0) + 1; later <= newest_opset; ++later)
    if (find_converter(n.domain, n.op_type, later)) return later;
  return 0;
}

class Scan {
 public:
  explicit Scan(const ModelProto& model) : model_(model), functions_(model) {}

  /// Gives how many nodes the calls among them make when they are inlined, largest_inlined + 1 for more than that.
  size_t nodes(const std::vector<NodeProto>& nodes, const OpsetImports& opsets, const std::string& prefix) {
    size_t inlined = 0;
    for (const NodeProto& n : nodes) inlined = std::min(inlined + node(n, opsets, prefix), largest_inlined + 1);
    return inlined;
  }

  void report() const {
    report_old();
    if (missing_.empty()) return;
    constexpr size_t most_names = 20;
    std::string list;
    size_t count = 0;
    for (const auto& [op, names] : missing_) {
      list += (list.empty() ? "" : "; ") + op + (names.size() == 1 ? " (node " : " (nodes ");
      for (size_t i = 0; i < names.size() && i < most_names; ++i) list += (i ? ", " : "") + quote(names[i]);
      if (names.size() > most_names) list += fmt::format(" and {} more", names.size() - most_names);
      list += ")";
      count += names.size();
    }
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: cannot run this model: {} node{} that Camshaft does not have: {}{}", model_.file,
                            count, count == 1 ? " uses an operator" : "s use operators", list, advice_));
  }

 private:
  size_t node(const NodeProto& n, const OpsetImports& opsets, const std::string& prefix) {
    size_t inlined = 0;
    for (const AttributeProto& attribute : n.attributes)
      for (const GraphProto& graph : attribute.graphs) inlined += nodes(graph.nodes, opsets, prefix);
    const Claim claim = find_claim(n);
    if (claim.plugin || claim.expression) return inlined;
    if (const FunctionProto* function = claim ? claim.function : functions_.find(n)) {
      // One that calls itself has made nothing yet: what inlines it refuses it.
      const auto [known, is_new] = inlined_.try_emplace(function, 0);
      if (!is_new) return inlined + known->second;
      if (calls_ >= deepest_calls)
        throw Error(ErrorCode::invalid_model,
                    fmt::format("{}: functions call each other deeper than {}", model_.file, deepest_calls));
      ++calls_;
      const size_t made = nodes(function->nodes, function->opsets, shortened(prefix + display_name(n)) + "/");
      --calls_;
      known->second = function->nodes.size() + made;
      return inlined + known->second;
    }
    find_missing(n, opsets, prefix);
    return inlined;
  }

  void find_missing(const NodeProto& n, const OpsetImports& opsets, const std::string& prefix) {
    const int64_t opset = opset_version(n.domain, opsets, model_);
    const bool is_default = n.domain.empty() || n.domain == "ai.onnx";
    if (is_default && opset < first_readable_opset(n.op_type)) {
      old_.insert(fmt::format("{} of operator set {} (node {}): Camshaft reads it from {} on", n.op_type, opset,
                              quote(prefix + display_name(n)), first_readable_opset(n.op_type)));
      return;
    }
    if (find_converter(n.domain, n.op_type, opset)) return;
    // Its weights are stored in blocks of channels whose size the file does not tell.
    if (n.domain == "com.microsoft.nchwc")
      advice_ =
          ". ONNX Runtime arranged this file for the processor that it was saved on: take the original model, or save "
          "the optimised one at the level ORT_ENABLE_EXTENDED";
    // As tools leave it that put newer nodes into an old model.
    if (const int64_t later = first_opset_after(n, opset); advice_.empty() && later > 0)
      advice_ = fmt::format(
          ". {} is there from operator set {} on, and the model says that its own is {}: correct that (opset_import), "
          "or "
          "convert the model (onnx.version_converter)",
          n.op_type, later, opset);
    if (const std::string alike = loaded_alike(n); advice_.empty() && !alike.empty()) advice_ = ". " + alike;
    if (advice_.empty() && !is_default && !is_of_onnx(n.domain))
      advice_ = ". An operator of your own comes from a plugin: load it first (--plugin, see docs/plugins.md)";
    const bool is_training = n.domain == "ai.onnx.preview.training";
    missing_[(is_default ? "" : n.domain + ".") + n.op_type + (is_training ? ", which is for training only" : "")]
        .push_back(prefix + display_name(n));
  }

  void report_old() const {
    if (old_.empty()) return;
    std::string list;
    for (const std::string& line : old_) list += "\n  " + line;
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: cannot run this model: its operator set is too old for some of its nodes. Convert the "
                            "model with onnx's version_converter, or export it again:{}",
                            model_.file, list));
  }

  const ModelProto& model_;
  FunctionTable functions_;
  std::map<const FunctionProto*, size_t> inlined_;  // the nodes that each makes
  size_t calls_ = 0;                                // that the scan is in
  std::set<std::string> old_;
  std::map<std::string, std::vector<std::string>> missing_;
  std::string advice_;
};

void check_default_opset(const OpsetImports& opsets, const std::string& where) {
  const auto it = opsets.find("");
  if (it == opsets.end()) return;
  if (it->second < 1)
    throw Error(ErrorCode::invalid_model, fmt::format("{} uses operator set {}; the first is 1", where, it->second));
  if (it->second > newest_opset)
    throw Error(ErrorCode::unsupported,
                fmt::format("{} uses operator set {}, which this version of Camshaft does not know: it reads up to {}. "
                            "Export the model with an older one",
                            where, it->second, newest_opset));
}

}  // namespace

void refuse_inlined() {
  throw Error(ErrorCode::invalid_model,
              fmt::format("the model's functions make more than {} nodes when they are inlined", largest_inlined));
}

void check_operators(const ModelProto& model) {
  check_default_opset(model.opsets, model.file);
  for (const FunctionProto& function : model.functions)
    check_default_opset(function.opsets, fmt::format("{}: function {}", model.file, quote(function.name)));
  Scan scan(model);
  const size_t inlined = scan.nodes(model.graph.nodes, model.opsets, "");
  scan.report();
  // Counted before they are made: functions that double with every level took 45 s and more until there were so many.
  if (inlined > largest_inlined) refuse_inlined();
}

int64_t opset_version(const std::string& domain, const OpsetImports& imports, const ModelProto& model) {
  for (const OpsetImports* list : {&imports, &model.opsets})
    if (const auto it = list->find(domain == "ai.onnx" ? "" : domain); it != list->end()) return it->second;
  if (domain.empty() || domain == "ai.onnx")
    throw Error(ErrorCode::invalid_model,
                fmt::format("{} does not say which version of ONNX's operator set it uses", model.file));
  return 1;
}

}  // namespace camshaft::onnx
