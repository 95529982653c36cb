#include "backends/cpu/tactics/recurrent.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/kernels/recurrent/recurrent.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "base/divide_up.h"
#include "compile/constants/layout_text.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/recurrent.h"

namespace camshaft::cpu {

namespace {

enum Input : size_t { in_x, in_weights, in_recurrence, in_biases, in_lengths, in_h, in_c, in_peepholes };

constexpr std::pair<std::string_view, RecurrentFunction> function_names[] = {
    {"affine", RecurrentFunction::affine},
    {"elu", RecurrentFunction::elu},
    {"hardsigmoid", RecurrentFunction::hard_sigmoid},
    {"leakyrelu", RecurrentFunction::leaky_relu},
    {"relu", RecurrentFunction::relu},
    {"scaledtanh", RecurrentFunction::scaled_tanh},
    {"sigmoid", RecurrentFunction::sigmoid},
    {"softplus", RecurrentFunction::softplus},
    {"softsign", RecurrentFunction::softsign},
    {"tanh", RecurrentFunction::tanh},
    {"thresholdedrelu", RecurrentFunction::thresholded_relu},
};

std::optional<RecurrentFunction> function_of(const std::string& name) {
  for (const auto& [known, function] : function_names)
    if (known == name) return function;
  return std::nullopt;
}

RecurrentCell cell_of(const ops::Recurrent& op) {
  if (op.cell == ops::CellKind::rnn) return RecurrentCell::rnn;
  if (op.cell == ops::CellKind::lstm) return RecurrentCell::lstm;
  return op.linear_before_reset ? RecurrentCell::gru_linear : RecurrentCell::gru;
}

bool is_reverse(const ops::Recurrent& op, size_t direction) {
  return op.direction == ops::Direction::reverse || direction == 1;
}

/// The weights: `projection` for each direction [in, columns], `recurrence` as the steps want it, `biases` for each
/// direction [columns], `reset_biases` [padded]. Constants are packed when the layer is compiled, others in each run;
/// then these two are null.
struct Weights {
  RecurrentLayout layout;
  PackedLayout projection_layout;
  int64_t directions = 1, in = 0;
  const float *projection = nullptr, *recurrence = nullptr;
  std::vector<float> biases, reset_biases;
};

// ---- packing

constexpr auto projection_numbers = [](auto& w, auto&& number) {
  number("recurrent_input cell=", w.layout.cell);
  number(" hidden=", w.layout.hidden);
  number(" units=", w.layout.lanes);
  number(" k=", w.in);
  number(" width=", w.projection_layout.width);
  number(" lanes=", w.projection_layout.lanes);
  number(" directions=", w.directions);
};

constexpr auto recurrence_numbers = [](auto& w, auto&& number) {
  number("recurrent_state cell=", w.layout.cell);
  number(" hidden=", w.layout.hidden);
  number(" units=", w.layout.lanes);
  number(" directions=", w.directions);
};

// `ordered`: scratch, [columns, in].
void pack_projection(const Weights& w, const float* raw, float* packed, std::vector<float>& ordered) {
  ordered.assign(static_cast<size_t>(w.layout.columns() * w.in), 0.0f);
  for (int64_t d = 0; d < w.directions; ++d) {
    const float* from = raw + d * w.layout.gates() * w.layout.hidden * w.in;
    for (int64_t column = 0; column < w.layout.columns(); ++column)
      if (const int64_t row = w.layout.row_of_column(column); row >= 0)
        std::copy_n(from + row * w.in, w.in, &ordered[static_cast<size_t>(column * w.in)]);
    pack_b(w.projection_layout, ordered.data(), 1, w.in, packed + d * w.projection_layout.floats());
  }
}

void pack_recurrences(const Weights& w, const float* raw, float* packed) {
  for (int64_t d = 0; d < w.directions; ++d)
    pack_recurrence(w.layout, raw + d * w.layout.gates() * w.layout.hidden * w.layout.hidden,
                    packed + d * w.layout.packed_floats());
}

void unpack_projection(const Weights& w, const float* packed, float* raw) {
  std::vector<float> ordered(static_cast<size_t>(w.layout.columns() * w.in));
  for (int64_t d = 0; d < w.directions; ++d) {
    unpack_b(w.projection_layout, packed + d * w.projection_layout.floats(), ordered.data(), 1, w.in);
    float* to = raw + d * w.layout.gates() * w.layout.hidden * w.in;
    for (int64_t column = 0; column < w.layout.columns(); ++column)
      if (const int64_t row = w.layout.row_of_column(column); row >= 0)
        std::copy_n(&ordered[static_cast<size_t>(column * w.in)], w.in, to + row * w.in);
  }
}

// The biases of input and recurrence in one, but for the hidden gate of a GRU that resets after the product.
void add_biases(Weights& w, const float* biases) {
  const int64_t gates = w.layout.gates() * w.layout.hidden;
  w.biases.assign(static_cast<size_t>(w.directions * w.layout.columns()), 0.0f);
  w.reset_biases.assign(static_cast<size_t>(w.directions * w.layout.padded()), 0.0f);
  if (!biases) return;
  for (int64_t d = 0; d < w.directions; ++d) {
    const float *of_input = biases + d * 2 * gates, *of_recurrence = of_input + gates;
    for (int64_t column = 0; column < w.layout.columns(); ++column) {
      const int64_t row = w.layout.row_of_column(column);
      if (row < 0) continue;
      float& bias = w.biases[static_cast<size_t>(d * w.layout.columns() + column)];
      bias = of_input[row];
      if (w.layout.cell == RecurrentCell::gru_linear && row >= 2 * w.layout.hidden) {
        w.reset_biases[static_cast<size_t>(d * w.layout.padded() + row - 2 * w.layout.hidden)] = of_recurrence[row];
      } else {
        bias += of_recurrence[row];
      }
    }
  }
}

// ---- running

class RecurrentLaunch final : public Launch {
 public:
  RecurrentLaunch(const ops::Recurrent& op, const Weights& given, const KernelShapes& shapes)
      : own_(given.projection ? nullptr : std::make_unique<Own>(given)),
        weights_(own_ ? own_->weights : given),
        activations_per_direction_(ops::activations_per_direction(op.cell)) {
    const Weights& weights = weights_;
    const Dims& x = shapes.inputs[in_x].dims;
    const int64_t hidden = weights.layout.hidden, directions = weights.directions;
    require_equal(x[2], weights.in, "the last size of a recurrent layer's input");
    check(shapes, in_lengths, {x[1]}, "the lengths of a recurrent layer's sequences");
    check(shapes, in_h, {directions, x[1], hidden}, "the initial h of a recurrent layer");
    check(shapes, in_c, {directions, x[1], hidden}, "the initial c of a recurrent layer");
    check(shapes, in_peepholes, {directions, 3 * hidden}, "the peepholes of a recurrent layer");
    const int64_t gates = weights.layout.gates() * hidden;
    check(shapes, in_weights, {directions, gates, weights.in}, "the weights of a recurrent layer");
    check(shapes, in_recurrence, {directions, gates, hidden}, "the recurrence weights of a recurrent layer");
    check(shapes, in_biases, {directions, 2 * gates}, "the biases of a recurrent layer");
    args_.layout = weights.layout;
    args_.time = x[0];
    args_.batch = x[1];
    args_.y_step = directions * args_.batch * hidden;
    args_.clip = static_cast<float>(op.clip);
    args_.input_forget = op.input_forget;
    for (size_t i = 0; i < op.activations.size(); ++i)
      activations_.push_back(
          {*function_of(op.activations[i]), static_cast<float>(op.alphas[i]), static_cast<float>(op.betas[i])});
    for (size_t d = 0; d < static_cast<size_t>(directions); ++d) {
      RecurrentDirection direction;
      direction.reverse = is_reverse(op, d);
      const auto at = static_cast<int64_t>(d);
      std::copy_n(&activations_[d * activations_per_direction_], activations_per_direction_, direction.activations);
      direction.recurrence = weights.recurrence + at * weights.layout.packed_floats();
      direction.reset_bias = weights.reset_biases.data() + at * weights.layout.padded();
      directions_.push_back(direction);
    }
    // The projected inputs of enough steps for a product of full speed, and of few enough to stay in cache.
    const int64_t rows = std::max<int64_t>(48, (int64_t{1} << 18) / weights.layout.columns());
    stretch_ = std::clamp<int64_t>(rows / std::max<int64_t>(1, args_.batch), 1, std::max<int64_t>(1, args_.time));
    // Parts of the workspace.
    state_floats_ = whole_lines(args_.batch * weights.layout.padded());
    projected_floats_ = whole_lines(stretch_ * args_.batch * weights.layout.columns());
    has_y_ = !shapes.outputs.empty() && shapes.outputs[0].dims.size() == 4;
    y_floats_ = has_y_ ? 0 : whole_lines(args_.time * args_.y_step);
    for (const int64_t steps : {stretch_, args_.time % stretch_})
      gemm_bytes_ = std::max(
          gemm_bytes_, gemm_workspace_bytes(steps * args_.batch, weights.layout.columns(), weights.in, shapes.threads));
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>((whole_lines(weights_.layout.hidden) +
                                weights_.directions * (3 * state_floats_ + projected_floats_) + y_floats_) *
                                   4 +
                               gemm_bytes_);
  }

