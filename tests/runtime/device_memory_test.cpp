// The caller's memory on a GPU and the caller's streams. Without a GPU the emulated one runs these:
// scripts/emulate_gpu.sh.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/recording.h"
#include "backends/cuda/driver/stream.h"
#include "backends/cuda/libraries/libraries.h"
#include "reference/random_tensor.h"
#include "runtime/profiler.h"
#include "runtime/recorded_steps.h"
#include "runtime/support.h"

namespace camshaft::device_memory_test {
namespace {

/// What a program has that uses the GPU itself: a stream, and tensors in memory of its own.
class Gpu {
 public:
  Gpu() : device(cuda::driver_library().functions, 0) {}

  struct Array {
    cuda::DeviceBuffer buffer;
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  /// `offset`: bytes into the allocation, which is aligned to 256.
  Array make(size_t bytes, size_t offset = 0) const {
    Array array{cuda::DeviceBuffer(device, bytes + offset + 16, "a test"), nullptr, bytes};
    array.data = array.buffer.data() + offset;
    return array;
  }
  Array upload(const Tensor& tensor, size_t offset = 0) const {
    Array array = make(tensor.bytes(), offset);
    const cuda::Stream copies(device);
    copies.copy_to_device(array.data, {tensor.data(), tensor.bytes()});
    copies.synchronize();
    return array;
  }
  Tensor download(const std::byte* data, DType dtype, const Dims& dims) const {
    Tensor tensor(dtype, dims);
    const cuda::Stream copies(device);
    copies.copy_to_host({tensor.mutable_data(), tensor.bytes()}, data);
    copies.synchronize();
    return tensor;
  }
  Tensor download(const Array& array, DType dtype, const Dims& dims) const { return download(array.data, dtype, dims); }
  bool is_emulated() const { return device.facts().name.find("mulated") != std::string::npos; }

  cuda::Device device;
};

class DeviceMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (test_backend()->device().kind != "cuda")
      GTEST_SKIP() << "needs CAMSHAFT_TEST_DEVICE=cuda and a GPU, or scripts/emulate_gpu.sh";
    gpu = std::make_unique<Gpu>();
  }

  std::unique_ptr<Gpu> gpu;
  Random random = test_random();
};

void expect_close(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.dims(), expected.dims());
  const std::vector<double> a = actual.to_doubles(), e = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], 1e-4 * std::max(1.0, std::abs(e[i]))) << i;
}

Tensor filled(DType dtype, const Dims& dims, double value) {
  const auto count = static_cast<size_t>(element_count(dims));
  if (dtype == DType::i64) return Tensor::of(dtype, dims, std::vector<int64_t>(count, static_cast<int64_t>(value)));
  return Tensor::of(dtype, dims, std::vector<float>(count, static_cast<float>(value)));
}

std::vector<Tensor> reference(std::string_view model, const std::vector<Tensor>& inputs) {
  ThreadPool pool(1);
  return evaluate(parse_graph(model, operators()), inputs, pool);
}

template <class Call>
void expect_message(std::string_view text, Call&& call, ErrorCode code = ErrorCode::invalid_argument) {
  try {
    call();
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string_view(e.what()).find(text), std::string_view::npos) << e.what();
  }
}

constexpr std::string_view adder = R"(graph (%x: f32[n, 24], %y: f32[n, 24]) {
  const %w: f32[24, 16] = 0.25
  %a = pointwise {function=add} (%x, %y)
  %m = matmul (%a, %w)
  %t = transpose {permutation=[1, 0]} (%m)
  %r = reduce {kind=sum, axes=[0], keep_dims=false} (%t)
  return "m" = %m, "r" = %r
})";

// The cache of a decoder: nothing copies it, and the context has no room of that size.
TEST_F(DeviceMemory, OfAnInputThatIsUpdatedInPlace) {
  constexpr std::string_view decoder =
      R"(graph (%cache: f32[blocks, 2, 3], %rows: f32[tokens, 3], %slots: i64[tokens]) {
    %kept = paged_store {} (%cache, %rows, %slots)
    %seen = reduce {kind=sum, axes=[0, 1], keep_dims=false} (%kept)
    return "kept" = %kept, "seen" = %seen
  })";
  const Engine engine = engine_from(decoder);
  ASSERT_EQ(engine.outputs()[0].aliased_input, "cache");
  Context context = engine.create_context({1});
  constexpr int64_t blocks = 50000;
  Tensor expected = random_tensor(random, DType::f32, {blocks, 2, 3});
  const Gpu::Array cache = gpu->upload(expected);
  context.set_input("cache", expected.dims(), cache.data, DeviceId::gpu(0));
  context.bind_output("kept", cache.data, cache.bytes, DeviceId::gpu(0));
  for (int64_t step = 0; step < 4; ++step) {
    const Tensor rows = random_tensor(random, DType::f32, {1 + step % 3, 3});
    Tensor slots(DType::i64, {rows.dims()[0]});
    for (int64_t i = 0; i < slots.size(); ++i) slots.as_mutable<int64_t>()[i] = random.integer(-1, 2 * blocks - 1);
    context.set_input("rows", view_of(rows));
    context.set_input("slots", view_of(slots));
    context.run();
    expected = reference(decoder, {expected, rows, slots})[0];
    EXPECT_EQ(gpu->download(cache, DType::f32, expected.dims()), expected) << step;
    EXPECT_EQ(context.output("kept").data, cache.data);
  }
  EXPECT_LT(context.memory_bytes(), expected.bytes());
}

