// Random graphs compute the same before and after each pass.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "backends/cpu/passes.h"
#include "backends/cpu/passes/chain_convolutions.h"
#include "backends/cuda/passes.h"
#include "ir/ops/contract.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/ops/resize.h"
#include "optimize/canonicalize/conv_to_scale.h"
#include "optimize/canonicalize/eliminate_common_subexpressions.h"
#include "optimize/canonicalize/fold_affine_into_contract.h"
#include "optimize/canonicalize/fold_constants.h"
#include "optimize/canonicalize/share_gather_indices.h"
#include "optimize/canonicalize/simplify_algebra.h"
#include "optimize/canonicalize/simplify_moves.h"
#include "optimize/canonicalize/unstack_reductions.h"
#include "optimize/canonicalize/write_boxes.h"
#include "optimize/fuse/fuse.h"
#include "optimize/fuse/join_contractions.h"
#include "optimize/layout/compose_moves.h"
#include "optimize/layout/compose_transposes.h"
#include "optimize/layout/narrow_transposes.h"
#include "optimize/layout/to_channels_last.h"
#include "optimize/pass_test.h"
#include "optimize/pipeline.h"
#include "optimize/recognize/recognize_activations.h"
#include "optimize/recognize/recognize_attention.h"
#include "optimize/recognize/recognize_group_norm.h"
#include "optimize/recognize/recognize_layer_norm.h"
#include "optimize/recognize/recognize_masks.h"
#include "optimize/recognize/recognize_softmax.h"
#include "reference/evaluate.h"
#include "test_random.h"

namespace camshaft::passes_semantics_test {
namespace {

using F = ScalarFunction;

Tensor random_tensor(Random& random, const Dims& dims, double low = -1, double high = 1) {
  Tensor t(DType::f32, dims);
  for (int64_t i = 0; i < t.size(); ++i) t.as_mutable<float>()[i] = static_cast<float>(random.uniform(low, high));
  return t;
}

// Grows a graph out of images [n, c, h, w] and whatever reshapes and reductions make of them. Numbers stay small.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {
    values_.push_back(graph_.add_input("x", {DType::f32, {Dim::symbol("n"), 4, 6, 6}}));
    values_.push_back(graph_.add_input("y", {DType::f32, {Dim::symbol("n"), 4, 6, 6}}));
  }

  Graph make(int nodes) {
    for (int i = 0; i < nodes; ++i) step();
    for (int i = 0; i < 3; ++i) graph_.add_output("out" + std::to_string(i), values_[values_.size() - 1 - pick(3)]);
    graph_.add_output("last", values_.back());
    remove_dead(graph_);
    return graph_;
  }

 private:
  size_t pick(size_t count) { return static_cast<size_t>(random_.integer(0, static_cast<int64_t>(count) - 1)); }
  // Recent values more often: deep graphs rather than wide ones.
  ValueId any() {
    const size_t back = std::min(pick(values_.size()), pick(values_.size()));
    return values_[values_.size() - 1 - back];
  }
  void push(Op op, std::vector<ValueId> inputs) {
    values_.push_back(graph_.add(std::move(op), std::move(inputs), "v"));
  }
  ValueId constant(const Dims& dims, double low = -1, double high = 1) {
    return graph_.add_constant("c", random_tensor(random_, dims, low, high));
  }
  int64_t size(ValueId id, size_t axis) { return graph_.shape(id)[axis].as_constant().value_or(-1); }
  size_t rank(ValueId id) { return graph_.shape(id).size(); }

  void step() {
    const ValueId x = any();
    switch (pick(18)) {
      case 0:
      case 1:
        return convolution(x);
      case 16:
        return bottleneck(x);
      case 17:
        return gather(x);
      case 2:
        return unary(x);
      case 3:
      case 4:
        return with_constant(x);
      case 5:
      case 6:
        return with_another(x);
      case 7:
        return transpose(x);
      case 8:
        return reshape(x);
      case 9:
        return reduce(x);
      case 10:
        return concat(x);
      case 11:
        return slice(x);
      case 12:
        return pool(x);
      case 13:
        return pad_or_resize(x);
      case 14:
        return group_norm(x);
      default:
        return softmax_or_matmul(x);
    }
  }

