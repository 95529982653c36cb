// A plugin: the operator example::Swish, x * sigmoid(beta * x), in two ways of which builds take the faster one.
#include <camshaft/plugin.hpp>
#include <cmath>
#include <stdexcept>

namespace {

struct Swish : camshaft::plugin::Operator {
  static constexpr const char *domain = "example", *name = "Swish", *version = "1.0";
  static constexpr camshaft::plugin::Types types[] = {{CAMSHAFT_F32}};
  static constexpr size_t tactics = 2;

  explicit Swish(const camshaft::plugin::Node& node) : beta_(static_cast<float>(node.number("beta", 1))) {}

  void infer(camshaft::plugin::Shapes& shapes) const {
    if (shapes.inputs() != 1) throw std::runtime_error("Swish takes one operand");
    shapes.output(0, shapes.dtype(0), shapes.dims(0));
  }
  void run(const camshaft::plugin::Run& run) const {
    const auto* x = run.input(0).data<const float>();
    auto* y = run.output(0).data<float>();
    run.parallel_for(run.input(0).size(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        y[i] = run.tactic() == 0 ? x[i] / (1 + std::exp(-beta_ * x[i]))
                                 : x[i] * (0.5F + 0.5F * std::tanh(0.5F * beta_ * x[i]));
    });
  }
  void reference(const camshaft::plugin::Run& run) const {
    const auto* x = run.input(0).data<const float>();
    for (int64_t i = 0; i < run.input(0).size(); ++i)
      run.output(0).data<float>()[i] = static_cast<float>(x[i] / (1 + std::exp(-static_cast<double>(beta_) * x[i])));
  }

 private:
  float beta_;
};

}  // namespace

CAMSHAFT_PLUGIN(Swish)