// Behind the run that was enqueued and in front of the next one, whichever streams these are in.
TEST_F(DeviceMemory, IsCopiedBetweenRuns) {
  const Engine engine = engine_from(adder);
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  const Dims dims = {5, 24};
  const Tensor x = random_tensor(random, DType::f32, dims), y = random_tensor(random, DType::f32, dims),
               other = random_tensor(random, DType::f32, dims);
  const Gpu::Array in = gpu->upload(x), beside = gpu->upload(y), out = gpu->make(5 * 16 * 4),
                   copy = gpu->make(5 * 16 * 4);
  context.set_input("x", dims, in.data, DeviceId::gpu(0));
  context.set_input("y", dims, beside.data, DeviceId::gpu(0));
  context.bind_output("m", out.data, out.bytes, DeviceId::gpu(0));
  Tensor first(DType::f32, {5, 16}), second(DType::f32, {5, 16});
  context.enqueue(stream.handle());
  context.copy(first.mutable_data(), DeviceId::host, out.data, DeviceId::gpu(0), first.bytes());
  context.copy(in.data, DeviceId::gpu(0), other.data(), DeviceId::host, other.bytes());
  context.enqueue(stream.handle());
  context.copy(copy.data, DeviceId::gpu(0), out.data, DeviceId::gpu(0), copy.bytes);
  context.copy(second.mutable_data(), DeviceId::host, copy.data, DeviceId::gpu(0), second.bytes());
  context.synchronize();
  expect_close(first, reference(adder, {x, y})[0]);
  expect_close(second, reference(adder, {other, y})[0]);
  std::byte here{};
  expect_message("the destination of a copy is said to be on",
                 [&] { context.copy(&here, DeviceId::gpu(1), out.data, DeviceId::gpu(0), 1); });
  expect_message("the source of a copy", [&] { context.copy(out.data, DeviceId::gpu(0), &here, DeviceId::gpu(0), 1); });
}

constexpr std::string_view doubling = R"(graph (%x: f32[n]) {
  %y = pointwise {function=add} (%x, %x)
  return "y" = %y
})";

// Results of a run are read while the next one computes, which takes them on the device.
TEST_F(DeviceMemory, OfARunIsReadWhileTheNextOneComputes) {
  const Engine engine = engine_from(doubling);
  Context context = engine.create_context({1});
  const auto queue = test_backend()->make_queue();
  constexpr size_t count = 1000, bytes = count * sizeof(float);
  const std::array<std::shared_ptr<std::byte>, 2> results = {queue->allocate_pinned(bytes, "a test"),
                                                             queue->allocate_pinned(bytes, "a test")};
  const Gpu::Array in = gpu->upload(filled(DType::f32, {count}, 1)), out = gpu->make(bytes);
  context.set_input("x", {count}, in.data, DeviceId::gpu(0));
  context.bind_output("y", out.data, bytes, DeviceId::gpu(0));
  context.synchronize_previous();  // there is none
  const auto start = [&](size_t step) {
    context.start();
    context.copy(results[step % 2].get(), DeviceId::host, out.data, DeviceId::gpu(0), bytes);
    context.copy(in.data, DeviceId::gpu(0), out.data, DeviceId::gpu(0), bytes);
  };
  start(0);
  for (size_t step = 0; step < 20; ++step) {
    start(step + 1);
    context.synchronize_previous();
    const auto* const numbers = reinterpret_cast<const float*>(results[step % 2].get());
    const float expected = std::ldexp(1.f, static_cast<int>(step) + 1);
    EXPECT_TRUE(std::all_of(numbers, numbers + count, [&](float number) { return number == expected; })) << step;
  }
  context.synchronize();
  EXPECT_EQ(gpu->download(in, DType::f32, {count}), filled(DType::f32, {count}, std::ldexp(1.f, 21)));
}

