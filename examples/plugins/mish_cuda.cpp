// A plugin for GPUs: the operator example::Mish, x * tanh(log(1 + exp(x))). Its kernel is text, which Camshaft compiles
// for the GPU at hand; the launch is recorded with the layers around it. On a CPU the reference runs.
#include <algorithm>
#include <camshaft/plugin.hpp>
#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace {

struct Mish : camshaft::plugin::Operator {
  static constexpr const char *domain = "example", *name = "Mish", *version = "1.0";
  static constexpr camshaft::plugin::Types types[] = {{CAMSHAFT_F32}};
  static constexpr const char* cuda_text = R"(
extern "C" __global__ void mish(const float* x, float* y, long long n) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = x[i] * tanhf(x[i] > 20 ? x[i] : log1pf(expf(x[i])));
}
)";

  explicit Mish(const camshaft::plugin::Node&) {}

  void infer(camshaft::plugin::Shapes& shapes) const {
    if (shapes.inputs() != 1) throw std::runtime_error("Mish takes one operand");
    shapes.output(0, shapes.dtype(0), shapes.dims(0));
  }
  void run_cuda(const camshaft::plugin::Cuda& run) const {
    const auto* x = run.input(0).data<const float>();
    auto* y = run.output(0).data<float>();
    const long long n = run.input(0).size();
    const int64_t blocks = std::clamp<int64_t>((n + 255) / 256, 1, 8 * run.multiprocessors());
    run.launch("mish", blocks, 256, x, y, n);
  }
  void reference(const camshaft::plugin::Run& run) const {
    const auto* x = run.input(0).data<const float>();
    for (int64_t i = 0; i < run.input(0).size(); ++i)
      run.output(0).data<float>()[i] = static_cast<float>(x[i] * std::tanh(std::log1p(std::exp(double{x[i]}))));
  }
};

}  // namespace

CAMSHAFT_PLUGIN(Mish)
