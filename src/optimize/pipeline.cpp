#include "optimize/pipeline.h"

#include <fmt/format.h>

#include <chrono>
#include <span>

#include "base/trace.h"
#include "ir/ops/contract.h"
#include "ir/ops/control_flow.h"
#include "ir/verify.h"
#include "optimize/canonicalize/eliminate_common_subexpressions.h"
#include "optimize/canonicalize/fold_affine_into_contract.h"
#include "optimize/canonicalize/fold_constants.h"
#include "optimize/canonicalize/simplify_algebra.h"
#include "optimize/canonicalize/simplify_moves.h"
#include "optimize/canonicalize/unstack_reductions.h"
#include "optimize/fuse/chain_convolutions.h"
#include "optimize/fuse/chain_squeeze_excite.h"
#include "optimize/fuse/defer_layer_norms.h"
#include "optimize/fuse/fuse.h"
#include "optimize/fuse/join_contractions.h"
#include "optimize/layout/compose_moves.h"
#include "optimize/layout/compose_transposes.h"
#include "optimize/layout/join_transposes.h"
#include "optimize/layout/narrow_transposes.h"
#include "optimize/layout/nest_concats.h"
#include "optimize/layout/reshape_behind_product.h"
#include "optimize/layout/resize_after_conv.h"
#include "optimize/layout/to_channels_last.h"
#include "optimize/layout/transposes_past_products.h"
#include "optimize/layout/widen_images.h"
#include "optimize/precision/allow_rounding.h"
#include "optimize/precision/expand_quantization.h"
#include "optimize/precision/lower_precision.h"
#include "optimize/recognize/recognize_activations.h"
#include "optimize/recognize/recognize_attention.h"
#include "optimize/recognize/recognize_group_norm.h"
#include "optimize/recognize/recognize_layer_norm.h"
#include "optimize/recognize/recognize_masks.h"
#include "optimize/recognize/recognize_rotary_embedding.h"
#include "optimize/recognize/recognize_softmax.h"

namespace camshaft {

namespace {

using PassFunction = void (*)(Graph&, const PassContext&);

struct Pass {
  const char* name;
  PassFunction function;
  int round;  // of the passes that enable each other; 0: runs once
};

// Rounds after the first are skipped as soon as a whole round has changed nothing: until something is expanded, and
// from then on again.
constexpr Pass passes[] = {
    {"fold_constants", fold_constants, 1},
    {"simplify_moves", simplify_moves, 1},
    {"simplify_algebra", simplify_algebra, 1},
    {"unstack_reductions", unstack_reductions, 1},
    {"recognize_group_norm", recognize_group_norm, 1},
    {"recognize_layer_norm", recognize_layer_norm, 1},
    {"recognize_softmax", recognize_softmax, 1},
    {"recognize_masks", recognize_masks, 1},
    {"recognize_activations", recognize_activations, 1},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions, 1},
    {"fold_affine_into_contract", fold_affine_into_contract, 1},

    {"fold_constants", fold_constants, 2},
    {"simplify_moves", simplify_moves, 2},
    {"simplify_algebra", simplify_algebra, 2},
    {"recognize_group_norm", recognize_group_norm, 2},
    {"recognize_layer_norm", recognize_layer_norm, 2},
    {"recognize_softmax", recognize_softmax, 2},
    {"recognize_masks", recognize_masks, 2},
    {"recognize_activations", recognize_activations, 2},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions, 2},
    {"fold_affine_into_contract", fold_affine_into_contract, 2},

    {"fold_constants", fold_constants, 3},
    {"simplify_moves", simplify_moves, 3},
    {"simplify_algebra", simplify_algebra, 3},
    {"recognize_group_norm", recognize_group_norm, 3},
    {"recognize_layer_norm", recognize_layer_norm, 3},
    {"recognize_softmax", recognize_softmax, 3},
    {"recognize_masks", recognize_masks, 3},
    {"recognize_activations", recognize_activations, 3},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions, 3},
    {"fold_affine_into_contract", fold_affine_into_contract, 3},

    {"expand_quantization", expand_quantization, 4},

    {"fold_constants", fold_constants, 5},
    {"simplify_moves", simplify_moves, 5},
    {"simplify_algebra", simplify_algebra, 5},
    {"unstack_reductions", unstack_reductions, 5},
    {"recognize_group_norm", recognize_group_norm, 5},
    {"recognize_layer_norm", recognize_layer_norm, 5},
    {"recognize_softmax", recognize_softmax, 5},
    {"recognize_masks", recognize_masks, 5},
    {"recognize_activations", recognize_activations, 5},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions, 5},
    {"fold_affine_into_contract", fold_affine_into_contract, 5},

    {"fold_constants", fold_constants, 6},
    {"simplify_moves", simplify_moves, 6},
    {"simplify_algebra", simplify_algebra, 6},
    {"recognize_group_norm", recognize_group_norm, 6},
    {"recognize_layer_norm", recognize_layer_norm, 6},
    {"recognize_softmax", recognize_softmax, 6},
    {"recognize_masks", recognize_masks, 6},
    {"recognize_activations", recognize_activations, 6},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions, 6},
    {"fold_affine_into_contract", fold_affine_into_contract, 6},

    {"fold_constants", fold_constants, 7},
    {"simplify_moves", simplify_moves, 7},
    {"simplify_algebra", simplify_algebra, 7},
    {"recognize_group_norm", recognize_group_norm, 7},
    {"recognize_layer_norm", recognize_layer_norm, 7},
    {"recognize_softmax", recognize_softmax, 7},
    {"recognize_masks", recognize_masks, 7},
    {"recognize_activations", recognize_activations, 7},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions, 7},
    {"fold_affine_into_contract", fold_affine_into_contract, 7},

    {"to_channels_last", to_channels_last, 0},
    {"simplify_moves", simplify_moves, 0},
    {"fold_constants", fold_constants, 0},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions, 0},
    {"resize_after_conv", resize_after_conv, 0},
    {"nest_concats", nest_concats, 0},

    {"recognize_rotary_embedding", recognize_rotary_embedding, 0},
    {"transposes_past_products", transposes_past_products, 0},
    {"recognize_attention", recognize_attention, 0},
    {"join_contractions", join_contractions, 0},
    {"compose_moves", compose_moves, 0},
    {"compose_transposes", compose_transposes, 0},
    {"narrow_transposes", narrow_transposes, 0},

    {"fuse", fuse, 0},
    {"chain_convolutions", chain_convolutions, 0},
};

