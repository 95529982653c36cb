#include "builder/add_lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "builder/lora_products.h"
#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/rewriter.h"
#include "onnx/quote.h"
#include "reference/derived_constant.h"
#include "runtime/adapters.h"

namespace camshaft {

namespace {

using onnx::LoraAdapter;
using onnx::LowRankUpdate;

// Of one product: the module of each adapter, empty where it does not update it.
using Modules = std::vector<std::string>;

class LoraAdder {
 public:
  LoraAdder(Graph& graph, const std::vector<LoraAdapter>& adapters, ThreadPool& pool)
      : graph_(graph), adapters_(adapters), pool_(pool) {}

  std::vector<std::string> run() {
    check_name_is_free();
    const std::map<size_t, Modules> wanted = find_products();
    input_ = graph_.add_input(std::string(lora_input), TensorType{DType::i64, {}});
    Rewriter rewriter(graph_);
    size_t index = 0;
    for (Node& node : rewriter.nodes()) {
      const auto it = wanted.find(index++);
      if (it == wanted.end()) {
        rewriter.keep(std::move(node));
      } else {
        rewriter.resolve(node);
        rewriter.replace(node.outputs[0], updated(node, it->second));
      }
    }
    rewriter.finish();
    return std::move(lines_);
  }

 private:
  struct Matrices {
    ValueId a = no_value, b = no_value;
  };

  void check_name_is_free() {
    const std::string name(lora_input);
    const auto is_taken = [&](ValueId id) { return graph_.value(id).name == name; };
    if (std::any_of(graph_.inputs.begin(), graph_.inputs.end(), is_taken) ||
        std::count(graph_.output_names.begin(), graph_.output_names.end(), name) > 0)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("the model has an input or output '{}', which is to choose the adapter: rename it", name));
    for (size_t i = 0; i < graph_.values.size(); ++i)
      if (is_taken(static_cast<ValueId>(i))) graph_.rename(static_cast<ValueId>(i), name + "_of_model");
  }

  // By node.
  std::map<size_t, Modules> find_products() {
    const LoraProducts products(graph_);
    std::map<size_t, Modules> wanted;
    for (size_t i = 0; i < adapters_.size(); ++i) {
      int64_t least = INT64_MAX, most = 0;
      const std::map<size_t, std::string> matched = products.match(adapters_[i]);
      for (const auto& [product, module] : matched) {
        Modules& modules = wanted[products.all()[product].node];
        modules.resize(adapters_.size());
        modules[i] = module;
        const int64_t rank = adapters_[i].updates.at(module).a.dims()[0];
        least = std::min(least, rank);
        most = std::max(most, rank);
      }
      lines_.push_back(fmt::format("{}: {} product{}, rank {}", adapters_[i].name, matched.size(),
                                   matched.size() == 1 ? "" : "s",
                                   least == most ? std::to_string(most) : fmt::format("{} to {}", least, most)));
    }
    return wanted;
  }

  ValueId updated(const Node& node, const Modules& modules) {
    const std::string name = graph_.value(node.outputs[0]).name;
    const DType dtype = graph_.type(node.outputs[0]).dtype;
    const Matrices matrices = gathered(modules, dtype);
    const ValueId x = node.inputs[0];
    const ops::MatMul down{.transpose_a = node.op.as<ops::MatMul>()->transpose_a};
    const ValueId product = graph_.add(node.op, node.inputs, name + "/base", node.sources);
    const ValueId low = graph_.add(down, {x, matrices.a}, name + "/lora_A", node.sources);
    const ValueId update = graph_.add(ops::MatMul{}, {low, matrices.b}, name + "/lora_B", node.sources);
    return graph_.add(ops::Pointwise{ScalarFunction::add}, {product, update}, name + "/lora", node.sources);
  }

  // A layer that is used several times has one set of matrices.
  Matrices gathered(const Modules& modules, DType dtype) {
    const auto [it, is_new] = matrices_.try_emplace({modules, dtype});
    if (is_new) it->second = make_matrices(modules, dtype);
    return it->second;
  }

  Matrices make_matrices(const Modules& modules, DType dtype) {
    const std::string& module = *std::find_if(modules.begin(), modules.end(), [](const auto& m) { return !m.empty(); });
    int64_t rank = 0, in = 0, out = 0;
    for (size_t i = 0; i < modules.size(); ++i) {
      if (modules[i].empty()) continue;
      const LowRankUpdate& update = adapters_[i].updates.at(modules[i]);
      rank = std::max(rank, update.a.dims()[0]);
      in = update.a.dims()[1];
      out = update.b.dims()[0];
    }
    std::vector<Constant> a, b;
    for (size_t i = 0; i < modules.size(); ++i) {
      const std::string& own = modules[i].empty() ? module : modules[i];
      const LowRankUpdate none{Tensor(DType::f32, {0, in}), Tensor(DType::f32, {out, 0})};
      const LowRankUpdate& update = modules[i].empty() ? none : adapters_[i].updates.at(own);
      const auto add = [&](char which, const Tensor& matrix, const Dims& dims) {
        const std::string name = adapter_tensor(adapters_[i].name, own, which);
        return initializer(name, padded_to_rank(matrix, dims, which, name), modules);
      };
      a.push_back(add('A', update.a, {rank, in}));
      b.push_back(add('B', update.b, {out, rank}));
    }
    return {gather(stacked(a, dtype), module + ".lora_A"), gather(stacked(b, dtype), module + ".lora_B")};
  }

