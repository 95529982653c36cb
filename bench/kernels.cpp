// GFLOP/s of the contraction kernels on the shapes of well-known models. Each iteration takes the next of several
// copies of the weights, together larger than L2, so that weights come from L3 or memory as they do inside a model.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/conv/conv_transpose.h"
#include "backends/cpu/kernels/conv/depthwise.h"
#include "backends/cpu/kernels/conv/winograd.h"
#include "backends/cpu/kernels/gemm/gemm.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {
namespace {

constexpr int64_t kColdBytes = 24 << 20;

struct Aligned {
  explicit Aligned(int64_t floats) : memory(static_cast<size_t>(floats) + 16, 0.25f) {}
  float* get() { return memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) / 4 % 16) % 16; }
  std::vector<float> memory;
};

void report(benchmark::State& state, double flops) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void matmul(benchmark::State& state) {
  const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  ThreadPool pool(static_cast<int>(state.range(3)));
  const PackedLayout layout = packed_layout(k, n);
  const int64_t stride = (layout.floats() + 15) / 16 * 16;
  const int64_t copies = std::max<int64_t>(1, std::min<int64_t>(16, kColdBytes / (stride * 4)));
  Aligned a(m * k), b(stride * copies), c(m * n);
  Aligned workspace(gemm_workspace_bytes(m, n, k, pool.size()) / 4);
  GemmArgs args;
  args.m = m, args.n = n, args.k = k, args.a = a.get(), args.lda = k, args.c = c.get(), args.ldc = n;
  int64_t copy = 0;
  for (auto _ : state) {
    args.packed_b = b.get() + copy * stride;
    gemm(args, pool, workspace.get());
    benchmark::ClobberMemory();
    copy = (copy + 1) % copies;
  }
  report(state, 2.0 * static_cast<double>(m * k * n));
}
BENCHMARK(matmul)
    ->ArgNames({"m", "k", "n", "threads"})
    ->Args({128, 768, 768, 1})
    ->Args({128, 768, 3072, 1})
    ->Args({128, 3072, 768, 1})
    ->Args({32, 768, 3072, 1})
    ->Args({256, 768, 768, 1})
    ->Args({512, 512, 512, 1})
    ->Args({1, 768, 3072, 1})
    ->Args({4, 768, 3072, 1})
    ->Args({8, 768, 3072, 1})
    ->Args({3136, 64, 64, 1})
    ->Args({3136, 64, 256, 1})
    ->Args({3136, 256, 64, 1})
    ->Args({784, 512, 128, 1})
    ->Args({784, 128, 512, 1})
    ->Args({196, 1024, 256, 1})
    ->Args({196, 256, 1024, 1})
    ->Args({49, 2048, 512, 1})
    ->Args({49, 512, 2048, 1})
    ->Args({12544, 32, 16, 1})
    ->Args({12544, 16, 96, 1})
    ->Args({3136, 144, 24, 1})
    ->Args({128, 768, 768, 2})
    ->Args({128, 768, 3072, 2})
    ->Args({3136, 256, 64, 2});

// Attention over 12 heads: Q * K^T (transposed B) and P * V, operands in place in [sequence, head, depth].
void attention_product(benchmark::State& state) {
  const int64_t sequence = state.range(0), depth = 64, heads = 12;
  const bool scores = state.range(1) == 0;
  ThreadPool pool(1);
  Aligned x(sequence * heads * depth), p(heads * sequence * sequence), y(heads * sequence * std::max(sequence, depth));
  BatchGemmArgs args;
  args.batch = heads, args.inner_batch = heads, args.m = sequence;
  args.n = scores ? sequence : depth;
  args.k = scores ? depth : sequence;
  args.a = scores ? x.get() : p.get();
  args.a_row_stride = scores ? heads * depth : sequence;
  args.a_inner_stride = scores ? depth : sequence * sequence;
  args.b = x.get(), args.b_inner_stride = depth;
  args.b_k_stride = scores ? 1 : heads * depth;
  args.b_n_stride = scores ? heads * depth : 1;
  args.c = y.get();
  args.c_row_stride = scores ? sequence : heads * depth;
  args.c_inner_stride = scores ? sequence * sequence : depth;
  Aligned workspace(batch_gemm_workspace_bytes(args, 1) / 4);
  for (auto _ : state) {
    batch_gemm(args, pool, workspace.get());
    benchmark::ClobberMemory();
  }
  report(state, 2.0 * static_cast<double>(heads * sequence * sequence * depth));
}
BENCHMARK(attention_product)
    ->ArgNames({"sequence", "values"})
    ->Args({128, 0})
    ->Args({128, 1})
    ->Args({197, 0})
    ->Args({197, 1});

