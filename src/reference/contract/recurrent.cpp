// The reference evaluation of recurrent.
#include "ir/ops/recurrent.h"

#include <algorithm>

#include "base/pieces.h"
#include "ir/ops/recurrent_inputs.h"
#include "ir/ops/shape_rules.h"
#include "reference/contract/dot_rows.h"
#include "reference/contract/gemm.h"
#include "reference/contract/recurrent_function.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

using enum Recurrent::Input;

struct Sizes {
  int64_t time, batch, in, directions, hidden;
};

// Reads a parameter as an array of T: as it lies in memory where it can be.
template <class T>
class Array {
 public:
  explicit Array(const Tensor& tensor) {
    if (!tensor.defined()) return;
    constexpr DType own = std::is_same_v<T, float> ? DType::f32 : DType::f64;
    const auto address = reinterpret_cast<uintptr_t>(tensor.data());
    if (tensor.dtype() == own && address % alignof(T) == 0) {
      data_ = tensor.as<T>();
      return;
    }
    std::vector<double> wide(static_cast<size_t>(tensor.size()));
    load_elements(tensor.dtype(), tensor.data(), 0, 1, tensor.size(), wide.data());
    copy_.assign(wide.begin(), wide.end());
    data_ = copy_.data();
  }
  const T* at(int64_t i) const { return data_ + i; }

 private:
  const T* data_ = nullptr;
  std::vector<T> copy_;
};

std::vector<double> doubles(const EvalContext& context, size_t i, int64_t count) {
  std::vector<double> values(static_cast<size_t>(count), 0.0);
  if (context.has(i)) load_elements(context.input(i).dtype(), context.input(i).data(), 0, 1, count, values.data());
  return values;
}

struct ActivationFunction {
  RecurrentFunction function;
  double alpha, beta, clip;
  void operator()(double* x, int64_t count) const {
    if (clip > 0)
      for (int64_t i = 0; i < count; ++i) x[i] = x[i] < -clip ? -clip : x[i] > clip ? clip : x[i];
    function(x, count, alpha, beta);
  }
};

// The input's part of all gates of a stretch of time: x · Wᵀ + biases.
class InputProjection final : public GemmProblem<double> {
 public:
  InputProjection(const Tensor& x, const Tensor& weights, const std::vector<double>& biases, const Sizes& sizes,
                  std::vector<double>& out)
      : x_(x), weights_(weights), biases_(biases), sizes_(sizes), out_(out) {}

  /// Of direction d, `steps` steps from `first`; rows are [time][batch] and go to out[d].
  void set_range(int64_t steps, std::vector<int64_t> first, int64_t gates_size) {
    first_ = std::move(first);
    batches = sizes_.directions;
    m = steps * sizes_.batch;
    n = gates_size;
    k = sizes_.in;
    exact_products = x_.dtype() != DType::f64;
  }
  void load_a(int64_t d, int64_t row, int64_t first, int64_t count, double* to) const override {
    load_elements(x_.dtype(), x_.data(), (first_[static_cast<size_t>(d)] * sizes_.batch + row) * k + first, 1, count,
                  to);
  }
  void load_b(int64_t d, int64_t row, int64_t first, int64_t count, double* to) const override {
    load_elements(weights_.dtype(), weights_.data(), (d * n + first) * k + row, k, count, to);
  }
  void store(int64_t d, int64_t row, int64_t first, int64_t count, double* from) const override {
    double* to = &out_[static_cast<size_t>((d * m + row) * n + first)];
    const double* bias = &biases_[static_cast<size_t>(d * n + first)];
    for (int64_t i = 0; i < count; ++i) to[i] = from[i] + bias[i];
  }

 private:
  const Tensor &x_, &weights_;
  const std::vector<double>& biases_;
  const Sizes& sizes_;
  std::vector<double>& out_;
  std::vector<int64_t> first_;
};