  void convolution(ValueId x) {
    if (rank(x) < 3 || rank(x) > 4 || size(x, 1) < 1 || size(x, 2) < 2 || size(x, rank(x) - 1) < 2) return;
    const size_t spatial = rank(x) - 2;
    const bool padded = pick(2) == 0;
    const int64_t out = 2 * (1 + static_cast<int64_t>(pick(2)));
    int64_t groups = size(x, 1) % 2 == 0 && pick(3) == 0 ? 2 : 1;
    const bool transposed = pick(5) == 0;
    if (!padded && out == size(x, 1) && pick(2) == 0) groups = out;  // that scales each channel
    Dims weights = transposed ? Dims{size(x, 1), out / groups} : Dims{out, size(x, 1) / groups};
    for (size_t i = 0; i < spatial; ++i) weights.push_back(padded ? 3 : 1);
    std::vector<ValueId> inputs{x, constant(weights, -0.3, 0.3)};
    if (pick(2) == 0) inputs.push_back(constant({out}));
    const std::vector<int64_t> ones(spatial, 1);
    const Shape pads(2 * spatial, padded ? 1 : 0);
    if (transposed) {
      push(ops::ConvTranspose{ones, pads, ones, Shape(spatial, 0), groups}, inputs);
    } else {
      push(ops::Conv{ones, pads, ones, groups}, inputs);
    }
  }

  // A 1x1 convolution, a depthwise one and another 1x1, of which one may be missing, perhaps with something between.
  void bottleneck(ValueId x) {
    if (rank(x) != 4 || size(x, 1) < 2 || size(x, 2) < 2 || size(x, 3) < 2) return;
    const auto convolve = [&](ValueId input, const Dims& weights, int64_t groups) {
      const Shape pads(4, weights[2] / 2);
      push(ops::Conv{{1, 1}, pads, {1, 1}, groups}, {input, constant(weights, -0.3, 0.3)});
      if (pick(3) == 0) unary(values_.back());
    };
    const size_t missing = pick(3);
    if (missing != 0) convolve(x, {4, size(x, 1), 1, 1}, 1);
    const ValueId wide = missing != 0 ? values_.back() : x;
    convolve(wide, {size(wide, 1), 1, 3, 3}, size(wide, 1));
    if (missing != 1) convolve(values_.back(), {size(x, 1), size(wide, 1), 1, 1}, 1);
    if (missing != 1 && pick(2) == 0) push(ops::Pointwise{F::add}, {values_.back(), x});
  }

  void unary(ValueId x) {
    const F functions[] = {F::neg, F::abs, F::sigmoid, F::tanh, F::sin, F::cos, F::erf};
    push(ops::Pointwise{functions[pick(std::size(functions))]}, {x});
  }

  void with_constant(ValueId x) {
    const F functions[] = {F::add, F::sub, F::mul, F::max, F::min, F::div, F::pow};
    const F function = functions[pick(std::size(functions))];
    Dims dims;
    const size_t constant_rank = function == F::pow ? 0 : pick(rank(x) + 1);
    for (size_t i = rank(x) - constant_rank; i < rank(x); ++i)
      dims.push_back(pick(2) == 0 && size(x, i) > 0 ? size(x, i) : 1);
    const double numbers[] = {0, 1, 2, 0.5, -1};
    ValueId c;
    if (function == F::div) {
      c = graph_.add_constant("c", pick(2) ? Tensor::scalar(DType::f32, 4) : random_tensor(random_, dims, 1, 2));
    } else if (function == F::pow) {
      c = graph_.add_constant("c", Tensor::scalar(DType::f32, 1 + static_cast<double>(pick(2))));
    } else if (pick(3) == 0) {
      c = graph_.add_constant("c", Tensor::scalar(DType::f32, numbers[pick(5)]));
    } else {
      c = constant(dims);
    }
    const bool swap = function != F::div && function != F::pow && pick(3) == 0;
    push(ops::Pointwise{function}, swap ? std::vector{c, x} : std::vector{x, c});
    // What has grown is brought back into range.
    if (function == F::pow || function == F::mul) push(ops::Pointwise{F::sin}, {values_.back()});
  }

