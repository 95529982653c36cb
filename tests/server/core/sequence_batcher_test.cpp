// Slots, order and states of sequences, with an instance that adds what it is given to a state.
#include "server/core/sequence_batcher.h"

#include <gtest/gtest.h>

#include <future>

#include "server/core/make_pending.h"
#include "server/core/status.h"
#include "server/seed.h"

namespace camshaft::server::sequence_batcher_test {
namespace {

constexpr const char* config_text = R"({"name": "m", "max_batch_size": %d,
  "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [1]}],
  "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [1]}],
  "sequence_batching": {%s "max_sequence_idle_microseconds": %d,
    "control_input": [
      {"name": "start", "control": [{"kind": "CONTROL_SEQUENCE_START", "int32_false_true": [0, 1]}]},
      {"name": "end", "control": [{"kind": "CONTROL_SEQUENCE_END", "bool_false_true": [false, true]}]},
      {"name": "id", "control": [{"kind": "CONTROL_SEQUENCE_CORRID", "data_type": "TYPE_UINT64"}]}],
    "state": [{"input_name": "before", "output_name": "after", "data_type": "TYPE_FP32", "dims": [1]}]}})";

ModelConfig config_of(int max_batch, const char* strategy = "", int idle = 60000000) {
  std::array<char, 2048> text{};
  std::snprintf(text.data(), text.size(), config_text, max_batch, strategy, idle);
  return parse_model_config_json(text.data());
}

template <class T>
T value_at(const NamedTensor& tensor) {
  T value{};
  std::memcpy(&value, tensor.data.span.data(), sizeof(value));
  return value;
}

struct Seen {
  std::mutex mutex;
  std::vector<size_t> batches;
  std::map<uint64_t, std::vector<std::pair<int32_t, bool>>> controls;  ///< start and end, by sequence
};

// y = before + x, and so is the state behind it.
class Adding : public Instance {
 public:
  explicit Adding(Seen& seen) : seen_(seen) {}
  void run(std::vector<PendingPtr> batch) noexcept override {
    const std::lock_guard lock(seen_.mutex);
    seen_.batches.push_back(batch.size());
    for (const PendingPtr& pending : batch) {
      const auto& inputs = pending->inputs;
      seen_.controls[value_at<uint64_t>(*inputs[3])].emplace_back(value_at<int32_t>(*inputs[1]),
                                                                  value_at<bool>(*inputs[2]));
      const float sum = value_at<float>(*inputs[0]) + value_at<float>(*inputs[4]);
      pending->keep(0, float_tensor("after", {1, 1}, sum));
      pending->succeed({float_tensor("y", {1, 1}, sum)});
    }
  }

 private:
  Seen& seen_;
};

class Batcher {
 public:
  Batcher(int instances, const ModelConfig& config) : signature(make_signature(config)) {
    std::vector<PlacedInstance> placed;
    for (int i = 0; i < instances; ++i) placed.push_back({std::make_unique<Adding>(seen), 0});
    batcher = std::make_unique<SequenceBatcher>(std::move(placed), config, signature, "/nowhere", statistics);
  }
  std::future<float> add(SequenceId id, float value, bool start = false, bool end = false) {
    auto promise = std::make_shared<std::promise<float>>();
    Request request;
    request.model = "m";
    request.inputs = {float_tensor("x", {1, 1}, value)};
    request.sequence = std::move(id);
    request.sequence_start = start;
    request.sequence_end = end;
    request.timeline.queued = Clock::now();
    auto pending = std::make_unique<Pending>(
        std::move(request),
        [promise](const Response& response) {
          if (response.status.ok())
            promise->set_value(value_at<float>(response.outputs.front()));
          else
            promise->set_exception(std::make_exception_ptr(ServerError(response.status.code, response.status.message)));
        },
        statistics, nullptr);
    check_request(signature, *pending);
    std::future<float> future = promise->get_future();
    try {
      batcher->submit(pending);
    } catch (const ServerError& error) {
      pending->fail(error.status(), FailureReason::other);
    }
    return future;
  }

  Seen seen;
  ModelStatistics statistics;
  Signature signature;
  std::unique_ptr<SequenceBatcher> batcher;
};

TEST(SequenceBatcher, KeepsStatesApartAndInOrder) {
  std::mt19937_64 random = seeded_random();
  for (const char* strategy : {"\"direct\": {},", "\"oldest\": {\"max_candidate_sequences\": 3},"}) {
    Batcher batcher(2, config_of(4, strategy));
    constexpr uint64_t sequences = 9;
    constexpr int steps = 20;
    std::map<uint64_t, std::vector<std::future<float>>> answers;
    std::vector<int> done(sequences + 1, 0);
    for (size_t left = sequences * steps; left > 0;) {  // steps of all sequences, in an order that is drawn
      const uint64_t id = 1 + random() % sequences;
      if (done[id] == steps) continue;
      const int step = done[id]++;
      answers[id].push_back(batcher.add({id, ""}, static_cast<float>(id), step == 0, step + 1 == steps));
      --left;
    }
    for (auto& [id, futures] : answers)
      for (int step = 0; step < steps; ++step)
        EXPECT_EQ(futures[static_cast<size_t>(step)].get(), static_cast<float>(id) * static_cast<float>(step + 1));
    const std::lock_guard lock(batcher.seen.mutex);
    for (const auto& [id, controls] : batcher.seen.controls)
      for (int step = 0; step < steps; ++step)
        EXPECT_EQ(controls[static_cast<size_t>(step)], std::make_pair(step == 0 ? 1 : 0, step + 1 == steps));
    for (const size_t size : batcher.seen.batches) EXPECT_LE(size, 4);
  }
}