// Runs and copies that nobody waited for write what a run reads, small enough to pass through memory of the context's.
TEST_F(DeviceMemory, OfTheHostIsReadBehindWhatWritesIt) {
  const Engine engine = engine_from(doubling);
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  const auto queue = test_backend()->make_queue();
  constexpr size_t count = 3, bytes = count * sizeof(float);
  const auto first = queue->allocate_pinned(bytes, "a test"), second = queue->allocate_pinned(bytes, "a test");
  const auto numbers = [](const std::shared_ptr<std::byte>& at) {
    return std::vector<float>(reinterpret_cast<const float*>(at.get()),
                              reinterpret_cast<const float*>(at.get()) + count);
  };
  const Gpu::Array sevens = gpu->upload(filled(DType::f32, {count}, 7));
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    std::memset(first.get(), 0, bytes);
    std::memset(second.get(), 0, bytes);
    const Tensor ones = filled(DType::f32, {count}, 1);
    context.set_input("x", view_of(ones));
    context.bind_output("y", first.get(), bytes);
    context.enqueue(stream.handle());
    context.set_input("x", {count}, first.get());
    context.bind_output("y", second.get(), bytes);
    context.run();
    EXPECT_EQ(numbers(second), std::vector<float>(count, 4));
    context.copy(first.get(), DeviceId::host, sevens.data, DeviceId::gpu(0), bytes);
    context.run();
    EXPECT_EQ(numbers(second), std::vector<float>(count, 14));
  }
}

TEST_F(DeviceMemory, OfInputsAndOutputsInTheCallersStream) {
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  for (int round = 0; round < 8; ++round) {
    const Dims dims = {round % 2 == 0 ? 2 : 3, 6, 5, 4};
    const Tensor x = random_tensor(random, DType::f32, dims);
    // Aligned to the element and no more.
    const Gpu::Array in = gpu->upload(x, round % 3 * 4), out = gpu->make(static_cast<size_t>(dims[0]) * 20, 4);
    context.set_input("x", dims, in.data, DeviceId::gpu(0));
    context.bind_output("probabilities", out.data, out.bytes, DeviceId::gpu(0));
    void* const handle = round % 4 == 3 ? nullptr : stream.handle();
    context.enqueue(handle);
    context.synchronize();
    const std::vector<Tensor> expected = reference(small_model, {x});
    SCOPED_TRACE(round);
    expect_close(gpu->download(out, DType::f32, {dims[0], 5}), expected[0]);
    expect_close(output_of(context, "logits"), expected[1]);
    EXPECT_EQ(context.output("probabilities").data, out.data);
    EXPECT_EQ(context.output("probabilities").device, DeviceId::gpu(0));
    EXPECT_EQ(context.output("logits").device, DeviceId::host);
  }
}

TEST_F(DeviceMemory, RunWaits) {
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({1});
  context.bind_output("logits", nullptr, 0, DeviceId::gpu(0));
  for (const int64_t n : {2, 2, 2, 5}) {
    const Tensor x = random_tensor(random, DType::f32, {n, 6, 5, 4});
    const Gpu::Array in = gpu->upload(x);
    context.set_input("x", TensorView{DType::f32, x.dims(), in.data, in.bytes, {}, DeviceId::gpu(0)});
    context.run();
    const TensorView logits = context.output("logits");
    EXPECT_EQ(logits.device, DeviceId::gpu(0));
    expect_close(gpu->download(static_cast<const std::byte*>(logits.data), DType::f32, {n, 5}),
                 reference(small_model, {x})[1]);
  }
  const Tensor x = random_tensor(random, DType::f32, {2, 6, 5, 4});
  context.set_input("x", x.dims(), x.data());
  context.bind_output("logits", nullptr, 0);
  context.run();
  expect_close(output_of(context, "logits"), reference(small_model, {x})[1]);
}

TEST_F(DeviceMemory, BuffersInTurnAndNewOnes) {
  const Engine engine = engine_from(adder);
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  std::vector<Tensor> xs, ys;
  std::vector<Gpu::Array> x, y, m;
  for (int i = 0; i < 12; ++i) {
    xs.push_back(random_tensor(random, DType::f32, {4, 24}));
    ys.push_back(random_tensor(random, DType::f32, {4, 24}));
    x.push_back(gpu->upload(xs.back()));
    y.push_back(gpu->upload(ys.back()));
    m.push_back(gpu->make(4 * 16 * sizeof(float)));
  }
  for (int round = 0; round < 60; ++round) {
    const auto i = static_cast<size_t>(round < 20 ? round % 2 : round < 40 ? round % 12 : random.integer(0, 11));
    context.set_input("x", {4, 24}, x[i].data, DeviceId::gpu(0));
    context.set_input("y", {4, 24}, y[i].data, DeviceId::gpu(0));
    context.bind_output("m", m[i].data, m[i].bytes, DeviceId::gpu(0));
    context.bind_output("r", nullptr, 0, DeviceId::gpu(0));
    context.enqueue(stream.handle());
    stream.synchronize();
    const std::vector<Tensor> expected = reference(adder, {xs[i], ys[i]});
    SCOPED_TRACE(round);
    expect_close(gpu->download(m[i], DType::f32, {4, 16}), expected[0]);
    expect_close(gpu->download(static_cast<const std::byte*>(context.output("r").data), DType::f32, {4}), expected[1]);
  }
}