// T: float, or double for f64 models.
template <class T>
class Layer {
 public:
  Layer(const Recurrent& op, const EvalContext& context, const Sizes& sizes)
      : op_(op),
        context_(context),
        sizes_(sizes),
        hidden_(sizes.hidden),
        gates_(gate_count(op.cell) * sizes.hidden),
        weights_(context.input(in_weights)),
        recurrence_(context.input(in_recurrence)),
        peepholes_(doubles(context, in_peepholes, sizes.directions * 3 * hidden_)),
        has_peepholes_(context.has(in_peepholes)),
        h_(doubles(context, in_h, sizes.directions * sizes.batch * hidden_)),
        c_(doubles(context, in_c, op.cell == CellKind::lstm ? sizes.directions * sizes.batch * hidden_ : 0)),
        lengths_(static_cast<size_t>(sizes.batch), sizes.time) {
    read_biases();
    if (context.has(in_lengths))
      for (int64_t b = 0; b < sizes.batch; ++b) {
        const int64_t length = context.input(in_lengths).as<int32_t>()[b];
        if (length < 0 || length > sizes.time)
          fail_rule("sequence_lens[{}] is {}, the input has {} steps", b, length, sizes.time);
        lengths_[static_cast<size_t>(b)] = length;
        if (length == 0) forget_state(b);
      }
    for (size_t i = 0; i < op.activations.size(); ++i)
      functions_.push_back({recurrent_function(op.activations[i]), op.alphas[i], op.betas[i], op.clip});
  }

  std::vector<Tensor> run() {
    const DType dtype = context_.input(in_x).dtype();
    Tensor y(dtype, {sizes_.time, sizes_.directions, sizes_.batch, hidden_});
    y_ = y.mutable_data();
    dtype_ = dtype;
    const int64_t rows = sizes_.directions * sizes_.batch;
    if (rows * gates_ > 0) {
      // The projections of some steps at a time bound the memory.
      constexpr int64_t most_elements = int64_t{1} << 21;
      const int64_t stretch =
          std::clamp<int64_t>(most_elements / (rows * gates_), 1, std::max<int64_t>(sizes_.time, 1));
      for (int64_t done = 0; done < sizes_.time; done += stretch)
        run_steps(done, std::min(stretch, sizes_.time - done));
    }
    std::vector<Tensor> results{std::move(y), state(dtype, h_)};
    if (op_.cell == CellKind::lstm) results.push_back(state(dtype, c_));
    return results;
  }

 private:
  void forget_state(int64_t b) {
    for (int64_t d = 0; d < sizes_.directions; ++d)
      for (std::vector<double>* state : {&h_, &c_})
        if (!state->empty())
          std::fill_n(&(*state)[static_cast<size_t>((d * sizes_.batch + b) * hidden_)], hidden_, 0.0);
  }

  // The biases of input and recurrence are added up, but for the hidden gate of a GRU that resets after the product.
  void read_biases() {
    const int64_t d = sizes_.directions;
    const std::vector<double> both = doubles(context_, in_biases, d * 2 * gates_);
    biases_.assign(static_cast<size_t>(d * gates_), 0);
    reset_bias_.assign(static_cast<size_t>(d * hidden_), 0);
    const bool apart = op_.cell == CellKind::gru && op_.linear_before_reset;
    for (int64_t i = 0; i < d * gates_; ++i) {
      const int64_t direction = i / gates_, gate = i % gates_;
      const double of_input = both[static_cast<size_t>(direction * 2 * gates_ + gate)];
      const double of_recurrence = both[static_cast<size_t>((direction * 2 + 1) * gates_ + gate)];
      const bool keep_apart = apart && gate >= 2 * hidden_;
      biases_[static_cast<size_t>(i)] = of_input + (keep_apart ? 0 : of_recurrence);
      if (keep_apart) reset_bias_[static_cast<size_t>(direction * hidden_ + gate - 2 * hidden_)] = of_recurrence;
    }
  }

  bool is_reverse(int64_t d) const {
    return op_.direction == Direction::reverse || (op_.direction == Direction::bidirectional && d == 1);
  }