  void with_another(ValueId x) {
    for (int i = 0; i < 8; ++i) {
      const ValueId other = any();
      if (rank(other) > rank(x)) continue;
      bool fits = true;
      for (size_t k = 1; k <= rank(other); ++k) {
        const Dim &a = graph_.shape(x)[rank(x) - k], &b = graph_.shape(other)[rank(other) - k];
        fits = fits && (a == b || b == Dim(1));
      }
      if (!fits) continue;
      const F functions[] = {F::add, F::mul, F::max, F::sub};
      const F function = functions[pick(4)];
      push(ops::Pointwise{function}, pick(2) ? std::vector{x, other} : std::vector{other, x});
      if (function == F::mul) push(ops::Pointwise{F::tanh}, {values_.back()});
      return;
    }
  }

  void transpose(ValueId x) {
    std::vector<int64_t> permutation(rank(x));
    for (size_t i = 0; i < permutation.size(); ++i) permutation[i] = static_cast<int64_t>(i);
    for (size_t i = 1; i < permutation.size(); ++i)
      std::swap(permutation[i], permutation[pick(4) == 0 ? pick(i + 1) : std::max<size_t>(1, pick(i + 1))]);
    push(ops::Transpose{permutation}, {x});
  }

  // Splits an axis or merges two.
  void reshape(ValueId x) {
    if (rank(x) == 0) return;
    Shape shape = graph_.shape(x);
    const size_t axis = pick(rank(x));
    if (pick(2) == 0 && axis + 1 < rank(x)) {
      shape[axis] = shape[axis] * shape[axis + 1];
      shape.erase(shape.begin() + static_cast<int64_t>(axis) + 1);
    } else if (rank(x) < 6) {
      const int64_t factor = size(x, axis) > 0 && size(x, axis) % 2 == 0 ? 2 : 1;
      const Dim rest = factor == 2 ? Dim(size(x, axis) / 2) : shape[axis];
      shape[axis] = factor;
      shape.insert(shape.begin() + static_cast<int64_t>(axis) + 1, rest);
    }
    push(ops::Reshape{shape}, {x});
  }

  void reduce(ValueId x) {
    if (rank(x) < 2) return;
    std::vector<int64_t> axes;
    for (size_t i = 1; i < rank(x); ++i)
      if (pick(2)) axes.push_back(static_cast<int64_t>(i));
    push(ops::Reduce{pick(2) ? ops::ReduceKind::mean : ops::ReduceKind::max, axes, pick(3) != 0}, {x});
  }

  void concat(ValueId x) {
    if (rank(x) == 0) return;
    const size_t axis = std::min<size_t>(1, rank(x) - 1);
    std::vector<ValueId> inputs{x};
    for (int i = 0; i < 6; ++i) {
      const ValueId other = any();
      if (rank(other) != rank(x)) continue;
      Shape a = graph_.shape(x), b = graph_.shape(other);
      a[axis] = b[axis] = 0;
      if (a == b && inputs.size() < 3) inputs.push_back(other);
    }
    if (size(x, axis) > 12) return;
    push(ops::Concat{static_cast<int64_t>(axis)}, inputs);
  }

  void slice(ValueId x) {
    if (rank(x) == 0) return;
    const size_t axis = pick(rank(x));
    const int64_t length = size(x, axis);
    if (length < 2) return;
    const int64_t start = static_cast<int64_t>(pick(2)), step = 1 + static_cast<int64_t>(pick(2));
    push(ops::Slice{{static_cast<int64_t>(axis)}, {start}, {(length - start + step - 1) / step}, {step}}, {x});
  }