  void run(const LaunchArguments& a) override {
    if (own_) own_->pack(input<float>(a, in_weights), input<float>(a, in_recurrence), input<float>(a, in_biases));
    place(a);
    for (int64_t done = 0; done == 0 || done < args_.time; done += stretch_) {
      const int64_t steps = std::min(stretch_, args_.time - done);
      if (a.cancellation) a.cancellation->check("running a recurrent layer");
      for (const RecurrentDirection& direction : directions_) project(a, direction, done, steps);
      run_recurrent(args_, done, steps, a.pool);
    }
    const int64_t state = args_.batch * weights_.layout.hidden;
    for (size_t d = 0; d < directions_.size(); ++d) {
      const auto at = static_cast<int64_t>(d) * state;
      if (a.outputs.size() > 1 && a.outputs[1]) final_h(args_, directions_[d], output<float>(a, 1) + at);
      if (a.outputs.size() > 2 && a.outputs[2]) final_c(args_, directions_[d], output<float>(a, 2) + at);
    }
  }

 private:
  // Weights that are no constants, packed anew in each run.
  struct Own {
    explicit Own(const Weights& sizes) : weights(sizes) {
      projection.resize(static_cast<size_t>(weights.directions * weights.projection_layout.floats()));
      recurrence.resize(static_cast<size_t>(weights.directions * weights.layout.packed_floats()));
      ordered.reserve(static_cast<size_t>(weights.layout.columns() * weights.in));
      weights.projection = projection.data();
      weights.recurrence = recurrence.data();
      add_biases(weights, nullptr);
    }
    void pack(const float* input_weights, const float* recurrence_weights, const float* biases) {
      pack_projection(weights, input_weights, projection.data(), ordered);
      pack_recurrences(weights, recurrence_weights, recurrence.data());
      if (biases) add_biases(weights, biases);
    }
    Weights weights;
    std::vector<float> projection, recurrence, ordered;
  };