// Buffers that never come again: a recording is given the new ones, and what ran before keeps its own.
TEST_F(DeviceMemory, AlwaysOtherBuffers) {
  constexpr std::string_view model = R"(graph (%x: f32[4, 24], %y: f32[4, 24]) {
    const %w: f32[24, 24] = 0.05
    %a = softmax {axis=1} (%x)
    %b = matmul (%a, %w)
    %c = softmax {axis=1} (%b)
    %d = matmul (%c, %w)
    %e = softmax {axis=0} (%d)
    %f = matmul (%e, %w)
    %g = softmax {axis=1} (%f)
    %h = matmul (%g, %w)
    %i = softmax {axis=0} (%h)
    %j = matmul (%i, %w)
    %k = softmax {axis=1} (%j)
    %l = matmul (%k, %w)
    %m = pointwise {function=add} (%l, %y)
    return "m" = %m, "r" = %a
  })";
  const auto updates =
      reinterpret_cast<unsigned (*)()>(cuda::driver_library().file.symbol("emulatedUpdates"));  // null of a real GPU
  const unsigned before = updates ? updates() : 0;
  const Engine engine = engine_from(model);
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  std::vector<Tensor> xs, ys;
  std::vector<Gpu::Array> x, y, m;  // of all runs, so that none of their addresses is given twice
  for (int round = 0; round < 40; ++round) {
    xs.push_back(random_tensor(random, DType::f32, {4, 24}));
    ys.push_back(random_tensor(random, DType::f32, {4, 24}));
    // From a place of another alignment now and then: that is another kernel.
    x.push_back(gpu->upload(xs.back(), round == 25 ? 4 : 0));
    y.push_back(gpu->upload(ys.back()));
    m.push_back(gpu->make(4 * 24 * sizeof(float)));
    context.set_input("x", {4, 24}, x.back().data, DeviceId::gpu(0));
    context.set_input("y", {4, 24}, y.back().data, DeviceId::gpu(0));
    context.bind_output("m", m.back().data, m.back().bytes, DeviceId::gpu(0));
    context.bind_output("r", nullptr, 0, DeviceId::gpu(0));
    context.enqueue(stream.handle());
    if (round == 20 && updates) {
      EXPECT_GT(updates(), before + 10);
    }
  }
  stream.synchronize();
  for (size_t i = 0; i < m.size(); ++i) {
    SCOPED_TRACE(i);
    expect_close(gpu->download(m[i], DType::f32, {4, 24}), reference(model, {xs[i], ys[i]})[0]);
  }
}

// The emulated GPU does nothing before somebody waits for it.
TEST_F(DeviceMemory, EnqueueDoesNotWait) {
  if (!gpu->is_emulated()) GTEST_SKIP() << "whether a GPU is done already is its affair";
  const Engine engine = engine_from(adder);
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  const Gpu::Array ones = gpu->upload(filled(DType::f32, {3, 24}, 1)), m = gpu->make(3 * 16 * 4), r = gpu->make(12);
  context.set_input("x", {3, 24}, ones.data, DeviceId::gpu(0));
  context.set_input("y", {3, 24}, ones.data, DeviceId::gpu(0));
  context.bind_output("m", m.data, m.bytes, DeviceId::gpu(0));
  context.bind_output("r", r.data, r.bytes, DeviceId::gpu(0));
  const std::array<float, 3> sevens{7, 7, 7};
  for (int round = 0; round < 4; ++round) {
    const cuda::Stream other(gpu->device);
    other.copy_to_device(r.data, std::as_bytes(std::span(sevens)));
    other.synchronize();
    context.enqueue(stream.handle());
    EXPECT_EQ(gpu->download(r, DType::f32, {3}).to_doubles(), std::vector<double>(3, 7));
    context.synchronize();
    EXPECT_EQ(gpu->download(r, DType::f32, {3}).to_doubles(), std::vector<double>(3, 16 * 24 * 0.5));
  }
}