  // Steps [done, done + steps) of the forward direction, and as many from the end for the reverse one.
  void run_steps(int64_t done, int64_t steps) {
    std::vector<int64_t> first;
    for (int64_t d = 0; d < sizes_.directions; ++d) first.push_back(is_reverse(d) ? sizes_.time - done - steps : done);
    project(steps, first);
    // Rows are independent. Where there are too few for the threads, these share the products of large layers instead.
    const int64_t rows = sizes_.directions * sizes_.batch;
    const int64_t work = steps * gates_ * (hidden_ + 32);
    share_products_ = rows < context_.pool.size() && gates_ * hidden_ >= (int64_t{1} << 18);
    const auto run_rows = [&](int64_t begin, int64_t end) {
      std::vector<double> scratch(static_cast<size_t>(gates_ + 2 * hidden_));
      for (int64_t row = begin; row < end; ++row) {
        const int64_t d = row / sizes_.batch, b = row % sizes_.batch;
        for (int64_t s = 0; s < steps; ++s) {
          const int64_t local = is_reverse(d) ? steps - 1 - s : s, time = first[static_cast<size_t>(d)] + local;
          if (time >= lengths_[static_cast<size_t>(b)]) continue;
          cancellation_point();
          step(d, b, &projected_[static_cast<size_t>(((d * steps + local) * sizes_.batch + b) * gates_)], scratch);
          store_elements(dtype_, y_, ((time * sizes_.directions + d) * sizes_.batch + b) * hidden_, 1, hidden_,
                         &h_[static_cast<size_t>(row * hidden_)]);
        }
      }
    };
    if (share_products_) {
      run_rows(0, rows);
    } else {
      constexpr int64_t worth_a_thread = 1 << 15;
      for_pieces(context_.pool, rows, worth_a_thread / std::max<int64_t>(work, 1) + 1, run_rows);
    }
  }

  void project(int64_t steps, const std::vector<int64_t>& first) {
    const Tensor& x = context_.input(in_x);
    projected_.resize(static_cast<size_t>(sizes_.directions * steps * sizes_.batch * gates_));
    constexpr int64_t rows_worth_packing = 6;
    if (steps * sizes_.batch >= rows_worth_packing) {
      InputProjection problem(x, context_.input(in_weights), biases_, sizes_, projected_);
      problem.set_range(steps, first, gates_);
      solve(problem, context_.pool);
      return;
    }
    std::vector<double> row(static_cast<size_t>(sizes_.in));
    share_products_ = gates_ * sizes_.in >= (int64_t{1} << 18);
    for (int64_t d = 0; d < sizes_.directions; ++d)
      for (int64_t r = 0; r < steps * sizes_.batch; ++r) {
        load_elements(x.dtype(), x.data(), (first[static_cast<size_t>(d)] * sizes_.batch + r) * sizes_.in, 1, sizes_.in,
                      row.data());
        double* out = &projected_[static_cast<size_t>((d * steps * sizes_.batch + r) * gates_)];
        std::copy_n(&biases_[static_cast<size_t>(d * gates_)], gates_, out);
        multiply(weights_.at(d * gates_ * sizes_.in), gates_, sizes_.in, row.data(), out);
      }
  }

  // out += matrix · x
  void multiply(const T* matrix, int64_t rows, int64_t columns, const double* x, double* out) const {
    if (!share_products_) return add_row_products(matrix, rows, columns, x, out);
    for_pieces(context_.pool, rows, 64, [&](int64_t begin, int64_t end) {
      add_row_products(matrix + begin * columns, end - begin, columns, x, out + begin);
    });
  }

  // One step of one row, from the projected input (which it overwrites) and the state, which it replaces.
  void step(int64_t d, int64_t b, double* gates, std::vector<double>& scratch) {
    const T* r = recurrence_.at(d * gates_ * hidden_);
    const int64_t row = (d * sizes_.batch + b) * hidden_;
    double* h = &h_[static_cast<size_t>(row)];
    const ActivationFunction* f = &functions_[static_cast<size_t>(d) * activations_per_direction(op_.cell)];
    switch (op_.cell) {
      case CellKind::rnn:
        multiply(r, hidden_, hidden_, h, gates);
        f[0](gates, hidden_);
        std::copy_n(gates, hidden_, h);
        break;
      case CellKind::gru:
        step_gru(r, f, &reset_bias_[static_cast<size_t>(d * hidden_)], h, gates, scratch);
        break;
      case CellKind::lstm:
        step_lstm(r, f, &peepholes_[static_cast<size_t>(d * 3 * hidden_)], h, &c_[static_cast<size_t>(row)], gates,
                  scratch);
        break;
    }
  }