  // Of floats, in whole cache lines.
  static int64_t whole_lines(int64_t floats) { return round_up(floats, 16); }

  static void check(const KernelShapes& shapes, size_t i, const Dims& wanted, const char* what) {
    if (i >= shapes.inputs.size() || shapes.inputs[i].dims.size() != wanted.size()) return;
    for (size_t axis = 0; axis < wanted.size(); ++axis) require_equal(shapes.inputs[i].dims[axis], wanted[axis], what);
  }

  // The operands' addresses of this run.
  void place(const LaunchArguments& a) {
    const int64_t hidden = weights_.layout.hidden, state = args_.batch * hidden;
    auto* free = reinterpret_cast<float*>(a.workspace);
    const auto take = [&](int64_t floats) {
      float* taken = free;
      free += floats;
      return taken;
    };
    float* zeros = take(whole_lines(hidden));
    std::fill_n(zeros, hidden, 0.0f);
    args_.zeros = zeros;
    args_.lengths = input<int32_t>(a, in_lengths);
    for (int64_t b = 0; args_.lengths && b < args_.batch; ++b)
      if (args_.lengths[b] < 0 || args_.lengths[b] > args_.time)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("sequence_lens[{}] is {}, the input has {} steps", b, args_.lengths[b], args_.time));
    float* y = has_y_ && a.outputs[0] ? output<float>(a, 0) : nullptr;
    if (!has_y_) y = take(y_floats_);
    for (size_t d = 0; d < directions_.size(); ++d) {
      RecurrentDirection& direction = directions_[d];
      const auto at = static_cast<int64_t>(d);
      const auto of_direction = [&](size_t i, int64_t floats) {
        const auto* base = input<float>(a, i);
        return base ? base + at * floats : nullptr;
      };
      direction.initial_h = of_direction(in_h, state);
      direction.initial_c = of_direction(in_c, state);
      direction.peepholes = of_direction(in_peepholes, 3 * hidden);
      direction.y = y + at * state;
      direction.c = take(state_floats_);
      direction.update = take(state_floats_);
      direction.reset_h = take(state_floats_);
      direction.projected = take(projected_floats_);
    }
    args_.directions = directions_;
    gemm_workspace_ = free;
  }

