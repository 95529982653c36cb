// Engines whose bytes were changed behind the checksums: what loads can be inspected and run, what does not load says
// so; nothing crashes. Built with AddressSanitizer this also sees reads and writes that happen to do no harm.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/temporary_folder.h"
#include "builder/sample_inputs.h"
#include "engine/container.h"
#include "reference/random_tensor.h"
#include "runtime/engine_impl.h"
#include "runtime/support.h"

namespace camshaft::engine_fuzz_test {
namespace {

constexpr std::string_view model = R"(graph "fuzzed" (%x: f32[n, 6, 5, 4], %i: i64[2], %q: f32[n, 2, 7, 8]) {
  const %w1: f32[4, 1, 3, 3] = 0.1
  const %w2: f32[8, 4, 3, 3] = 0.2
  const %w3: f32[8, 4, 2, 2] = 0.3
  const %b: f32[8] = 0.5
  const %scale: f32[4] = 2
  const %words: string[2] = ["a", "b"]
  const %m: f32[20, 6] = 0.5
  const %we: f32[6, 4, 1, 1] = 0.1
  const %be: f32[6] = 0.5
  const %wd: f32[6, 1, 3, 3] = 0.2
  const %wp: f32[4, 6, 1, 1] = 0.3
  %chain = region {kind=chain} (%x, %we, %be, %wd, %wp)
  graph (%a: f32[n, 6, 5, 4], %e: f32[6, 4, 1, 1], %b: f32[6], %d: f32[6, 1, 3, 3], %p: f32[4, 6, 1, 1]) {
    %wide = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%a, %e, %b)
    %deep = conv {strides=[2, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=6, channels_last=true} (%wide, %d)
    %narrow = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%deep, %p)
    return %narrow
  }
  %d = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=4, channels_last=true} (%x, %w1)
  %c = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} (%d, %w2, %b)
  %t = conv_transpose {strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], output_padding=shape(0, 0), channels_last=true} (%c, %w3)
  %sig = region {kind=pointwise} (%t)
  graph (%a: f32[n, 12, 10, 4]) {
    const %half: f32[] = 0.5
    %h = pointwise {function=mul} (%a, %half)
    %s = pointwise {function=sigmoid} (%h)
    return %s
  }
  %norm = group_norm {groups=2, channels_last=true} (%sig, %scale, %scale)
  %pool = pool {kind=average, kernel=[2, 2], strides=[2, 2], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} (%norm)
  %up = resize {mode=linear, axes=[1, 2], sizes=shape(10, 9)} (%pool)
  %first = transpose {permutation=[0, 3, 1, 2]} (%up)
  %pad = pad {pads=shape(0, 0, 1, 1, 0, 0, 1, 1)} (%first)
  %part = slice {axes=[2], starts=shape(10), counts=shape(5), steps=[-2]} (%pad)
  %picked = gather {axis=3} (%part, %i)
  %both = concat {axis=2} (%picked, %picked)
  %flat = reshape {shape=shape(2*n, 20)} (%picked)
  %line = slice {axes=[1], starts=shape(0), counts=shape(20), steps=[1]} (%flat)
  %y = matmul (%line, %m)
  %qk = matmul {transpose_b=true} (%q, %q)
  %attention = softmax {axis=3} (%qk)
  %top = arg_reduce {axis=3} (%attention)
  %mean = reduce {kind=mean, axes=[1, 2]} (%norm)
  return "both" = %both, "attention" = %attention, "top" = %top, "words" = %words, "y" = %y, "mean" = %mean, "w2" = %w2, "chain" = %chain
})";

std::vector<std::byte> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(in), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(chars.data());
  return {bytes, bytes + chars.size()};
}

// Everything that a user does with an engine.
void use(const Engine& engine, uint64_t seed) {
  engine.layers();
  engine.tensor_names();
  engine.memory();
  const Graph& graph = engine.impl()->graph;
  const std::vector<Dims> shapes = choose_input_shapes(graph, {}, engine.impl()->optimum, 3);
  int64_t elements = 0;
  for (const Dims& dims : shapes) elements += element_count(dims);
  if (elements > 10000000) return;  // valid, but not worth the time
  const std::vector<Tensor> inputs = sample_inputs(graph, shapes, seed);
  run_engine(engine, inputs, 1);
}

TEST(EngineFuzz, MutatedEnginesLoadAndRunOrAreRefused) {
  Random random = test_random();
  const TemporaryFolder folder;
  CompileOptions options;
  options.profiles = {{{{"x", {{1, 6, 5, 4}, {2, 6, 5, 4}, {4, 6, 5, 4}}}}}};
  options.metadata = {{"model", "fuzzed"}};
  const Engine good = engine_from(model, options);
  for (const LayerInfo& layer : good.layers()) EXPECT_NE(layer.tactic, "reference") << layer.name;
  good.save(folder.file("good.engine"));
  use(Engine::load(folder.file("good.engine")), 0);
  const std::vector<std::byte> bytes = read_bytes(folder.file("good.engine"));
  const Container container = open_container(bytes, "good.engine");
  const auto graph = container.section("graph"), weights = container.section("weights");
  // Text that can be turned into other valid text: the digits and signs of dims, fields and names.
  std::vector<size_t> digits;
  for (size_t i = 0; i < graph.size(); ++i)
    if (graph[i] >= std::byte{'0'} && graph[i] <= std::byte{'9'}) digits.push_back(i);
  const char* wanted = std::getenv("CAMSHAFT_TEST_ROUNDS");
  const int rounds = wanted ? std::atoi(wanted) : 1500;
  int loaded = 0, ran = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::byte> bad(graph.begin(), graph.end());
    const auto any = [&] { return static_cast<size_t>(random.integer(0, static_cast<int64_t>(bad.size()) - 1)); };
    for (int64_t changes = random.integer(1, 3); changes > 0; --changes) {
      const size_t at = any();
      switch (random.integer(0, 4)) {
        case 0:
          bad[at] ^= static_cast<std::byte>(1 << random.integer(0, 7));
          break;
        case 1:
          bad[at] = static_cast<std::byte>(static_cast<int>(bad[at]) + static_cast<int>(random.integer(-2, 2)));
          break;
        case 2:
          bad[at] = bad[any()];
          break;
        case 3:
          bad[at] = std::byte{0};
          break;
        default:
          bad[digits[at % digits.size()]] = static_cast<std::byte>("0123456789-n"[random.integer(0, 11)]);
      }
    }
    const SectionSource sections[] = {{"graph", bad}, {"weights", weights}};
    const std::vector<std::byte> sealed = container_bytes(sections);  // a plain file: thousands of syncs take long
    std::ofstream(folder.file("bad.engine"), std::ios::binary)
        .write(reinterpret_cast<const char*>(sealed.data()), static_cast<std::streamsize>(sealed.size()));
    try {
      const Engine engine = Engine::load(folder.file("bad.engine"));
      ++loaded;
      try {
        use(engine, random.next());
        ++ran;
      } catch (const Error& e) {
        ASSERT_NE(e.code(), ErrorCode::internal) << e.what();
      }
    } catch (const Error& e) {
      ASSERT_TRUE(e.code() == ErrorCode::corrupt_engine || e.code() == ErrorCode::out_of_memory ||
                  e.code() == ErrorCode::unsupported)
          << e.what();
    }
  }
  std::printf("%d of %d mutants loaded, %d of them ran\n", loaded, rounds, ran);
  EXPECT_GT(ran, 0);
}

}  // namespace
}  // namespace camshaft::engine_fuzz_test
