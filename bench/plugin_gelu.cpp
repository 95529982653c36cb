// GELU as a plugin that the compiler knows nothing of, for bench/plugins.py: erf by formula 7.1.26 of Abramowitz and
// Stegun (off by 1.5e-7), which the compiler turns into vectors.
#include <camshaft/plugin.hpp>
#include <cmath>

namespace {

float gelu(float x) {
  const float z = std::fabs(x) * 0.70710678F, t = 1 / (1 + 0.3275911F * z);
  const float p = ((((1.061405429F * t - 1.453152027F) * t + 1.421413741F) * t - 0.284496736F) * t + 0.254829592F) * t;
  const float erf = 1 - p * std::exp(-z * z);
  return 0.5F * x * (1 + std::copysign(erf, x));
}

struct Gelu : camshaft::plugin::Operator {
  static constexpr const char *domain = "opaque", *name = "Gelu", *version = "1";
  static constexpr camshaft::plugin::Types types[] = {{CAMSHAFT_F32}};
  explicit Gelu(const camshaft::plugin::Node&) {}
  void infer(camshaft::plugin::Shapes& shapes) const { shapes.output(0, shapes.dtype(0), shapes.dims(0)); }
  void run(const camshaft::plugin::Run& run) const {
    const auto* x = run.input(0).data<const float>();
    auto* y = run.output(0).data<float>();
    run.parallel_for(run.input(0).size(), 4096, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = gelu(x[i]);
    });
  }
  void reference(const camshaft::plugin::Run& run) const {
    const auto* x = run.input(0).data<const float>();
    for (int64_t i = 0; i < run.input(0).size(); ++i)
      run.output(0).data<float>()[i] = static_cast<float>(0.5 * x[i] * (1 + std::erf(x[i] * 0.7071067811865476)));
  }
};

}  // namespace

CAMSHAFT_PLUGIN(Gelu)