// Square image, square kernel, padding that keeps the size.
ConvShape square(int64_t in_channels, int64_t out_channels, int64_t kernel, int64_t stride, int64_t size) {
  ConvShape s;
  s.in_h = s.in_w = size;
  s.in_channels = in_channels, s.out_channels = out_channels;
  s.kernel_h = s.kernel_w = kernel, s.stride_h = s.stride_w = stride;
  s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = kernel / 2;
  return s;
}

double flops(const ConvShape& s) {
  return 2.0 * static_cast<double>(s.batch * s.out_h() * s.out_w() * s.out_channels * (s.in_channels / s.groups) *
                                   s.kernel_h * s.kernel_w);
}

void convolution(benchmark::State& state) {
  ConvShape s = square(state.range(0), state.range(1), state.range(2), state.range(3), state.range(4));
  s.groups = state.range(5);
  ThreadPool pool(static_cast<int>(state.range(6)));
  const ConvWeights w = conv_weights(s.out_channels, s.in_channels / s.groups, s.kernel_h, s.kernel_w, s.groups);
  const int64_t copies = std::max<int64_t>(1, std::min<int64_t>(16, kColdBytes / (w.floats() * 4)));
  Aligned input(s.in_h * s.in_w * s.in_channels), output(s.out_h() * s.out_w() * s.out_channels);
  Aligned weights(w.floats() * copies);
  const ConvPlan plan(s);
  Aligned workspace(plan.workspace_bytes(pool.size()) / 4);
  int64_t copy = 0;
  for (auto _ : state) {
    conv(plan, input.get(), weights.get() + copy * w.floats(), output.get(), {}, pool, workspace.get());
    benchmark::ClobberMemory();
    copy = (copy + 1) % copies;
  }
  report(state, flops(s));
}
BENCHMARK(convolution)
    ->ArgNames({"in", "out", "kernel", "stride", "size", "groups", "threads"})
    ->Args({3, 64, 7, 2, 224, 1, 1})
    ->Args({3, 32, 3, 2, 224, 1, 1})
    ->Args({3, 64, 3, 1, 224, 1, 1})
    ->Args({64, 64, 3, 1, 56, 1, 1})
    ->Args({128, 128, 3, 1, 28, 1, 1})
    ->Args({256, 256, 3, 1, 14, 1, 1})
    ->Args({512, 512, 3, 1, 7, 1, 1})
    ->Args({128, 128, 3, 2, 56, 1, 1})
    ->Args({512, 512, 3, 2, 14, 1, 1})
    ->Args({256, 512, 1, 2, 56, 1, 1})
    ->Args({1024, 2048, 1, 2, 14, 1, 1})
    ->Args({64, 64, 1, 1, 56, 1, 1})
    ->Args({2048, 512, 1, 1, 7, 1, 1})
    ->Args({512, 512, 3, 1, 28, 1, 1})
    ->Args({128, 128, 3, 1, 56, 32, 1})
    ->Args({64, 64, 3, 1, 56, 1, 2})
    ->Args({512, 512, 3, 1, 7, 1, 2});

