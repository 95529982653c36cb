// Embeddings of prompts, which are the same whatever runs beside them, and however they are computed.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "camshaft/error.hpp"
#include "llm/decode_requests.h"
#include "llm/fake_embedder.h"
#include "llm/generator.h"
#include "test_random.h"

namespace camshaft::llm::embedding_test {
namespace {

constexpr int32_t size = 7, vocabulary = 50;

GeneratorConfig embedding_config(Pooling pooling, int32_t num_blocks = 512) {
  GeneratorConfig config = small_config(num_blocks);
  config.eos_token_ids.clear();
  config.pooling = pooling;
  config.vocab_size = vocabulary;
  return config;
}

std::vector<float> wanted_embedding(Pooling pooling, const std::vector<int32_t>& prompt) {
  std::vector<double> sums(size, 0.0);
  std::vector<float> row(size);
  const size_t first = pooling == Pooling::last ? prompt.size() : 1;
  const size_t last = pooling == Pooling::cls ? 1 : prompt.size();
  for (size_t length = first; length <= last; ++length) {
    FakeModel::random_logits(std::span(prompt).first(length), row);
    for (size_t i = 0; i < size; ++i) sums[i] += static_cast<double>(row[i]);
  }
  std::vector<float> embedding;
  for (const double sum : sums) embedding.push_back(static_cast<float>(sum / static_cast<double>(last - first + 1)));
  return embedding;
}

// With common beginnings, which the prefix cache finds.
std::vector<std::vector<int32_t>> random_prompts(Random& random, size_t count, int64_t longest) {
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < count; ++i) {
    std::vector<int32_t> prompt;
    if (!prompts.empty() && random.uniform() < 0.6) {
      prompt = prompts[static_cast<size_t>(random.integer(0, std::ssize(prompts) - 1))];
      prompt.resize(static_cast<size_t>(random.integer(0, std::ssize(prompt))));
    }
    const int64_t least = prompt.empty() ? 1 : 0;
    for (int64_t n = random.integer(least, std::max(least, longest - std::ssize(prompt))); n > 0; --n)
      prompt.push_back(static_cast<int32_t>(random.integer(0, vocabulary - 1)));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

using Embeddings = std::map<RequestId, std::vector<float>>;

void collect_embeddings(std::span<const Event> events, Embeddings& embeddings) {
  for (const Event& event : events) {
    EXPECT_EQ(event.finish, FinishReason::stop) << event.error;
    EXPECT_TRUE(event.tokens.empty());
    EXPECT_TRUE(
        embeddings.emplace(event.request, std::vector<float>(event.embedding.begin(), event.embedding.end())).second)
        << "a second event of a request";
  }
}

TEST(Embeddings, AreTheSameHoweverTheyAreComputed) {
  Random random = test_random();
  const std::vector<std::vector<int32_t>> prompts = random_prompts(random, 300, 100);
  for (const Pooling pooling : {Pooling::last, Pooling::cls, Pooling::mean}) {
    GeneratorConfig alone = embedding_config(pooling), chunked = alone, scarce = embedding_config(pooling, 30),
                    whole = alone, exact = alone;
    alone.scheduler.max_num_seqs = 1;
    chunked.scheduler.max_num_batched_tokens = 9;
    scarce.scheduler.max_model_len = 120;
    whole.scheduler.enable_chunked_prefill = false;
    whole.scheduler.max_num_batched_tokens = 160;
    exact.max_step_shapes = 0;
    int64_t preemptions = 0, hits = 0;
    for (const GeneratorConfig& config : {alone, chunked, scarce, whole, exact}) {
      FakeEmbedder model(config.scheduler.num_blocks, config.scheduler.block_size, size);
      std::vector<int32_t> ends;  // of the parts that are computed
      model.looked = [&](const StepInputs& inputs) {
        for (size_t i = 0; i < inputs.past.size(); ++i) {
          const int32_t tokens = inputs.cumulative[i + 1] - inputs.cumulative[i];
          if (tokens > 0) ends.push_back(inputs.past[i] + tokens);
        }
      };
      Generator generator(model, config);
      Embeddings embeddings;
      std::vector<RequestId> ids;
      for (const std::vector<int32_t>& prompt : prompts) {
        Request request = request_of(prompt);
        request.priority = static_cast<int32_t>(random.integer(0, 2));
        ids.push_back(generator.add(request));
        while (random.uniform() < 0.5 && generator.has_work()) collect_embeddings(generator.step(), embeddings);
      }
      while (generator.has_work()) collect_embeddings(generator.step(), embeddings);
      ASSERT_EQ(embeddings.size(), prompts.size());
      for (size_t i = 0; i < prompts.size(); ++i)
        ASSERT_EQ(embeddings.at(ids[i]), wanted_embedding(pooling, prompts[i])) << i;
      const GeneratorStatistics statistics = generator.statistics();
      EXPECT_EQ(statistics.free_blocks, statistics.blocks) << "blocks are left behind";
      EXPECT_EQ(statistics.generated, 0);
      if (!config.scheduler.enable_chunked_prefill) {
        std::vector<int32_t> lengths;
        for (const std::vector<int32_t>& prompt : prompts) lengths.push_back(static_cast<int32_t>(prompt.size()));
        std::ranges::sort(lengths);
        std::ranges::sort(ends);
        EXPECT_EQ(ends, lengths) << "a prompt is computed in more than one step";
      }
      preemptions += statistics.preemptions;
      hits += statistics.prefix_hit;
    }
    EXPECT_GT(preemptions, 0) << "the scarce one has too much";
    EXPECT_EQ(hits > 0, pooling == Pooling::last) << "rows of the cache's tokens are missing";
  }
}

TEST(Embeddings, APromptIsAsLongAsTheModelAllows) {
  FakeEmbedder model(512, 4, size);
  GeneratorConfig config = embedding_config(Pooling::last);
  Generator generator(model, config);
  generator.add(request_of(std::vector<int32_t>(160, 1)));
  const auto message = [&](Request request) {
    try {
      generator.add(std::move(request));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return std::string(error.what());
    }
    return std::string();
  };
  Request searched = request_of({1, 2, 3});
  searched.params.beam_search = BeamSearchParams();
  EXPECT_NE(message(searched).find("beam_search: a prompt has one embedding"), std::string::npos);
  EXPECT_NE(message(request_of(std::vector<int32_t>(161, 1))).find("161 tokens, max_model_len is 160: shorten"),
            std::string::npos);
  EXPECT_NE(message(request_of({})).find("empty"), std::string::npos);
  EXPECT_NE(message(request_of({1, vocabulary})).find("the vocabulary has tokens 0 to 49"), std::string::npos);
  Request twice = request_of({1});
  twice.params.n = 2;
  EXPECT_NE(message(twice).find("a prompt has one embedding"), std::string::npos);
  Embeddings embeddings;
  while (generator.has_work()) collect_embeddings(generator.step(), embeddings);
  EXPECT_EQ(embeddings.size(), 1U);
}

TEST(Embeddings, ModelsAndPoolingThatDoNotFitAreRefused) {
  const auto message = [](auto&& make) {
    try {
      make();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return std::string(error.what());
    }
    return std::string();
  };
  FakeEmbedder embedder(512, 4, size);
  FakeModel decoder(512, 4, vocabulary);
  GeneratorConfig config = embedding_config(Pooling::mean);
  EXPECT_NE(message([&] { Generator(decoder, config); }).find("it generates text"), std::string::npos);
  EXPECT_NE(message([&] { Generator(embedder, small_config()); }).find("pooling_type"), std::string::npos);
  config.vocab_size = 0;
  EXPECT_NE(message([&] { Generator(embedder, config); }).find("vocab_size"), std::string::npos);
  config = embedding_config(Pooling::mean);
  config.scheduler.enable_chunked_prefill = false;
  EXPECT_NE(message([&] { Generator(embedder, config); }).find("computed in one step"), std::string::npos);
  EXPECT_NE(message([] { parse_generator_config(R"({"pooling_type": "max"})"); }).find("last, cls and mean"),
            std::string::npos);
  EXPECT_EQ(parse_generator_config(R"({"pooling_type": "MEAN"})").pooling, Pooling::mean);
}

TEST(Embeddings, OneThatIsNotFiniteFailsAlone) {
  for (const Pooling pooling : {Pooling::last, Pooling::cls, Pooling::mean}) {
    FakeEmbedder model(512, 4, size);
    model.logits = [](std::span<const int32_t> visible, std::span<float> row) {
      std::ranges::fill(row, 1.f);
      if (visible.front() == 13) row[3] = visible.size() > 1 ? INFINITY : NAN;
    };
    Generator generator(model, embedding_config(pooling));
    const RequestId good = generator.add(request_of({5, 6})), bad = generator.add(request_of({13, 6}));
    Embeddings embeddings;
    std::string problem;
    while (generator.has_work())
      for (const Event& event : generator.step()) {
        if (event.request == bad) {
          EXPECT_EQ(event.finish, FinishReason::error);
          EXPECT_TRUE(event.embedding.empty());
          problem = event.error;
        } else {
          EXPECT_EQ(event.request, good);
          EXPECT_EQ(std::vector<float>(event.embedding.begin(), event.embedding.end()), std::vector<float>(size, 1.f));
        }
      }
    EXPECT_NE(problem.find("a NaN or an infinity"), std::string::npos);
    EXPECT_EQ(generator.statistics().free_blocks, generator.statistics().blocks);
  }
}

TEST(Embeddings, WhatTheModelThrowsEndsThoseThatRan) {
  FakeEmbedder model(512, 4, size);
  model.throw_at = 0;
  Generator generator(model, embedding_config(Pooling::last));
  generator.add(request_of({5, 6}));
  const std::span<const Event> events = generator.step();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].finish, FinishReason::error);
  EXPECT_EQ(events[0].error, "the model is out of order");
  const RequestId next = generator.add(request_of({7}));
  Embeddings embeddings;
  collect_embeddings(generator.step(), embeddings);
  EXPECT_EQ(embeddings.at(next), wanted_embedding(Pooling::last, {7}));
}

}  // namespace
}  // namespace camshaft::llm::embedding_test