  void project(const LaunchArguments& a, const RecurrentDirection& direction, int64_t done, int64_t steps) const {
    const auto d = &direction - directions_.data();
    const int64_t first = direction.reverse ? args_.time - done - steps : done;
    GemmArgs gemm_args;
    gemm_args.m = steps * args_.batch;
    gemm_args.n = gemm_args.ldc = weights_.layout.columns();
    gemm_args.k = gemm_args.lda = weights_.in;
    gemm_args.a = input<float>(a, in_x) + first * args_.batch * weights_.in;
    gemm_args.packed_b = weights_.projection + d * weights_.projection_layout.floats();
    gemm_args.c = const_cast<float*>(direction.projected);
    gemm_args.epilogue.bias = weights_.biases.data() + d * weights_.layout.columns();
    gemm(gemm_args, a.pool, gemm_workspace_);
  }

  std::unique_ptr<Own> own_;
  const Weights& weights_;
  const size_t activations_per_direction_;
  std::vector<RecurrentActivation> activations_;
  std::vector<RecurrentDirection> directions_;
  RecurrentSteps args_;
  int64_t stretch_ = 1, state_floats_ = 0, projected_floats_ = 0, y_floats_ = 0, gemm_bytes_ = 0;
  bool has_y_ = true;
  float* gemm_workspace_ = nullptr;
};

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(ops::Recurrent op, Weights weights) : op_(std::move(op)), weights_(std::move(weights)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<RecurrentLaunch>(op_, weights_, shapes);
  }
  bool reads_input(size_t i) const override { return !weights_.projection || (i != in_weights && i != in_recurrence); }

 private:
  ops::Recurrent op_;
  Weights weights_;
};

// ---- the tactic

bool has_constant_weights(const RegionView& region) {
  const bool has_biases = region.node.inputs.size() > in_biases && region.node.inputs[in_biases] != no_value;
  return region.graph.is_constant(region.node.inputs[in_weights]) &&
         region.graph.is_constant(region.node.inputs[in_recurrence]) && (!has_biases || region.constant(in_biases));
}

std::optional<double> estimate_recurrent(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Recurrent>();
  if (!op) return std::nullopt;
  const auto has = [&](size_t i) { return i < region.node.inputs.size() && region.node.inputs[i] != no_value; };
  for (const size_t i : {in_x, in_weights, in_recurrence, in_biases, in_h, in_c, in_peepholes})
    if (has(i) && region.graph.type(region.node.inputs[i]).dtype != DType::f32) return std::nullopt;
  // Constants all, or none that is known to be one: then sizes must be known.
  if (!has_constant_weights(region))
    for (const size_t i : {in_weights, in_recurrence})
      for (const Dim& d : region.graph.shape(region.node.inputs[i]))
        if (!d.is_constant()) return std::nullopt;
  for (const std::string& name : op->activations)
    if (!function_of(name)) return std::nullopt;
  const Shape& x = region.graph.shape(region.node.inputs[in_x]);
  const double rows = size_at_optimum(region, x[0]) * size_at_optimum(region, x[1]);
  const double weights = elements_at_optimum(region, region.node.inputs[in_weights]) +
                         elements_at_optimum(region, region.node.inputs[in_recurrence]);
  if (weights == 0) return std::nullopt;
  return seconds_per_launch * (1 + size_at_optimum(region, x[0])) + 2 * rows * weights * seconds_per_flop;
}