// Rates count the multiplications of the direct method, so that they compare with those above.
void winograd_convolution(benchmark::State& state) {
  const ConvShape s = square(state.range(0), state.range(1), 3, 1, state.range(2));
  ThreadPool pool(static_cast<int>(state.range(3)));
  const WinogradWeights w = winograd_weights(state.range(4), s.out_channels, s.in_channels);
  const int64_t copies = std::max<int64_t>(1, std::min<int64_t>(16, kColdBytes / (w.floats() * 4)));
  Aligned input(s.in_h * s.in_w * s.in_channels), output(s.out_h() * s.out_w() * s.out_channels);
  Aligned weights(w.floats() * copies);
  Aligned workspace(winograd_workspace_bytes(w.tile, s, pool.size()) / 4);
  int64_t copy = 0;
  for (auto _ : state) {
    winograd(w, s, input.get(), weights.get() + copy * w.floats(), output.get(), {}, pool, workspace.get());
    benchmark::ClobberMemory();
    copy = (copy + 1) % copies;
  }
  report(state, flops(s));
}
BENCHMARK(winograd_convolution)
    ->ArgNames({"in", "out", "size", "threads", "tile"})
    ->Args({64, 64, 224, 1, 4})
    ->Args({256, 256, 56, 1, 4})
    ->Args({512, 512, 28, 1, 4})
    ->Args({512, 512, 14, 1, 4})
    ->Args({64, 64, 56, 1, 4})
    ->Args({64, 64, 56, 1, 2})
    ->Args({128, 128, 28, 1, 4})
    ->Args({128, 128, 28, 1, 2})
    ->Args({256, 256, 14, 1, 4})
    ->Args({256, 256, 14, 1, 2})
    ->Args({512, 512, 7, 1, 4})
    ->Args({512, 512, 7, 1, 2})
    ->Args({64, 64, 56, 2, 4})
    ->Args({256, 256, 14, 2, 4});

void depthwise_convolution(benchmark::State& state) {
  ConvShape s = square(state.range(0), state.range(0), state.range(1), state.range(2), state.range(3));
  s.groups = s.in_channels;
  ThreadPool pool(1);
  Aligned input(s.in_h * s.in_w * s.in_channels), output(s.out_h() * s.out_w() * s.out_channels);
  Aligned weights(depthwise_weight_floats(s.out_channels, s.kernel_h, s.kernel_w));
  for (auto _ : state) {
    depthwise(s, input.get(), weights.get(), output.get(), {}, pool);
    benchmark::ClobberMemory();
  }
  report(state, flops(s));
}
BENCHMARK(depthwise_convolution)
    ->ArgNames({"channels", "kernel", "stride", "size"})
    ->Args({32, 3, 1, 112})
    ->Args({96, 3, 2, 112})
    ->Args({144, 3, 1, 56})
    ->Args({384, 3, 1, 14})
    ->Args({960, 3, 1, 7})
    ->Args({240, 5, 2, 28})
    ->Args({672, 5, 1, 14});

void transposed_convolution(benchmark::State& state) {
  ConvTransposeShape s;
  s.in_channels = state.range(0), s.out_channels = state.range(1);
  s.kernel_h = s.kernel_w = state.range(2), s.stride_h = s.stride_w = 2;
  s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = (state.range(2) - 1) / 2;
  s.in_h = s.in_w = state.range(3);
  ThreadPool pool(1);
  const ConvTransposeWeights w = conv_transpose_weights(s);
  Aligned input(s.in_h * s.in_w * s.in_channels), output(s.out_h() * s.out_w() * s.out_channels), weights(w.floats());
  const ConvTransposePlan plan(s);
  Aligned workspace(plan.workspace_bytes(1) / 4);
  for (auto _ : state) {
    conv_transpose(plan, input.get(), weights.get(), output.get(), {}, pool, workspace.get());
    benchmark::ClobberMemory();
  }
  report(state, 2.0 * static_cast<double>(s.in_h * s.in_w * s.in_channels * s.out_channels * s.kernel_h * s.kernel_w));
}
BENCHMARK(transposed_convolution)
    ->ArgNames({"in", "out", "kernel", "size"})
    ->Args({128, 64, 2, 56})
    ->Args({256, 128, 4, 28});

}  // namespace
}  // namespace camshaft::cpu

BENCHMARK_MAIN();
