// Pictures within prompts: where their tokens are, which blocks they share, and that texts do not depend on how prompts
// are computed.
#include "llm/pictures.h"

#include <gtest/gtest.h>

#include <set>

#include "camshaft/error.hpp"
#include "llm/decode_requests.h"
#include "test_random.h"

namespace camshaft::llm::pictures_test {
namespace {

constexpr int32_t vocabulary = 61, placeholder = 60, width = 3;

// `content`: of which two pictures differ.
Picture picture(int32_t begin, int32_t height, int32_t across, int32_t content) {
  Picture made{begin, height * across, height, across, {static_cast<uint64_t>(content), 7}, nullptr};
  std::vector<float> rows;
  for (int32_t row = 0; row < made.rows; ++row)
    for (int32_t i = 0; i < width; ++i) rows.push_back(static_cast<float>((content + 1) * 100 + row * width + i));
  ImageRows known{rows.size(), std::make_shared<const std::vector<float>>(std::move(rows))};
  made.embeddings = std::make_shared<const ImageRows>(std::move(known));
  return made;
}

// Appends a picture's placeholders.
void append(Request& request, int32_t height, int32_t across, int32_t content) {
  request.pictures.push_back(picture(static_cast<int32_t>(request.prompt.size()), height, across, content));
  request.prompt.insert(request.prompt.end(), static_cast<size_t>(height * across), placeholder);
}

std::vector<Request> random_prompts(Random& random, size_t count) {
  std::vector<Request> requests;
  for (size_t i = 0; i < count; ++i) {
    Request& request = requests.emplace_back();
    const auto add_text = [&](int64_t tokens) {
      for (; tokens > 0; --tokens) request.prompt.push_back(static_cast<int32_t>(random.integer(1, 3)));
    };
    add_text(random.integer(0, 3));
    // Of few contents, of one size each, so that many prompts begin alike.
    for (int64_t pictures = random.integer(0, 3); pictures > 0; --pictures) {
      const auto content = static_cast<int32_t>(random.integer(0, 3));
      append(request, 1 + content, 3, content);
      add_text(random.integer(0, 2));
    }
    add_text(random.integer(1, 9));
    request.priority = static_cast<int32_t>(random.integer(0, 2));
    request.params.max_tokens = static_cast<int32_t>(random.integer(1, 20));
    request.params.temperature = random.uniform() < 0.5 ? 0 : 1;
    request.params.seed = random.next();
    if (!request.params.is_greedy()) request.params.n = static_cast<int32_t>(random.integer(1, 3));
    if (random.uniform() < 0.2) request.params.prompt_logprobs = 1;
  }
  return requests;
}

struct Outcome {
  Texts texts;
  GeneratorStatistics statistics;
};

Outcome decode(const std::vector<Request>& requests, const GeneratorConfig& config, bool mrope,
               bool one_by_one = false) {
  FakeModel model(config.scheduler.num_blocks, config.scheduler.block_size, vocabulary);
  model.width_of_images = width;
  model.mrope = mrope;
  Generator generator(model, config);
  Outcome run;
  for (const Request& request : requests) {
    generator.add(request);
    if (one_by_one) run.texts.merge(finish_all(generator));
  }
  run.texts.merge(finish_all(generator));
  run.statistics = generator.statistics();
  EXPECT_EQ(run.statistics.free_blocks, run.statistics.blocks);
  if (config.max_step_shapes > 0) {
    EXPECT_LE(model.shapes.size(), static_cast<size_t>(config.max_step_shapes));
  }
  return run;
}

TEST(Pictures, HavePositionsInTimeDownAndAcross) {
  // Two tokens of text, 2 x 3 rows, one token, 1 x 2 rows, text.
  const Pictures pictures({picture(2, 2, 3, 0), picture(9, 1, 2, 1)}, 4, 0);
  const std::vector<Position> expected = {{0, 0, 0}, {1, 1, 1}, {2, 2, 2}, {2, 2, 3}, {2, 2, 4}, {2, 3, 2}, {2, 3, 3},
                                          {2, 3, 4}, {5, 5, 5}, {6, 6, 6}, {6, 6, 7}, {8, 8, 8}, {9, 9, 9}};
  for (size_t token = 0; token < expected.size(); ++token)
    EXPECT_EQ(pictures.position(static_cast<int32_t>(token)), expected[token]) << token;
}

TEST(Pictures, WithoutSizesArePlainText) {
  Picture flat = picture(1, 2, 2, 0);
  flat.height = flat.width = 0;
  const Pictures pictures({flat}, 4, 0);
  for (int32_t token = 0; token < 9; ++token) EXPECT_EQ(pictures.position(token), (Position{token, token, token}));
}

TEST(Pictures, MarkTheBlocksThatTheyAreIn) {
  const Pictures one({picture(5, 1, 5, 0)}, 4, 9), again({picture(5, 1, 5, 0)}, 4, 9),
      other({picture(5, 1, 5, 1)}, 4, 9), later({picture(6, 1, 4, 0)}, 4, 9), of_another({picture(5, 1, 5, 0)}, 4, 8);
  EXPECT_EQ(one.salts().of(0), 9U);
  EXPECT_EQ(one.salts().of(3), 9U) << "behind it";
  for (const size_t block : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(one.salts().of(block), again.salts().of(block));
    std::set<uint64_t> all = {9, 8};
    for (const Pictures* each : {&one, &other, &later, &of_another}) all.insert(each->salts().of(block));
    EXPECT_EQ(all.size(), 6U) << "block " << block;
  }
}

TEST(Pictures, DoNotChangeTextsHoweverTheyAreComputed) {
  Random random = test_random();
  const std::vector<Request> requests = random_prompts(random, 200);
  for (const bool mrope : {false, true}) {
    SCOPED_TRACE(mrope ? "M-RoPE" : "one position");
    GeneratorConfig alone = small_config();
    alone.scheduler.max_num_batched_tokens = 512;
    alone.scheduler.prompt_logprob_rows = 512;
    alone.scheduler.enable_prefix_caching = false;
    alone.max_step_shapes = 0;
    const Outcome expected = decode(requests, alone, mrope, true);
    GeneratorConfig config = small_config();
    config.scheduler.enable_prefix_caching = false;
    EXPECT_TRUE(decode(requests, config, mrope).texts == expected.texts) << "a batch";
    config.scheduler.max_num_batched_tokens = 9;
    EXPECT_TRUE(decode(requests, config, mrope).texts == expected.texts) << "chunks that split pictures";
    config.scheduler.enable_prefix_caching = true;
    const Outcome cached = decode(requests, config, mrope);
    EXPECT_TRUE(cached.texts == expected.texts) << "a prefix cache";
    EXPECT_GT(cached.statistics.prefix_hit, 0);
    config.scheduler.num_blocks = 41;
    config.scheduler.max_num_batched_tokens = 37;
    const Outcome preempted = decode(requests, config, mrope);
    EXPECT_TRUE(preempted.texts == expected.texts) << "preemption";
    EXPECT_GT(preempted.statistics.preemptions, 0);
    config.scheduler.num_speculative_tokens = 3;
    config.prompt_lookup_min = 1;
    const Outcome guessed = decode(requests, config, mrope);
    EXPECT_TRUE(guessed.texts == expected.texts) << "guesses, and all else";
    EXPECT_GT(guessed.statistics.drafted, 0);
  }
}

TEST(Pictures, ShareNothingWithOthersOfTheSameTokens) {
  GeneratorConfig config = small_config();
  FakeModel model(512, 4, vocabulary);
  model.width_of_images = width;
  Generator generator(model, config);
  const auto hits_of = [&](int32_t content) {
    Request request;
    request.prompt = {1, 2, 3, 4, 5};
    append(request, 2, 3, content);
    request.prompt.insert(request.prompt.end(), {6, 7, 8, 9, 10, 11});  // 17 tokens: 16 can be found
    request.params.max_tokens = 1;
    request.params.temperature = 0;
    const int64_t before = generator.statistics().prefix_hit;
    generator.add(request);
    finish_all(generator);
    return generator.statistics().prefix_hit - before;
  };
  EXPECT_EQ(hits_of(0), 0);
  EXPECT_EQ(hits_of(1), 4) << "what is in front of the picture";
  EXPECT_EQ(hits_of(0), 16);
  EXPECT_EQ(hits_of(1), 16);
}

TEST(Pictures, MayBecomeKnownWhenTheirTurnComes) {
  GeneratorConfig config = small_config();
  config.scheduler.max_num_seqs = 2;
  FakeModel model(512, 4, vocabulary);
  model.width_of_images = width;
  Generator generator(model, config);
  std::vector<std::shared_ptr<ImageRows>> slots;
  std::vector<RequestId> ids;
  Texts texts, expected;
  for (int32_t content = 0; content < 3; ++content) {
    Request request;
    request.prompt = {1, 2};
    append(request, 2, 2, content);
    request.prompt.push_back(3);
    request.params.max_tokens = 4;
    request.params.temperature = 0;
    request.params.ignore_eos = true;
    FakeModel other(512, 4, vocabulary);
    other.width_of_images = width;
    Generator alone(other, config);
    alone.add(request);
    expected[{static_cast<RequestId>(content + 2), 0}] = finish_all(alone).begin()->second;
    slots.push_back(std::make_shared<ImageRows>(*request.pictures[0].embeddings));
    slots.back()->values = nullptr;
    request.pictures[0].embeddings = slots.back();
    if (content == 0) {  // one of text is served before them, and none behind
      Request text;
      text.prompt = {5};
      text.params.max_tokens = 6;
      text.params.temperature = 0;
      text.params.ignore_eos = true;
      generator.add(text);
    }
    ids.push_back(generator.add(request));
  }
  for (int32_t content = 0; content < 3; ++content) {
    for (int i = 0; i < 3; ++i) collect(generator.step(), texts);
    for (size_t each = static_cast<size_t>(content); each < ids.size(); ++each)
      EXPECT_EQ(texts.count({ids[each], 0}), 0U) << "it has run without its rows";
    for (int i = 0; i < 20 && generator.wants_images() == 0; ++i) collect(generator.step(), texts);
    EXPECT_EQ(generator.wants_images(), ids[static_cast<size_t>(content)]);
    slots[static_cast<size_t>(content)]->values = picture(0, 2, 2, content).embeddings->values;
    EXPECT_EQ(generator.wants_images(), 0U);
    collect(generator.step(), texts);
  }
  while (generator.has_work()) collect(generator.step(), texts);
  texts.erase({1, 0});
  EXPECT_TRUE(texts == expected);
}

TEST(Pictures, AreRefusedWhereTheyDoNotFit) {
  FakeModel model(512, 4, vocabulary);
  model.width_of_images = width;
  model.mrope = true;
  Generator generator(model, small_config());
  Request good;
  good.prompt = {1};
  append(good, 2, 2, 0);
  good.prompt.push_back(2);
  good.params.max_tokens = 1;
  const auto refused = [&](const char* what, const std::function<void(Request&)>& change) {
    Request request = good;
    change(request);
    try {
      generator.add(request);
      ADD_FAILURE() << "it was taken: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  refused("ends behind the prompt", [](Request& r) { r.pictures[0].begin = 3; });
  refused("lies on another", [](Request& r) { r.pictures.push_back(r.pictures[0]); });
  refused("lies on another", [](Request& r) { r.pictures[0].begin = -1; });
  refused("not so many embeddings", [](Request& r) { r.pictures[0].embeddings = nullptr; });
  refused("not so many embeddings", [](Request& r) { r.pictures[0].rows = 3; });
  refused("high", [](Request& r) { r.pictures[0].height = 3; });
  FakeModel reader(512, 4, vocabulary);
  Generator of_text(reader, small_config());
  EXPECT_THROW(of_text.add(good), Error);
  generator.add(good);
  EXPECT_EQ(finish_all(generator).size(), 1U);
}

TEST(Pictures, AreNotForDrafts) {
  FakeModel model(512, 4, vocabulary), draft(512, 4, vocabulary);
  draft.width_of_images = width;
  GeneratorConfig config = small_config();
  config.scheduler.num_speculative_tokens = 2;
  config.draft = {512, 4, 0};
  EXPECT_THROW(Generator(model, config, &draft), Error);
}

}  // namespace
}  // namespace camshaft::llm::pictures_test
