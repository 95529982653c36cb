// No memory is asked for once a context has seen a shape. malloc itself is counted, for all threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "reference/random_tensor.h"
#include "runtime/support.h"

#if defined(CAMSHAFT_SANITIZED)
#define CAMSHAFT_COUNTS_ALLOCATIONS 0  // the sanitizers have an allocator of their own
#else
#define CAMSHAFT_COUNTS_ALLOCATIONS 1

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};
void count() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

// glibc lets a program define these over its own, which stay reachable under other names.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

__attribute__((visibility("default"))) void* malloc(size_t size) {
  count();
  return __libc_malloc(size);
}
__attribute__((visibility("default"))) void* calloc(size_t number, size_t size) {
  count();
  return __libc_calloc(number, size);
}
__attribute__((visibility("default"))) void* realloc(void* old, size_t size) {
  count();
  return __libc_realloc(old, size);
}
__attribute__((visibility("default"))) void* aligned_alloc(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}
}
#endif

namespace camshaft::allocation_test {
namespace {

#if CAMSHAFT_COUNTS_ALLOCATIONS
class Counted {
 public:
  Counted() {
    allocations = 0;
    counting = true;
  }
  ~Counted() { counting = false; }
  int64_t number() const { return allocations; }
};

TEST(Allocations, TheCounterCounts) {
  const Counted counted;
  void* volatile memory = std::malloc(10);
  std::free(memory);
  auto* volatile number = new int(3);
  delete number;
  EXPECT_GE(counted.number(), 2);
}

TEST(Allocations, NoneAfterTheFirstRun) {
  Random random = test_random();
  const Engine engine = engine_from(small_model);
  for (const int threads : {1, 2}) {
    Context context = engine.create_context({threads});
    const Tensor small = random_tensor(random, DType::f32, {1, 6, 5, 4});
    const Tensor large = random_tensor(random, DType::f32, {4, 6, 40, 4});
    const std::vector<int64_t> small_dims = small.dims(), large_dims = large.dims();
    std::vector<float> logits(4 * 5);
    context.bind_output("logits", logits.data(), logits.size() * sizeof(float));
    for (int round = 0; round < 2; ++round)
      for (const Tensor* x : {&small, &large}) {
        context.set_input("x", x->dims(), x->data());
        context.run();
      }
    const Counted counted;
    for (int round = 0; round < 3; ++round) context.run();
    EXPECT_EQ(counted.number(), 0) << threads << " threads, same shape";
    for (int round = 0; round < 3; ++round) {
      context.set_input("x", small_dims, small.data());
      context.run();
      context.set_input("x", large_dims, large.data());
      context.run();
    }
    EXPECT_EQ(counted.number(), 0) << threads << " threads, known shapes in turn";
  }
}

TEST(Allocations, NoneForWhatIsKept) {
  Random random = test_random();
  const Engine engine = engine_from(R"(graph (%x: f32[n, 3]) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    %count = dims {elements=shape(n), scalar=true} ()
    %r = range (%zero, %count, %one)
    %f = cast {to=f32} (%r)
    %s = softmax {axis=0} (%f)
    %t = transpose {permutation=[1, 0]} (%x)
    %y = pointwise {function=mul} (%t, %s)
    return "y" = %y
  })");
  Context context = engine.create_context({1});
  const std::vector<Tensor> inputs = {random_tensor(random, DType::f32, {4, 3}),
                                      random_tensor(random, DType::f32, {400, 3})};
  const std::vector<int64_t> dims[] = {inputs[0].dims(), inputs[1].dims()};
  for (int round = 0; round < 4; ++round) {
    const Counted counted;
    for (size_t i = 0; i < 2; ++i) {
      context.set_input("x", dims[i], inputs[i].data());
      context.run();
    }
    if (round >= 2) {
      EXPECT_EQ(counted.number(), 0);
    }
  }
}

TEST(Allocations, NoneForContractionsWithEpiloguesAndMoves) {
  const Engine engine =
      engine_from(R"(graph (%x: f32[n, 9, 9, 16], %i: i64[3], %q: f32[n, 2, 7, 8], %k: f32[n, 2, 7, 8]) {
    const %w1: f32[16, 1, 3, 3] = 0.1
    const %w2: f32[16, 4, 3, 3] = 0.1
    const %w3: f32[16, 8, 2, 2] = 0.1
    const %b: f32[16] = 0.5
    const %scale: f32[8] = 2
    %d = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=16, channels_last=true} (%x, %w1, %b)
    %c = conv {strides=[2, 2], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=4, channels_last=true} (%d, %w2, %b)
    %t = conv_transpose {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], output_padding=shape(0, 0), channels_last=true} (%c, %w3)
    %sig = pointwise {function=sigmoid} (%t)
    %swish = pointwise {function=mul} (%t, %sig)
    %norm = group_norm {groups=2, channels_last=true} (%swish, %scale, %scale)
    %pool = pool {kind=average, kernel=[2, 2], strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%norm)
    %up = resize {mode=linear, axes=[1, 2], sizes=shape(10, 10)} (%pool)
    %first = transpose {permutation=[0, 3, 1, 2]} (%up)
    %pad = pad {pads=shape(0, 0, 1, 1, 0, 0, 1, 1)} (%first)
    %part = slice {axes=[2], starts=shape(10), counts=shape(5), steps=[-2]} (%pad)
    %picked = gather {axis=3} (%part, %i)
    %both = concat {axis=2} (%picked, %picked)
    %qk = matmul {transpose_b=true} (%q, %k)
    %attention = softmax {axis=3} (%qk)
    %top = arg_reduce {axis=3} (%attention)
    return "both" = %both, "attention" = %attention, "top" = %top
  })");
  Random random = test_random();
  const std::vector<Tensor> inputs = {random_tensor(random, DType::f32, {2, 9, 9, 16}), Tensor::from_ints({0, -1, 2}),
                                      random_tensor(random, DType::f32, {2, 2, 7, 8}),
                                      random_tensor(random, DType::f32, {2, 2, 7, 8})};
  for (const LayerInfo& layer : engine.layers()) EXPECT_NE(layer.tactic, "reference") << layer.name;
  for (const int threads : {1, 2}) {
    Context context = engine.create_context({threads});
    set_inputs(context, engine, inputs);
    for (int round = 0; round < 2; ++round) context.run();  // what runs on a device is recorded in the second
    const Counted counted;
    context.run();
    EXPECT_EQ(counted.number(), 0) << threads << " threads";
  }
}
#endif

}  // namespace
}  // namespace camshaft::allocation_test