  // The same indices for all leading axes.
  void gather(ValueId x) {
    if (rank(x) < 2) return;
    const int64_t rows = size(x, rank(x) - 2), columns = size(x, rank(x) - 1);
    if (rows < 1 || columns < 1) return;
    Dims dims{rows, 1 + static_cast<int64_t>(pick(5))};
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < dims[0] * dims[1]; ++i) indices.push_back(random_.integer(0, columns - 1));
    Shape shape = graph_.shape(x);
    shape.back() = dims[1];
    const ValueId once = graph_.add_constant("i", Tensor::from_ints(indices).reshaped(std::move(dims)));
    const ValueId all = graph_.add(ops::Expand{std::move(shape)}, {once}, "v");
    push(ops::GatherElements{static_cast<int64_t>(rank(x)) - 1}, {x, all});
  }

  void pool(ValueId x) {
    if (rank(x) < 3 || rank(x) > 4) return;
    const size_t spatial = rank(x) - 2;
    for (size_t i = 2; i < rank(x); ++i)
      if (size(x, i) < 2) return;
    const std::vector<int64_t> two(spatial, 2), one(spatial, 1);
    push(ops::Pool{pick(2) ? ops::PoolKind::max : ops::PoolKind::average, two, pick(2) ? one : two,
                   Shape(2 * spatial, 0), one},
         {x});
  }

  void pad_or_resize(ValueId x) {
    if (rank(x) != 4 || size(x, 2) < 1 || size(x, 3) < 1 || size(x, 2) > 8 || size(x, 3) > 8) return;
    if (pick(2)) {
      push(ops::Pad{ops::PadMode::constant, {0, pick(2) ? 1 : 0, 1, 0, 0, 0, 0, 1}}, {x});
    } else {
      ops::Resize resize;
      resize.mode = ops::ResizeMode::linear;
      resize.axes = {2, 3};
      resize.sizes = {size(x, 2) + 1, size(x, 3) * 2};
      resize.scales = {0, 0};
      push(resize, {x});
    }
  }

  // As exporters spell it, or as one operator.
  void group_norm(ValueId x) {
    const int64_t channels = rank(x) == 4 ? size(x, 1) : -1;
    if (channels < 2 || channels % 2 != 0 || size(x, 2) < 2 || size(x, 3) < 2) return;
    const Shape shape = graph_.shape(x);
    if (pick(2)) {
      push(ops::GroupNorm{2, 1e-3}, {x, constant({channels}), constant({channels})});
      return;
    }
    push(ops::Reshape{{shape[0], 2, channels / 2 * size(x, 2) * size(x, 3)}}, {x});
    push(ops::GroupNorm{2, 1e-3}, {values_.back()});
    push(ops::Reshape{shape}, {values_.back()});
    push(ops::Pointwise{F::mul}, {values_.back(), constant({channels, 1, 1})});
    push(ops::Pointwise{F::add}, {constant({1, channels, 1, 1}), values_.back()});
  }

  void softmax_or_matmul(ValueId x) {
    if (rank(x) < 2) return;
    if (pick(2)) {
      push(ops::Softmax{static_cast<int64_t>(1 + pick(rank(x) - 1))}, {x});
    } else if (size(x, rank(x) - 1) > 0) {
      push(ops::MatMul{}, {x, constant({size(x, rank(x) - 1), 4}, -0.5, 0.5)});
    }
  }

  Random random_;
  Graph graph_;
  std::vector<ValueId> values_;
};

void expect_close(const std::vector<Tensor>& before, const std::vector<Tensor>& after, const std::string& what) {
  ASSERT_EQ(before.size(), after.size()) << what;
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_EQ(before[i].dims(), after[i].dims()) << what << ", output " << i;
    for (int64_t k = 0; k < before[i].size(); ++k) {
      const double a = before[i].as<float>()[k], b = after[i].as<float>()[k];
      if (std::isnan(a) && std::isnan(b)) continue;
      ASSERT_NEAR(a, b, 1e-3 * std::max(1.0, std::abs(a))) << what << ", output " << i << ", element " << k;
    }
  }
}

int chains_seen = 0;