std::shared_ptr<const Kernel> compile_recurrent(const RegionView& region, PackedConstants& constants) {
  const auto* op = region.node.op.as<ops::Recurrent>();
  const Value& raw = region.graph.value(region.node.inputs[in_weights]);
  const Value& recurrence = region.graph.value(region.node.inputs[in_recurrence]);
  const bool packs = has_constant_weights(region);
  const auto size = [&](const Value& value, size_t axis) {
    return packs ? value.constant->dims()[axis] : value.type.shape[axis].value();
  };
  Weights w;
  w.layout = recurrent_layout(cell_of(*op), size(recurrence, 2));
  w.directions = size(recurrence, 0);
  w.in = size(raw, 2);
  w.projection_layout = packed_layout(w.in, w.layout.columns());
  if (!packs) return std::make_shared<RecurrentKernel>(*op, std::move(w));
  w.projection = reinterpret_cast<const float*>(
      constants
          .get(raw.name, layout_text(projection_numbers, w), *raw.constant,
               static_cast<size_t>(w.directions * w.projection_layout.floats()) * sizeof(float),
               [&](const Tensor& t, std::byte* out) {
                 std::vector<float> ordered;
                 pack_projection(w, t.as<float>(), reinterpret_cast<float*>(out), ordered);
               })
          .data());
  w.recurrence = reinterpret_cast<const float*>(
      constants
          .get(recurrence.name, layout_text(recurrence_numbers, w), *recurrence.constant,
               static_cast<size_t>(w.directions * w.layout.packed_floats()) * sizeof(float),
               [&](const Tensor& t, std::byte* out) {
                 pack_recurrences(w, t.as<float>(), reinterpret_cast<float*>(out));
               })
          .data());
  const Tensor* biases = region.constant(in_biases);
  add_biases(w, biases ? biases->as<float>() : nullptr);
  return std::make_shared<RecurrentKernel>(*op, std::move(w));
}

}  // namespace

const CpuTactic recurrent_tactic{"recurrent", estimate_recurrent, compile_recurrent};

Tensor unpack_recurrent(const PackedConstant& packed, DType dtype, const Dims& dims) {
  Weights w;
  const bool projection = read_layout_text(packed.layout, projection_numbers, w);
  if (!projection && !read_layout_text(packed.layout, recurrence_numbers, w)) return {};
  if (w.layout.cell > RecurrentCell::lstm || dtype != DType::f32 || dims.size() != 3 || w.layout.lanes < 1 ||
      w.layout.lanes > 4096)
    throw_misfit(packed, dims);
  w.projection_layout.k = w.in;
  const bool fits = dims[0] == w.directions && w.layout.hidden > 0 && dims[1] % w.layout.gates() == 0 &&
                    dims[1] / w.layout.gates() == w.layout.hidden && dims[2] == (projection ? w.in : w.layout.hidden);
  const PackedLayout& p = w.projection_layout;
  if (!fits || (projection && !p.has_possible_panels())) throw_misfit(packed, dims);
  w.projection_layout.n = w.layout.columns();
  const int64_t floats = w.directions * (projection ? p.floats() : w.layout.packed_floats());
  if (packed.bytes.size() != static_cast<size_t>(floats) * sizeof(float)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  const auto* from = reinterpret_cast<const float*>(packed.bytes.data());
  if (projection) {
    unpack_projection(w, from, raw.as_mutable<float>());
  } else {
    for (int64_t d = 0; d < w.directions; ++d)
      unpack_recurrence(w.layout, from + d * w.layout.packed_floats(),
                        raw.as_mutable<float>() + d * w.layout.gates() * w.layout.hidden * w.layout.hidden);
  }
  return raw;
}

}  // namespace camshaft::cpu