TEST(SequenceBatcher, StartsFromNothingAgain) {
  Batcher batcher(1, config_of(4));
  EXPECT_EQ(batcher.add({5, ""}, 1, true).get(), 1);
  EXPECT_EQ(batcher.add({5, ""}, 2, false, true).get(), 3);
  EXPECT_THROW(batcher.add({5, ""}, 2).get(), ServerError);
  EXPECT_EQ(batcher.add({5, ""}, 7, true, true).get(), 7);
  EXPECT_THROW(batcher.add({0, "a"}, 1, true).get(), ServerError) << "the model takes numbers";
}

TEST(SequenceBatcher, SequencesWaitForSlots) {
  Batcher batcher(1, config_of(1));
  EXPECT_EQ(batcher.add({1, ""}, 1, true).get(), 1);
  auto waits = batcher.add({2, ""}, 10, true, true);
  EXPECT_EQ(batcher.add({1, ""}, 1).get(), 2);
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ(batcher.add({1, ""}, 1, false, true).get(), 3);
  EXPECT_EQ(waits.get(), 10);
}

TEST(SequenceBatcher, IdleSequencesGiveTheirSlotsAway) {
  Batcher batcher(1, config_of(1, "", 1000));
  EXPECT_EQ(batcher.add({1, ""}, 1, true).get(), 1);
  EXPECT_EQ(batcher.add({2, ""}, 10, true, true).get(), 10);
  EXPECT_THROW(batcher.add({1, ""}, 1).get(), ServerError);
}

TEST(SequenceBatcher, RefusesRequestsOfNoSequence) {
  Batcher batcher(1, config_of(4));
  EXPECT_THROW(batcher.add({0, ""}, 1, true).get(), ServerError);
}

// Gives each request back as often as its number says, then answers how often it ran.
class Repeating : public Instance {
 public:
  explicit Repeating(Seen& seen) : seen_(seen) {}
  void run(std::vector<PendingPtr> batch) noexcept override {
    const std::lock_guard lock(seen_.mutex);
    seen_.batches.push_back(batch.size());
    for (PendingPtr& pending : batch) {
      auto& controls = seen_.controls[value_at<uint64_t>(*pending->inputs[3])];
      controls.emplace_back(value_at<int32_t>(*pending->inputs[1]), value_at<bool>(*pending->inputs[2]));
      if (static_cast<float>(controls.size()) < value_at<float>(*pending->inputs[0])) {
        const auto give_back = pending->reschedule;
        give_back(std::move(pending));
      } else {
        pending->succeed({float_tensor("y", {1, 1}, static_cast<float>(controls.size()))});
      }
    }
  }

 private:
  Seen& seen_;
};

TEST(SequenceBatcher, IterativeRequestsRunUntilTheyAreDone) {
  std::mt19937_64 random = seeded_random();
  for (const char* strategy : {"", "\"oldest\": {\"max_candidate_sequences\": 5},"}) {
    const ModelConfig config = config_of(3, (std::string(strategy) + "\"iterative_sequence\": true,").c_str());
    Seen seen;
    Batcher batcher(0, config);
    batcher.batcher.reset();
    std::vector<PlacedInstance> placed;
    placed.push_back({std::make_unique<Repeating>(seen), 0});
    batcher.batcher =
        std::make_unique<SequenceBatcher>(std::move(placed), config, batcher.signature, "/nowhere", batcher.statistics);
    std::vector<std::pair<float, std::future<float>>> asked;
    for (int i = 0; i < 50; ++i) {
      const auto times = static_cast<float>(1 + random() % 9);
      asked.emplace_back(times, batcher.add({0, ""}, times));
    }
    for (auto& [times, answer] : asked) EXPECT_EQ(answer.get(), times);
    EXPECT_GE(batcher.add({7, ""}, 4, true).get(), 4) << "a number of the client's own is another sequence";
    const std::lock_guard lock(seen.mutex);
    for (const auto& [id, controls] : seen.controls) {
      if (id == 7) continue;
      for (size_t step = 0; step < controls.size(); ++step)
        EXPECT_EQ(controls[step], std::make_pair(step == 0 ? 1 : 0, false));
    }
  }
}

}  // namespace
}  // namespace camshaft::server::sequence_batcher_test
