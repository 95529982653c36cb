// The products of a model that adapters of LoRA may update, and which of them each module of an adapter is.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "onnx/lora_adapter.h"

namespace camshaft {

/// The matrix products of a graph, as it was imported, whose right operand is made of constants alone: directly, or
/// through operators (transposed, dequantised, …). Those of branches and loops are not among them.
class LoraProducts {
 public:
  struct Product {
    size_t node = 0;             ///< of the graph
    int64_t in = 0, out = 0;     ///< W is [in, out]
    std::vector<ValueId> roots;  ///< the constants that W is made of
  };

  explicit LoraProducts(const Graph& graph);

  /// The products that each module of an adapter updates: all that stem from the module's node, or where none does that
  /// read its weights. A node's module is its name without the operator's, "/" read as ".", as PyTorch's exporter
  /// writes them; that of weights is the initializer's name without ".weight" and what follows. Nodes and initializers
  /// may also be named as they are. Throws Error(invalid_argument), naming adapter and module, for a module that is no
  /// product or may be several, for sizes that do not fit, and for two modules that are the same product.
  std::map<size_t, std::string> match(const onnx::LoraAdapter& adapter) const;  // module by index of the product

  const std::vector<Product>& all() const { return products_; }

 private:
  std::vector<size_t> find(const std::string& name) const;
  void check_one_weight(const onnx::LoraAdapter& adapter, const std::string& module,
                        const std::vector<size_t>& found) const;
  std::string node_name(size_t product) const;

  const Graph& graph_;
  std::vector<Product> products_;
  std::map<std::string, std::vector<size_t>> by_node_, by_weights_;
  std::set<std::string> names_;
};

}  // namespace camshaft