constexpr int expansion_round = 4;
constexpr int last_round = 7;

// The second stage.
constexpr Pass storage_passes[] = {
    {"lower_precision", lower_precision, 0},     {"reshape_behind_product", reshape_behind_product, 0},
    {"defer_layer_norms", defer_layer_norms, 0}, {"join_transposes", join_transposes, 0},
    {"widen_images", widen_images, 0},
};

// Of the second stage too, whatever is stored.
constexpr Pass precision_passes[] = {
    {"allow_rounding", allow_rounding, 0},
};

// Behind all of these.
constexpr Pass last_passes[] = {
    {"chain_squeeze_excite", chain_squeeze_excite, 0},
};

#ifdef NDEBUG
constexpr bool always_verify = false;
#else
constexpr bool always_verify = true;
#endif

class Pipeline {
 public:
  Pipeline(Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), verify_(always_verify || context.verify), trace_(is_traced("passes")) {}

  void run() {
    if (verify_) verify(graph_, "import");
    run_stage(passes, 0);
    remove_dead(graph_);
    for (Node& node : graph_.nodes)
      if (node.op.as<ops::If>())
        for (Graph& body : node.bodies) optimize_branch(body);
    if (verify_) verify(graph_, "the removal of dead nodes");
  }

  void run_storage() {
    const auto done = static_cast<int>(std::size(passes));
    if (context_.storage != DType::f32) run_stage(storage_passes, done);
    const auto stored = done + static_cast<int>(std::size(storage_passes));
    if (context_.rounding != ops::Rounding::none) run_stage(precision_passes, stored);
    if (context_.squeeze_excite) run_stage(last_passes, stored + static_cast<int>(std::size(precision_passes)));
  }

 private:
  // `done`: passes of the stages before, which count for stop_after.
  void run_stage(std::span<const Pass> stage, int done) {
    for (const Pass& pass : stage) {
      if (context_.stop_after >= 0 && done++ >= context_.stop_after) break;
      if (pass.round != round_) begin_round(pass.round);
      if (!settled_ || pass.round == 0) run_pass(pass);
    }
  }

  // What fails on constants may be in a branch that is never taken: it stays as it is.
  void optimize_branch(Graph& body) {
    Graph optimized = body;
    try {
      PassContext inner = context_;
      inner.notes = nullptr;  // names are unique within one graph only
      inner.chains = false;   // nobody tunes a branch
      Pipeline(optimized, inner).run();
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled || e.code() == ErrorCode::out_of_memory) throw;
      return;
    }
    body = std::move(optimized);
  }

  void begin_round(int round) {
    // The expansion runs however the rounds before ended, and those behind it only where it found something.
    settled_ = round != expansion_round && (settled_ || (round > 1 && equal(before_round_, graph_)));
    round_ = round;
    before_round_ = round > 0 && round < last_round && !settled_ ? graph_ : Graph();
  }

  void run_pass(const Pass& pass) {
    context_.cancellation.check("optimising the graph");
    const size_t nodes = graph_.nodes.size();
    const auto start = std::chrono::steady_clock::now();
    pass.function(graph_, context_);
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    if (trace_)
      fmt::print(stderr, "pass {:<34} {:8.2f} ms  {:5} -> {:5} nodes\n", pass.name, elapsed.count(), nodes,
                 graph_.nodes.size());
    if (verify_) verify(graph_, fmt::format("pass {}", pass.name));
  }

  Graph& graph_;
  const PassContext& context_;
  bool verify_;
  bool trace_;
  int round_ = 0;
  bool settled_ = false;
  Graph before_round_;  // shares the constants' bytes
};

}  // namespace

void optimize(Graph& graph, const PassContext& context) {
  Pipeline(graph, context).run();
}

void optimize_storage(Graph& graph, const PassContext& context) {
  Pipeline(graph, context).run_storage();
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : passes)
    names.push_back(pass.round > 1 ? fmt::format("{} (round {})", pass.name, pass.round) : pass.name);
  for (const Pass& pass : storage_passes) names.emplace_back(pass.name);
  for (const Pass& pass : precision_passes) names.emplace_back(pass.name);
  for (const Pass& pass : last_passes) names.emplace_back(pass.name);
  return names;
}

}  // namespace camshaft