TEST_F(DeviceMemory, OneContextInSeveralStreams) {
  const Engine engine = engine_from(adder);
  Context context = engine.create_context({1});
  const cuda::Stream streams[] = {cuda::Stream(gpu->device), cuda::Stream(gpu->device)};
  std::vector<Gpu::Array> x, r;
  for (int i = 0; i < 6; ++i) {
    x.push_back(gpu->upload(filled(DType::f32, {2, 24}, i)));
    r.push_back(gpu->make(8));
  }
  context.bind_output("m", nullptr, 0, DeviceId::gpu(0));
  for (size_t round = 0; round < 18; ++round) {
    const size_t i = round % 6;
    context.set_input("x", {2, 24}, x[i].data, DeviceId::gpu(0));
    context.set_input("y", {2, 24}, x[i].data, DeviceId::gpu(0));
    context.bind_output("r", r[i].data, r[i].bytes, DeviceId::gpu(0));
    context.enqueue(round % 3 == 2 ? nullptr : streams[round % 3].handle());
    if (i != 5) continue;
    context.synchronize();
    for (int k = 0; k < 6; ++k)
      EXPECT_EQ(gpu->download(r[static_cast<size_t>(k)], DType::f32, {2}).to_doubles(),
                std::vector<double>(2, 16 * 24 * 0.5 * k));
  }
}

TEST_F(DeviceMemory, RunsInAGraphOfTheCallers) {
  const Engine engine = engine_from(adder);
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  const Gpu::Array x = gpu->make(4 * 24 * 4), y = gpu->make(4 * 24 * 4), m = gpu->make(4 * 16 * 4), r = gpu->make(16);
  const auto bind = [&] {
    context.set_input("x", {4, 24}, x.data, DeviceId::gpu(0));
    context.set_input("y", {4, 24}, y.data, DeviceId::gpu(0));
    context.bind_output("m", m.data, m.bytes, DeviceId::gpu(0));
    context.bind_output("r", r.data, r.bytes, DeviceId::gpu(0));
  };
  bind();
  context.enqueue(stream.handle());
  context.synchronize();
  cuda::Recording::begin(stream);
  context.enqueue(stream.handle());
  context.enqueue(stream.handle());  // the same again: a graph may hold several runs
  const cuda::Recording graph(stream);
  for (int round = 0; round < 40; ++round) {
    // Other runs of the context between: of larger shapes, which need more memory, and of many, which forget plans.
    if (round >= 10) {
      const int64_t n = round < 12 ? 64 : round;
      const Tensor other = random_tensor(random, DType::f32, {n, 24});
      context.set_input("x", other.dims(), other.data());
      context.set_input("y", other.dims(), other.data());
      context.bind_output("m", nullptr, 0);
      context.bind_output("r", nullptr, 0);
      context.run();
      expect_close(output_of(context, "m"), reference(adder, {other, other})[0]);
    }
    const Tensor a = random_tensor(random, DType::f32, {4, 24}), b = random_tensor(random, DType::f32, {4, 24});
    stream.copy_to_device(x.data, {a.data(), a.bytes()});
    stream.copy_to_device(y.data, {b.data(), b.bytes()});
    graph.launch(stream);
    stream.synchronize();
    const std::vector<Tensor> expected = reference(adder, {a, b});
    SCOPED_TRACE(round);
    expect_close(gpu->download(m, DType::f32, {4, 16}), expected[0]);
    expect_close(gpu->download(r, DType::f32, {4}), expected[1]);
  }
  bind();
  context.run();
}

// What depends on the sizes alone, layers of the host among it, is done before and no part of the graph.
TEST_F(DeviceMemory, WhatIsKeptIsReadInAGraphOfTheCallers) {
  constexpr std::string_view model = R"(graph (%x: f32[n, 24]) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    %count = dims {elements=shape(n), scalar=true} ()
    %positions = range (%zero, %count, %one)
    %numbers = cast {to=f32} (%positions)
    %shares = softmax {axis=0} (%numbers)
    %t = transpose {permutation=[1, 0]} (%x)
    %y = pointwise {function=mul} (%t, %shares)
    %r = reduce {kind=sum, axes=[1], keep_dims=false} (%y)
    return "r" = %r
  })";
  const Engine engine = engine_from(model);
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  const Gpu::Array x = gpu->make(4 * 24 * 4), r = gpu->make(24 * 4);
  context.set_input("x", {4, 24}, x.data, DeviceId::gpu(0));
  context.bind_output("r", r.data, r.bytes, DeviceId::gpu(0));
  const auto expect_right = [&](const std::function<void()>& run) {
    const Tensor given = random_tensor(random, DType::f32, {4, 24});
    stream.copy_to_device(x.data, {given.data(), given.bytes()});
    run();
    stream.synchronize();
    expect_close(gpu->download(r, DType::f32, {24}), reference(model, {given})[0]);
  };
  const auto enqueue = [&] { context.enqueue(stream.handle()); };
  for (int round = 0; round < 6; ++round) expect_right(enqueue);  // recorded by the context from the second on
  cuda::Recording::begin(stream);
  enqueue();
  const cuda::Recording graph(stream);
  for (int round = 0; round < 40; ++round) {
    if (round >= 10) {  // many other shapes, which forget plans and what is kept beside them
      const Tensor other = random_tensor(random, DType::f32, {round, 24});
      context.set_input("x", other.dims(), other.data());
      context.bind_output("r", nullptr, 0);
      context.run();
      expect_close(output_of(context, "r"), reference(model, {other})[0]);
    }
    expect_right([&] { graph.launch(stream); });
  }
}

