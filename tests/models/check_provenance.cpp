// Holds what the constants of an optimised model say they come from against the constants.
//
//   check_provenance MODEL [CHANGED] [--backend cpu|cuda] [--storage f32|f16|bf16]
//
// Prints a line of JSON: how many constants there are of which kind, and what is wrong. With CHANGED, the same model
// with other numbers in its initializers, what the model's constants are when they are redone of those is compared with
// the constants that the changed model's optimisation gives; "same_form" is false where its numbers have led passes
// elsewhere, so that there is nothing to compare. tests/models/test_provenance.py runs it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/cpu/passes.h"
#include "backends/cuda/passes.h"
#include "base/error.h"
#include "onnx/importer.h"
#include "optimize/pipeline.h"
#include "reference/replay.h"

namespace camshaft {
namespace {

struct Optimised {
  std::map<std::string, Tensor> initializers;
  Graph graph;
};

Optimised optimise(const std::string& file, const std::string& backend, DType storage, ThreadPool& pool) {
  Optimised made;
  onnx::ImportOptions options;
  options.initializers = &made.initializers;
  made.graph = onnx::import_model(file, options).graph;
  const BackendPasses passes =
      backend == "cuda" ? cuda::passes(storage, ops::Rounding::none, true) : cpu::passes(ops::Rounding::none);
  const PassContext context{.pool = pool, .storage = storage};
  run_passes(made.graph, passes.meaning, context);
  run_passes_with_branches(made.graph, passes.form, context);
  run_passes(made.graph, passes.precision, context);
  return made;
}

class Check {
 public:
  Check(const Optimised& model, const Optimised* changed, ThreadPool& pool)
      : model_(model), changed_(changed), pool_(pool) {}

  nlohmann::json run() {
    check(model_.graph, changed_ ? &changed_->graph : nullptr);
    return {{"constants", constants_}, {"initializers", initializers_}, {"derived", derived_},
            {"literals", literals_},   {"unknown", unknown_},           {"wrong", wrong_},
            {"same_form", same_form_}};
  }

 private:
  static Tensor redo(const Provenance& provenance, const Optimised& of, ThreadPool& pool) {
    const auto find = [&](const std::string& name) {
      const auto it = of.initializers.find(name);
      return it == of.initializers.end() ? Tensor() : it->second;
    };
    return replay(provenance, find, pool);
  }

  void check(const Graph& graph, const Graph* changed) {
    if (changed && (changed->values.size() != graph.values.size() || changed->nodes.size() != graph.nodes.size())) {
      same_form_ = false;
      changed = nullptr;
    }
    for (size_t v = 0; v < graph.values.size(); ++v)
      if (graph.values[v].constant) check(graph.values[v], changed ? &changed->values[v] : nullptr);
    for (size_t n = 0; n < graph.nodes.size(); ++n)
      for (size_t i = 0; i < graph.nodes[n].bodies.size(); ++i) {
        const bool has_other = changed && i < changed->nodes[n].bodies.size();
        check(graph.nodes[n].bodies[i], has_other ? &changed->nodes[n].bodies[i] : nullptr);
      }
  }

  void check(const Value& value, const Value* changed) {
    ++constants_;
    if (changed && (changed->name != value.name || !changed->constant)) {
      same_form_ = false;
      changed = nullptr;
    }
    if (!value.provenance) {
      ++literals_;
      if (changed && !(*changed->constant == *value.constant)) wrong(value, "is no literal: it changes with the model");
      return;
    }
    if (const auto* unknown = value.provenance->as<Provenance::Unknown>()) {
      unknown_[unknown->reason].push_back(value.name);
      return;
    }
    if (!value.provenance->can_be_redone()) {
      unknown_["made of what cannot be redone"].push_back(value.name);
      return;
    }
    ++(value.provenance->as<Provenance::Initializer>() ? initializers_ : derived_);
    try {
      if (!(redo(*value.provenance, model_, pool_) == *value.constant))
        wrong(value, "is another one when it is redone");
      if (changed && !(redo(*value.provenance, *changed_, pool_) == *changed->constant))
        wrong(value, "is another one when it is redone of other numbers");
    } catch (const Error& e) {
      wrong(value, e.what());
    }
  }

  void wrong(const Value& value, const std::string& what) { wrong_.push_back(value.name + ": " + what); }

  const Optimised& model_;
  const Optimised* changed_;
  ThreadPool& pool_;
  int constants_ = 0, initializers_ = 0, derived_ = 0, literals_ = 0;
  std::map<std::string, std::vector<std::string>> unknown_;
  std::vector<std::string> wrong_;
  bool same_form_ = true;
};

int run(int argc, char** argv) {
  CLI::App app("Holds the provenance of a model's constants against the constants.");
  std::string model, changed, backend = "cpu", storage = "f32";
  app.add_option("model", model)->required();
  app.add_option("changed", changed);
  app.add_option("--backend", backend)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--storage", storage)->check(CLI::IsMember({"f32", "f16", "bf16"}));
  CLI11_PARSE(app, argc, argv);
  ThreadPool pool(2);
  const DType dtype = storage == "f16" ? DType::f16 : storage == "bf16" ? DType::bf16 : DType::f32;
  const Optimised made = optimise(model, backend, dtype, pool);
  Optimised other;
  if (!changed.empty()) other = optimise(changed, backend, dtype, pool);
  std::puts(Check(made, changed.empty() ? nullptr : &other, pool).run().dump().c_str());
  return 0;
}

}  // namespace
}  // namespace camshaft

int main(int argc, char** argv) {
  try {
    return camshaft::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