// What backends count on; see fuse.h and chain_convolutions.h.
void expect_regions_in_form(const Graph& graph, const std::string& what) {
  for (const Node& node : graph.nodes) {
    const auto* region = node.op.as<ops::Region>();
    if (!region) continue;
    const Graph& body = node.bodies.at(0);
    ASSERT_EQ(body.inputs.size(), node.inputs.size()) << what;
    if (region->kind == ops::RegionKind::chain) {
      ASSERT_TRUE(body.nodes.size() == 2 || body.nodes.size() == 3) << what;
      ASSERT_EQ(body.outputs, body.nodes.back().outputs) << what;
      expect_regions_in_form(body, what + ", in a chain");
      ++chains_seen;
      continue;
    }
    const bool contract = region->kind == ops::RegionKind::contract, reduce = region->kind == ops::RegionKind::reduce;
    ASSERT_GT(body.nodes.size(), 1U) << what;
    int reductions = 0;
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      const Op& op = body.nodes[i].op;
      const bool pointwise = op.as<ops::Pointwise>() || op.as<ops::Cast>();
      const auto* reduction = reduce ? op.as<ops::Reduce>() : nullptr;
      if (reduction) ++reductions;
      ASSERT_NE(pointwise, (contract && i == 0) || reduction) << what << ": " << to_string(op);
      if (reduction || (contract && i == 0)) {
        ASSERT_EQ(body.outputs.size(), 1U) << what;
        ASSERT_EQ(body.type(body.outputs[0]), body.type(body.nodes[i].outputs[0])) << what;
      }
    }
    ASSERT_EQ(reductions, reduce ? 1 : 0) << what;
    for (const ValueId out : body.outputs) ASSERT_EQ(body.shape(out), body.shape(body.outputs[0])) << what;
  }
}

struct NamedPass {
  const char* name;
  PassUnderTest function;
};

void run_all(Graph& graph, const BackendPasses& passes, const PassContext& context) {
  run_passes(graph, passes.meaning, context);
  run_passes_with_branches(graph, passes.form, context);
  run_passes(graph, passes.precision, context);
}

constexpr NamedPass all_passes[] = {
    {"fold_constants", fold_constants},
    {"simplify_moves", simplify_moves},
    {"simplify_algebra", simplify_algebra},
    {"unstack_reductions", unstack_reductions},
    {"conv_to_scale", conv_to_scale},
    {"share_gather_indices", share_gather_indices},
    {"write_boxes", write_boxes},
    {"recognize_group_norm", recognize_group_norm},
    {"recognize_layer_norm", recognize_layer_norm},
    {"recognize_softmax", recognize_softmax},
    {"recognize_masks", recognize_masks},
    {"recognize_activations", recognize_activations},
    {"recognize_attention", recognize_attention},
    {"join_contractions", join_contractions},
    {"compose_moves", compose_moves},
    {"compose_transposes", compose_transposes},
    {"narrow_transposes", narrow_transposes},
    {"eliminate_common_subexpressions", eliminate_common_subexpressions},
    {"fold_affine_into_contract", fold_affine_into_contract},
    {"to_channels_last", to_channels_last},
    {"fuse", fuse},
    {"fuse and chain_convolutions",
     [](Graph& graph, const PassContext& context) {
       fuse(graph, context);
       chain_convolutions(graph, context);
     }},
    {"all passes of the CPU",
     [](Graph& graph, const PassContext& context) { run_all(graph, cpu::passes(ops::Rounding::none), context); }},
    {"all passes of the GPU",
     [](Graph& graph, const PassContext& context) {
       run_all(graph, cuda::passes(DType::f32, ops::Rounding::none, true), context);
     }},
};

void check_seed(uint64_t seed) {
  const Graph graph = Generator(seed).make(30);
  Random random(seed + 1);
  const std::vector<Tensor> inputs{random_tensor(random, {2, 4, 6, 6}), random_tensor(random, {2, 4, 6, 6})};
  const std::vector<Tensor> expected = evaluate(graph, inputs, test_pool());
  for (const NamedPass& pass : all_passes) {
    Graph changed = graph;
    const PassContext context = test_context();
    const std::string what = std::string(pass.name) + " on seed " + std::to_string(seed);
    try {
      run_pass_on_named(pass.function, changed, context, what);
      verify(changed, pass.name);
      expect_regions_in_form(changed, what);
      expect_close(expected, evaluate(changed, inputs, test_pool()), what);
    } catch (const std::exception& e) {
      FAIL() << what << ": " << e.what();
    }
    if (testing::Test::HasFatalFailure()) {
      std::cerr << print(graph) << "\nbecame\n" << print(changed);
      return;
    }
  }
}

TEST(Semantics, RandomGraphs) {
  const uint64_t first = test_seed();
  for (uint64_t i = 0; i < 60; ++i) {
    check_seed(first + i);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(chains_seen, 0);
}

}  // namespace
}  // namespace camshaft::passes_semantics_test