// An error that is found when a run has returned is one of all that read what was kept then.
TEST_F(DeviceMemory, WhatWasKeptBeforeAnErrorIsComputedAgain) {
  const Engine engine = engine_from(R"(graph (%x: f32[n, 3]) {
    const %zero: i64[] = 0
    const %one: i64[] = 1
    const %table: f32[4, 3] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    %count = dims {elements=shape(n), scalar=true} ()
    %places = range (%zero, %count, %one)
    %rows = gather {axis=0} (%table, %places)
    %y = pointwise {function=mul} (%x, %rows)
    return "y" = %y
  })");
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  const Gpu::Array x = gpu->upload(filled(DType::f32, {6, 3}, 1)), y = gpu->make(6 * 3 * 4);
  context.set_input("x", {6, 3}, x.data, DeviceId::gpu(0));
  context.bind_output("y", y.data, y.bytes, DeviceId::gpu(0));
  for (int round = 0; round < 4; ++round) {
    context.enqueue(stream.handle());
    if (round % 2 == 1) context.enqueue(stream.handle());
    expect_message("is out of range for axis 0 of size 4", [&] { context.synchronize(); });
  }
}

// What cannot be recorded is named, and leaves the caller's recording and the context as they were.
TEST_F(DeviceMemory, RunsThatNoGraphCanHold) {
  const Engine engine = engine_from(adder);
  const cuda::Stream stream(gpu->device);
  const Tensor ones = filled(DType::f32, {3, 24}, 1);
  const Gpu::Array x = gpu->upload(ones), m = gpu->make(3 * 16 * 4), r = gpu->make(12);
  Context context = engine.create_context({1});
  context.set_input("x", {3, 24}, x.data, DeviceId::gpu(0));
  context.set_input("y", {3, 24}, x.data, DeviceId::gpu(0));
  context.bind_output("m", m.data, m.bytes, DeviceId::gpu(0));
  context.bind_output("r", r.data, r.bytes, DeviceId::gpu(0));
  const auto refuses = [&](std::string_view why, Context& of) {
    cuda::Recording::begin(stream);
    expect_message(why, [&] { of.enqueue(stream.handle()); });
    const cuda::Recording ended(stream);
    ended.launch(stream);
    stream.synchronize();
  };
  refuses("must have run with these input shapes, and with the weights that the engine has now, before", context);
  context.run();
  Profiler profiler;
  context.set_profiler(&profiler);
  refuses("no profiler and no taps", context);
  context.set_profiler(nullptr);
  context.set_input("x", ones.dims(), ones.data());
  refuses("copies between host and device, which cannot be recorded into a CUDA graph: bind inputs", context);
  context.set_input("x", {3, 24}, x.data, DeviceId::gpu(0));
  context.bind_output("m", nullptr, 0);
  refuses("copies between host and device", context);
  context.bind_output("m", nullptr, 0, DeviceId::gpu(0));
  refuses("taking memory cannot be recorded", context);
  context.run();
  cuda::Recording::begin(stream);
  context.enqueue(stream.handle());
  const cuda::Recording graph(stream);
  graph.launch(stream);
  stream.synchronize();
  expect_close(gpu->download(static_cast<const std::byte*>(context.output("m").data), DType::f32, {3, 16}),
               reference(adder, {ones, ones})[0]);

  const Engine on_host = engine_from(R"(graph (%x: f32[3, 24]) {
    %n = non_zero (%x)
    return "n" = %n
  })");
  Context host = on_host.create_context({1});
  host.set_input("x", {3, 24}, x.data, DeviceId::gpu(0));
  host.bind_output("n", nullptr, 0, DeviceId::gpu(0));
  host.run();
  refuses("recorded into a CUDA graph", host);
}