  Constant initializer(const std::string& name, Tensor tensor, const Modules& of) {
    if (const auto [it, is_new] = owners_.emplace(name, of); !is_new && it->second != of)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("the adapters mean different products by the module of '{}': name their modules alike", name));
    if (Replaceable* const replaceable = ReplaceableScope::current()) replaceable->add(name, tensor);
    auto provenance = Provenance::initializer(name, tensor);
    return {std::make_shared<const Tensor>(std::move(tensor)), std::move(provenance)};
  }

  // Matrices [rows, columns] as one tensor [1 + adapters, columns, rows], the first of zeros.
  Constant stacked(const std::vector<Constant>& matrices, DType dtype) {
    std::vector<Constant> rows;
    for (const Constant& matrix : matrices) {
      const Dims& dims = matrix.tensor->dims();
      rows.push_back(derive_reshaped(matrix, {1, dims[0], dims[1]}, pool_));
    }
    Constant all = rows.size() == 1 ? rows[0] : derive(ops::Concat{0}, rows, pool_);
    all = derive(ops::Transpose{{0, 2, 1}}, {all}, pool_);
    all = derive(ops::Pad{ops::PadMode::constant, {1, 0, 0, 0, 0, 0}}, {all}, pool_);
    return dtype == DType::f32 ? all : derive(ops::Cast{.to = dtype}, {all}, pool_);
  }

  ValueId gather(Constant stack, const std::string& name) {
    return graph_.add(ops::Gather{0}, {graph_.add_constant(name + ".all", std::move(stack)), input_}, name);
  }

  Graph& graph_;
  const std::vector<LoraAdapter>& adapters_;
  ThreadPool& pool_;
  ValueId input_ = no_value;
  std::map<std::pair<Modules, DType>, Matrices> matrices_;
  std::map<std::string, Modules> owners_;  // of initializers
  std::vector<std::string> lines_;
};

// It is a part of lists, of options and of initializers' names.
void check_name(const std::string& name) {
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; };
  if (name.empty() || name == "none" || !std::all_of(name.begin(), name.end(), is_allowed))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("an adapter cannot be named {}: give letters, digits, '_', '-' and '.', and not none",
                            onnx::quote(name)));
}

void add_text(std::string& all, std::string_view text) {
  all += text;
  all += '\0';
}

}  // namespace

std::vector<LoraAdapter> read_adapters(const BuildOptions& options) {
  std::vector<LoraAdapter> adapters;
  for (const auto& [name, path] : options.lora) {
    check_name(name);
    if (std::any_of(adapters.begin(), adapters.end(), [&, &n = name](const auto& other) { return other.name == n; }))
      throw Error(ErrorCode::invalid_argument, fmt::format("two adapters are named '{}'", name));
    adapters.push_back(onnx::read_lora_adapter(name, path));
  }
  return adapters;
}

std::string adapters_hash(const std::vector<LoraAdapter>& adapters, bool by_shape) {
  std::string all;
  for (const LoraAdapter& adapter : adapters) {
    add_text(all, adapter.name);
    for (const auto& [module, update] : adapter.updates) {
      add_text(all, module);
      for (const Tensor* tensor : {&update.a, &update.b}) {
        add_text(all, to_string(tensor->dims()));
        if (!by_shape) add_text(all, to_hex(hash64(tensor->span())));
      }
    }
  }
  return to_hex(hash64(std::as_bytes(std::span(all))));
}

std::set<std::string> adapter_initializers(const std::vector<LoraAdapter>& adapters) {
  std::set<std::string> modules, names;
  for (const LoraAdapter& adapter : adapters)
    for (const auto& [module, update] : adapter.updates) modules.insert(module);
  for (const LoraAdapter& adapter : adapters)
    for (const std::string& module : modules)
      for (const char matrix : {'A', 'B'}) names.insert(adapter_tensor(adapter.name, module, matrix));
  return names;
}

std::vector<std::string> add_lora(Graph& graph, const std::vector<LoraAdapter>& adapters, ThreadPool& pool) {
  return LoraAdder(graph, adapters, pool).run();
}

}  // namespace camshaft
