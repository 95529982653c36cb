#include "optimize/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/trace.h"
#include "ir/ops/control_flow.h"
#include "ir/verify.h"

namespace camshaft {

namespace {

#ifdef NDEBUG
constexpr bool always_verify = false;
#else
constexpr bool always_verify = true;
#endif

class Pipeline {
 public:
  Pipeline(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), verify_(always_verify || context.verify), trace_(is_traced("passes")) {}

  void run(const PassList& passes) {
    if (verify_) verify(graph_, "the graph before its first pass");
    for (const PassStep& step : passes) {
      if (step.most_rounds == 1) {
        for (const Pass& pass : step.passes) run_pass(pass, std::string(pass.name));
      } else {
        run_until_settled(step);
      }
    }
    remove_dead(graph_);
    if (verify_) verify(graph_, "the removal of dead nodes");
  }

 private:
  void run_until_settled(const PassStep& step) {
    for (int round = 1; round <= step.most_rounds; ++round) {
      const Graph before = graph_;  // shares the constants' bytes
      for (const Pass& pass : step.passes)
        run_pass(pass, round == 1 ? std::string(pass.name) : fmt::format("{} (round {})", pass.name, round));
      if (equal(before, graph_)) return;
    }
  }

  void run_pass(const Pass& pass, const std::string& name) {
    if (PassRuns* runs = context_.runs) {
      if (runs->most >= 0 && runs->names.size() >= static_cast<size_t>(runs->most)) return;
      runs->names.push_back(name);
    }
    context_.cancellation.check("optimising the graph");
    const size_t nodes = graph_.nodes.size();
    const auto start = std::chrono::steady_clock::now();
    pass.run(graph_, context_);
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    if (trace_)
      fmt::print(stderr, "pass {:<42} {:8.2f} ms  {:5} -> {:5} nodes\n", name, elapsed.count(), nodes,
                 graph_.nodes.size());
    if (verify_) verify(graph_, fmt::format("pass {}", name));
  }

  Graph& graph_;
  const PassContext& context_;
  bool verify_;
  bool trace_;
};

PassList without_chains(const PassList& passes) {
  PassList list;
  for (const PassStep& step : passes) {
    std::vector<Pass> kept;
    for (const Pass& pass : step.passes)
      if (!pass.settles.has(Fact::chains)) kept.push_back(pass);
    if (!kept.empty()) list.emplace_back(std::move(kept), step.most_rounds);
  }
  return list;
}

// `most`: passes that may run.
void run_on_branch(Graph& branch, const PassList& passes, const PassContext& context, int most) {
  Graph optimized = branch;
  try {
    PassContext inner = context;
    PassRuns runs;
    runs.most = most;
    inner.runs = &runs;
    inner.notes = nullptr;  // names are unique within one graph only
    run_passes_with_branches(optimized, passes, inner);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::cancelled || e.code() == ErrorCode::out_of_memory) throw;
    return;
  }
  branch = std::move(optimized);
}

}  // namespace

void run_passes(Graph& graph, const PassList& passes, const PassContext& context) {
  Pipeline(graph, context).run(passes);
}

void run_passes_with_branches(Graph& graph, const PassList& passes, const PassContext& context) {
  // As many as run on the graph itself, however many ran before.
  int most = -1;
  if (const PassRuns* runs = context.runs; runs && runs->most >= 0)
    most = std::max(0, runs->most - static_cast<int>(runs->names.size()));
  run_passes(graph, passes, context);
  for (Node& node : graph.nodes)
    if (node.op.as<ops::If>())
      for (Graph& body : node.bodies) run_on_branch(body, without_chains(passes), context, most);
}

}  // namespace camshaft