TEST_F(DeviceMemory, ContextsOnStreamsInParallel) {
  const Engine engine = engine_from(small_model);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const cuda::Stream stream(gpu->device);
      const Tensor x = filled(DType::f32, {1 + t, 6, 5, 4}, 0.1 * t);
      const Gpu::Array in = gpu->upload(x), out = gpu->make(static_cast<size_t>(1 + t) * 20);
      Context context = engine.create_context({1});
      context.set_input("x", x.dims(), in.data, DeviceId::gpu(0));
      context.bind_output("probabilities", out.data, out.bytes, DeviceId::gpu(0));
      for (int round = 0; round < 6; ++round) context.enqueue(stream.handle());
      stream.synchronize();
      expect_close(gpu->download(out, DType::f32, {1 + t, 5}), reference(small_model, {x})[0]);
    });
  for (std::thread& thread : threads) thread.join();
}

// Layers of the host before, between and after those of the device; an input that both read; an input that is an
// output; sizes that only running tells.
TEST_F(DeviceMemory, WithLayersOnTheHost) {
  constexpr std::string_view model = R"(graph (%x: f32[3, 4], %y: f32[3, 4]) {
    %a = pointwise {function=add} (%x, %y)
    %n = non_zero (%x)
    %k = non_zero (%a)
    %c = cast {to=f32} (%n)
    %s = pointwise {function=neg} (%a)
    return "n" = %n, "c" = %c, "s" = %s, "k" = %k, "same" = %x
  })";
  const Engine engine = engine_from(model);
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  for (int round = 0; round < 3; ++round) {
    Tensor x = random_tensor(random, DType::f32, {3, 4});
    for (int i = 0; i < 4; ++i) reinterpret_cast<float*>(x.mutable_data())[random.integer(0, 11)] = 0;
    const Tensor y = random_tensor(random, DType::f32, {3, 4});
    const std::vector<Tensor> expected = reference(model, {x, y});
    const Gpu::Array in = gpu->upload(x), in2 = gpu->upload(y, 4), n = gpu->make(200), c = gpu->make(200),
                     s = gpu->make(48), same = gpu->make(48);
    context.set_input("x", {3, 4}, in.data, DeviceId::gpu(0));
    context.set_input("y", {3, 4}, in2.data, DeviceId::gpu(0));
    context.bind_output("n", n.data, n.bytes, DeviceId::gpu(0));
    context.bind_output("c", c.data, c.bytes, DeviceId::gpu(0));
    context.bind_output("s", s.data, s.bytes, DeviceId::gpu(0));
    context.bind_output("k", nullptr, 0, DeviceId::gpu(0));
    context.bind_output("same", same.data, same.bytes, DeviceId::gpu(0));
    int taps = 0;
    context.set_tap("s", nullptr);
    if (round == 1) context.set_tap("s", [&](const TensorView& view) { taps += view.dims == expected[2].dims(); });
    if (round < 2) {
      context.enqueue(stream.handle());
      context.synchronize();
    } else {
      context.run();
    }
    EXPECT_EQ(taps, round == 1 ? 1 : 0);
    EXPECT_EQ(gpu->download(n, DType::i64, expected[0].dims()).to_doubles(), expected[0].to_doubles());
    EXPECT_EQ(gpu->download(c, DType::f32, expected[1].dims()).to_doubles(), expected[1].to_doubles());
    EXPECT_EQ(gpu->download(s, DType::f32, {3, 4}).to_doubles(), expected[2].to_doubles());
    const TensorView k = context.output("k");
    EXPECT_EQ(gpu->download(static_cast<const std::byte*>(k.data), DType::i64, k.dims).to_doubles(),
              expected[3].to_doubles());
    EXPECT_EQ(gpu->download(same, DType::f32, {3, 4}).to_doubles(), x.to_doubles());
    const Gpu::Array small = gpu->make(8);
    context.bind_output("n", small.data, small.bytes, DeviceId::gpu(0));
    expect_message("output 'n' needs", [&] { context.run(); });
  }
}

TEST_F(DeviceMemory, NoElements) {
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({1});
  context.set_input("x", {0, 6, 5, 4}, nullptr, DeviceId::gpu(0));
  context.bind_output("logits", nullptr, 0, DeviceId::gpu(0));
  context.run();
  EXPECT_EQ(context.output("logits").dims, (Dims{0, 5}));
}