  void step_gru(const T* r, const ActivationFunction* f, const double* reset_bias, double* h, double* gates,
                std::vector<double>& scratch) {
    double *update = gates, *reset = gates + hidden_, *next = gates + 2 * hidden_, *temporary = scratch.data();
    multiply(r, 2 * hidden_, hidden_, h, gates);
    f[0](update, 2 * hidden_);
    const T* r_next = r + 2 * hidden_ * hidden_;
    if (op_.linear_before_reset) {
      std::copy_n(reset_bias, hidden_, temporary);
      multiply(r_next, hidden_, hidden_, h, temporary);
      for (int64_t i = 0; i < hidden_; ++i) next[i] += reset[i] * temporary[i];
    } else {
      for (int64_t i = 0; i < hidden_; ++i) temporary[i] = reset[i] * h[i];
      multiply(r_next, hidden_, hidden_, temporary, next);
    }
    f[1](next, hidden_);
    for (int64_t i = 0; i < hidden_; ++i) h[i] = (1 - update[i]) * next[i] + update[i] * h[i];
  }

  void step_lstm(const T* r, const ActivationFunction* f, const double* peepholes, double* h, double* c, double* gates,
                 std::vector<double>& scratch) {
    double *input = gates, *output = gates + hidden_, *forget = gates + 2 * hidden_, *next = gates + 3 * hidden_;
    multiply(r, gates_, hidden_, h, gates);
    if (has_peepholes_)
      for (int64_t i = 0; i < hidden_; ++i) {
        input[i] += peepholes[i] * c[i];
        forget[i] += peepholes[2 * hidden_ + i] * c[i];
      }
    f[0](input, hidden_);
    if (op_.input_forget) {
      for (int64_t i = 0; i < hidden_; ++i) forget[i] = 1 - input[i];
    } else {
      f[0](forget, hidden_);
    }
    f[1](next, hidden_);
    for (int64_t i = 0; i < hidden_; ++i) c[i] = forget[i] * c[i] + input[i] * next[i];
    if (has_peepholes_)
      for (int64_t i = 0; i < hidden_; ++i) output[i] += peepholes[hidden_ + i] * c[i];
    f[0](output, hidden_);
    double* squashed = scratch.data();
    std::copy_n(c, hidden_, squashed);
    f[2](squashed, hidden_);
    for (int64_t i = 0; i < hidden_; ++i) h[i] = output[i] * squashed[i];
  }

  Tensor state(DType dtype, const std::vector<double>& values) const {
    Tensor out(dtype, {sizes_.directions, sizes_.batch, hidden_});
    store_elements(dtype, out.mutable_data(), 0, 1, out.size(), values.data());
    return out;
  }

  const Recurrent& op_;
  const EvalContext& context_;
  const Sizes sizes_;
  const int64_t hidden_, gates_;
  const Array<T> weights_, recurrence_;
  const std::vector<double> peepholes_;
  const bool has_peepholes_;
  std::vector<double> h_, c_;  // [d][batch][hidden]
  std::vector<int64_t> lengths_;
  std::vector<double> biases_, reset_bias_;
  std::vector<ActivationFunction> functions_;
  std::vector<double> projected_;  // [d][time][batch][gates]
  bool share_products_ = false;
  DType dtype_ = DType::f32;
  std::byte* y_ = nullptr;
};

}  // namespace

std::vector<Tensor> Recurrent::evaluate(const EvalContext& context) const {
  check_fields(*this);
  const Dims& x = context.input(in_x).dims();
  const Sizes sizes{x[0], x[1], x[2], direction == Direction::bidirectional ? 2 : 1,
                    context.input(in_recurrence).dims()[2]};
  for (const auto& [i, dims] : wanted_shapes<int64_t>(*this, sizes.time, sizes.batch, sizes.in, sizes.hidden))
    if (context.has(i) && context.input(i).dims() != dims)
      fail_rule("{} must have the shape {}, it has {}", recurrent_input_names[i], to_string(dims),
                to_string(context.input(i).dims()));
  const DType dtype = context.input(in_x).dtype();
  const Dims y{sizes.time, sizes.directions, sizes.batch, sizes.hidden}, state{y[1], y[2], y[3]};
  check_fits_memory(dtype, y);
  check_fits_memory(DType::f64, state);  // as it is computed
  if (element_count(state) == 0) {       // any number of empty sequences
    std::vector<Tensor> results{Tensor(dtype, y), Tensor(dtype, state)};
    if (cell == CellKind::lstm) results.emplace_back(dtype, state);
    return results;
  }
  if (dtype == DType::f64) return Layer<double>(*this, context, sizes).run();
  return Layer<float>(*this, context, sizes).run();
}

}  // namespace camshaft::ops