TEST_F(DeviceMemory, WrongMemoryIsNamed) {
  const Engine engine = engine_from(small_model);
  Context context = engine.create_context({1});
  const Tensor x = random_tensor(random, DType::f32, {1, 6, 5, 4});
  const Gpu::Array in = gpu->upload(x), out = gpu->make(16);
  expect_message("input 'x' is at 0x", [&] { context.bind_input("x", x.data(), x.bytes(), DeviceId::gpu(0)); });
  expect_message("is memory of the host: give it as of device 1,",
                 [&] { context.bind_input("x", x.data(), x.bytes(), DeviceId::gpu(0)); });
  expect_message("is memory of GPU 0", [&] { context.bind_input("x", in.data, in.bytes); });
  expect_message("is not aligned to 4 bytes, the size of f32",
                 [&] { context.set_input("x", x.dims(), in.data + 2, DeviceId::gpu(0)); });
  std::vector<float> host(5);
  expect_message("output 'logits' is at 0x", [&] { context.bind_output("logits", host.data(), 20, DeviceId::gpu(0)); });
  expect_message("is memory of GPU 0", [&] { context.bind_output("logits", out.data, 16); });
  context.set_input("x", x.dims(), nullptr, DeviceId::gpu(0));
  expect_message("input 'x' has no data", [&] { context.run(); });
  context.set_input("x", x.dims(), in.data, DeviceId::gpu(0));
  context.bind_output("logits", out.data, out.bytes, DeviceId::gpu(0));
  expect_message("output 'logits' needs 20 bytes, 16 are bound", [&] { context.enqueue(nullptr); });
  context.bind_output("logits", nullptr, 0);
  context.run();  // still usable
  expect_close(output_of(context, "logits"), reference(small_model, {x})[1]);
}

TEST_F(DeviceMemory, WhatKernelsFindIsThrownWhenSomebodyWaits) {
  const Engine engine = engine_from(R"(graph (%x: f32[5, 3], %i: i64[n]) {
    %y = gather {axis=0} (%x, %i)
    return "y" = %y
  })");
  Context context = engine.create_context({1});
  const cuda::Stream stream(gpu->device);
  const Gpu::Array x = gpu->upload(filled(DType::f32, {5, 3}, 1)), good = gpu->upload(filled(DType::i64, {2}, 4)),
                   bad = gpu->upload(filled(DType::i64, {2}, 9));
  context.set_input("x", {5, 3}, x.data, DeviceId::gpu(0));
  context.bind_output("y", nullptr, 0, DeviceId::gpu(0));
  context.set_input("i", {2}, bad.data, DeviceId::gpu(0));
  context.enqueue(stream.handle());
  expect_message("index 9 is out of range for axis 0 of size 5", [&] { context.synchronize(); });
  context.set_input("i", {2}, good.data, DeviceId::gpu(0));
  context.enqueue(stream.handle());
  context.synchronize();
}

TEST(DeviceMemoryOnTheCpu, IsRefused) {
  const Engine engine = compile_graph(parse_graph(adder, operators()), find_backend("cpu"), {});
  Context context = engine.create_context({1});
  float memory[48] = {};
  expect_message("this engine runs on the CPU", [&] { context.set_input("x", {2, 24}, memory, DeviceId::gpu(0)); });
  expect_message("this engine runs on the CPU", [&] { context.bind_output("m", memory, 1, DeviceId::gpu(0)); });
  expect_message("enqueue() needs an engine built for a GPU", [&] { context.enqueue(nullptr); });
  context.synchronize();
}

TEST(RecordedRuns, TheLatestAreRemembered) {
  const std::byte memory[20] = {};
  const auto operands = [&](int i) { return std::vector<const std::byte*>{memory + i, memory}; };
  RecordedSteps steps;
  const auto is_new = [&](int i) {
    if (steps.find(operands(i))) return false;
    steps.remember(operands(i));
    return true;
  };
  EXPECT_TRUE(is_new(0));
  EXPECT_TRUE(is_new(1));
  for (int round = 0; round < 10; ++round) {
    RecordedSteps::Run* run = steps.find(operands(round % 2));
    ASSERT_NE(run, nullptr);
    EXPECT_EQ(run->operands, operands(round % 2));
    EXPECT_EQ(steps.find_fallback(), nullptr) << "there is room";
  }
  for (int i = 2; i < 9; ++i) EXPECT_TRUE(is_new(i));
  EXPECT_EQ(steps.find_fallback()->operands, operands(1)) << "the longest ago";
  EXPECT_FALSE(is_new(1)) << "the eighth";
  EXPECT_TRUE(is_new(0)) << "forgotten";
  class Nothing final : public DeviceRecording {
    void replay() override {}
  };
  steps.find(operands(4))->recording = std::make_unique<Nothing>();
  steps.find(operands(5))->recording = std::make_unique<Nothing>();
  EXPECT_EQ(steps.find_fallback()->operands, operands(4)) << "the longest ago of those with a recording";
}

}  // namespace
}  // namespace camshaft::device_memory_test
