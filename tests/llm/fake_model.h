// A model whose logits are a function of every token that a sequence sees.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

#include "llm/step_model.h"

namespace camshaft::llm {

/// Tokens and positions stand in for keys and values: they are written into blocks and read back through the block
/// table, so that a wrong table, length or copy gives other logits. `logits` may replace the usual ones, which are
/// random numbers seeded by all tokens so far. With an adapter every sixth row is turned; a token
/// sees none that another adapter has computed.
class FakeModel : public StepModel {
 public:
  FakeModel(int32_t blocks, int32_t block_size, int32_t vocabulary)
      : block_size_(block_size),
        blocks_(blocks),
        vocabulary_(vocabulary),
        cache_(static_cast<size_t>(blocks) * static_cast<size_t>(block_size), Slot{-1, -1, -1}) {}

  using Logits = std::function<void(std::span<const int32_t> visible, std::span<float> row)>;
  Logits logits;
  CrossSizes cross;  ///< of an encoder's keys, which it does not read
  /// Of pictures' rows, whose elements are whole numbers: a token that has one is seen as their sum, and 1000. With
  /// `mrope` all are seen by their positions, too.
  int32_t width_of_images = 0;
  bool mrope = false;
  int32_t loras = 3;
  bool gives_likeliest = false;
  bool is_started_ahead = false;  ///< needs gives_likeliest
  int64_t runs = 0, followed = 0, finished = 0, copied = 0, offloaded = 0, restored = 0, restores = 0;
  int64_t throw_at_restore = -1;                  ///< the call that fails
  int64_t throw_at = -1;                          ///< the run that fails
  int64_t throw_at_finish = -1;                   ///< the end of a step, started ahead or not, that fails
  std::set<std::vector<size_t>> shapes;           ///< that were asked for
  std::function<void(const StepInputs&)> looked;  ///< before each run

  int32_t vocabulary() const override { return vocabulary_; }
  CrossSizes cross_sizes() const override { return cross; }
  int32_t image_width() const override { return width_of_images; }
  bool has_mrope() const override { return mrope; }
  int32_t max_loras() const override { return loras; }
  void copy_blocks(std::span<const BlockCopy> copies) override {
    for (const BlockCopy& copy : copies) {
      const auto size = static_cast<size_t>(block_size_);
      std::copy_n(cache_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(copy.from) * size), size,
                  cache_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(copy.to) * size));
      ++copied;
    }
  }
  void make_host_blocks(int32_t count) override {
    host_.assign(static_cast<size_t>(count) * static_cast<size_t>(block_size_), Slot{-1, -1, -1});
  }
  void offload_blocks(std::span<const BlockCopy> copies) override { copy_between(copies, cache_, host_, offloaded); }
  void restore_blocks(std::span<const BlockCopy> copies) override {
    if (restores++ == throw_at_restore) throw std::runtime_error("the copies are out of order");
    copy_between(copies, host_, cache_, restored);
  }
  StepOutputs run(const StepInputs& inputs) override {
    if (looked) looked(inputs);
    shapes.insert(
        {inputs.input_ids.size(), inputs.past.size(), inputs.logits_indices.size(), inputs.image_indices.size()});
    if (runs++ == throw_at) throw std::runtime_error("the model is out of order");
    EXPECT_EQ(inputs.positions.size(), inputs.input_ids.size() * (mrope ? 3 : 1));
    EXPECT_EQ(inputs.lora_ids.size(), inputs.input_ids.size());
    for (auto token = static_cast<size_t>(inputs.cumulative.back()); token < inputs.lora_ids.size(); ++token)
      EXPECT_EQ(inputs.lora_ids[token], -1) << "padding costs what an adapter does";
    see_tokens(inputs);
    EXPECT_EQ(inputs.cumulative.size(), inputs.past.size() + 1);
    EXPECT_EQ(inputs.block_table.size(), inputs.past.size() * static_cast<size_t>(inputs.table_width));
    std::set<size_t> written;
    for (size_t sequence = 0; sequence < inputs.past.size(); ++sequence) {
      const int32_t begin = inputs.cumulative[sequence], end = inputs.cumulative[sequence + 1];
      EXPECT_LE(begin, end);
      for (int32_t token = begin; token < end; ++token) {
        const int32_t position = inputs.past[sequence] + token - begin;
        if (!mrope) {
          EXPECT_EQ(inputs.positions[static_cast<size_t>(token)], position);
        }
        const size_t slot = slot_of(inputs, sequence, position);
        EXPECT_TRUE(written.insert(slot).second) << "two tokens of a step share a place";
        cache_[slot] = {seen_[static_cast<size_t>(token)], position, inputs.lora_ids[static_cast<size_t>(token)]};
      }
    }
    EXPECT_LE(static_cast<size_t>(inputs.cumulative.back()), inputs.input_ids.size());
    logits_.assign(inputs.logits_indices.size() * static_cast<size_t>(vocabulary_), 0);
    for (size_t row = 0; row < inputs.logits_indices.size(); ++row) {
      const int32_t token = inputs.logits_indices[row];
      size_t sequence = 0;
      while (sequence < inputs.past.size() &&
             !(inputs.cumulative[sequence] <= token && token < inputs.cumulative[sequence + 1]))
        ++sequence;
      if (sequence == inputs.past.size()) continue;  // padding
      visible_.clear();
      const int32_t lora = inputs.lora_ids[static_cast<size_t>(token)];
      const int32_t last = inputs.past[sequence] + token - inputs.cumulative[sequence];
      for (int32_t position = 0; position <= last; ++position) {
        const Slot& slot = cache_[slot_of(inputs, sequence, position)];
        EXPECT_EQ(slot.position, position) << "another token lies there";
        EXPECT_EQ(slot.lora, lora) << "it is of another adapter";
        visible_.push_back(slot.token);
      }
      const std::span<float> out{logits_.data() + row * static_cast<size_t>(vocabulary_),
                                 static_cast<size_t>(vocabulary_)};
      if (logits) {
        logits(visible_, out);
      } else {
        random_logits(visible_, out);
      }
      turn_by_adapter(out, visible_.size(), lora);
    }
    if (!gives_likeliest) return {logits_.data()};
    likeliest_.clear();
    largest_.clear();
    for (size_t row = 0; row < inputs.logits_indices.size(); ++row) {
      const std::span<const float> all{logits_.data() + row * static_cast<size_t>(vocabulary_),
                                       static_cast<size_t>(vocabulary_)};
      likeliest_.push_back(likeliest(all));
      largest_.push_back(all[static_cast<size_t>(likeliest_.back())]);
    }
    return {inputs.reads_logits ? logits_.data() : nullptr, likeliest_.data(), largest_.data()};
  }

  bool starts_ahead() const override { return is_started_ahead; }
  /// Its work is done at once, and found when it is finished.
  void start(const StepInputs& inputs, bool follows) override {
    EXPECT_FALSE(inputs.reads_logits);
    EXPECT_LT(started_.size(), follows ? 2 : 1) << "there is memory for two steps";
    StepInputs step = inputs;
    std::vector<int32_t> ids(inputs.input_ids.begin(), inputs.input_ids.end());
    if (follows) {
      EXPECT_EQ(last_.likeliest.size(), ids.size());
      ids = last_.likeliest;
      step.input_ids = ids;
      ++followed;
    }
    run(step);
    last_ = {likeliest_, largest_};
    started_.push_back(last_);
  }
  StepOutputs finish() override {
    EXPECT_FALSE(started_.empty()) << "nothing was started";
    finished_ = started_.front();
    started_.erase(started_.begin());
    if (finished++ == throw_at_finish) throw std::runtime_error("the model has stopped");
    return {nullptr, finished_.likeliest.data(), finished_.largest.data()};
  }

  static void random_logits(std::span<const int32_t> visible, std::span<float> row) {
    uint64_t state = 0x243F6A8885A308D3u;
    for (const int32_t token : visible) state = (state ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u + 1;
    for (float& logit : row) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      logit = static_cast<float>(static_cast<int32_t>(state >> 40) % 1000) / 100.0f;  // some are equal
    }
  }

  /// What an adapter does to the logits behind so many tokens.
  static void turn_by_adapter(std::span<float> row, size_t tokens, int32_t lora) {
    if (lora >= 0 && (static_cast<int32_t>(tokens) + lora) % 6 == 0)
      std::rotate(row.begin(), row.begin() + 1 + lora, row.end());
  }

 private:
  struct Slot {
    int32_t token = 0, position = 0, lora = -1;
  };

  void copy_between(std::span<const BlockCopy> copies, const std::vector<Slot>& from, std::vector<Slot>& to,
                    int64_t& count) const {
    const auto size = static_cast<size_t>(block_size_);
    for (const BlockCopy& copy : copies) {
      for (size_t i = 0; i < size; ++i)
        to.at(static_cast<size_t>(copy.to) * size + i) = from.at(static_cast<size_t>(copy.from) * size + i);
      ++count;
    }
  }

  // What each token of the step stands for.
  void see_tokens(const StepInputs& inputs) {
    seen_.assign(inputs.input_ids.begin(), inputs.input_ids.end());
    const auto width = static_cast<size_t>(width_of_images);
    EXPECT_EQ(inputs.image_embeddings.size(), inputs.image_indices.size() * width);
    for (size_t row = 0; row < inputs.image_indices.size(); ++row) {
      float sum = 1000;
      for (size_t i = 0; i < width; ++i) sum += inputs.image_embeddings[row * width + i];
      seen_.at(static_cast<size_t>(inputs.image_indices[row])) = static_cast<int32_t>(sum);
    }
    for (size_t token = 0; mrope && token < seen_.size(); ++token)
      for (size_t axis = 0; axis < 3; ++axis)
        seen_[token] = static_cast<int32_t>(static_cast<uint32_t>(seen_[token]) * 41 +
                                            static_cast<uint32_t>(inputs.positions[3 * token + axis]));
  }
  size_t slot_of(const StepInputs& inputs, size_t sequence, int32_t position) const {
    const auto at = static_cast<size_t>(position / block_size_);
    EXPECT_LT(at, static_cast<size_t>(inputs.table_width));
    const int32_t block = inputs.block_table[sequence * static_cast<size_t>(inputs.table_width) + at];
    EXPECT_TRUE(block >= 0 && block < blocks_) << block;
    return static_cast<size_t>(block) * static_cast<size_t>(block_size_) + static_cast<size_t>(position % block_size_);
  }

  // As ONNX's ArgMax: the first of the largest, or of NaNs.
  static int32_t likeliest(std::span<const float> row) {
    size_t best = 0;
    for (size_t i = 1; i < row.size() && row[best] == row[best]; ++i)
      if (row[i] > row[best] || row[i] != row[i]) best = i;
    return static_cast<int32_t>(best);
  }

  int32_t block_size_, blocks_, vocabulary_;
  std::vector<Slot> cache_, host_;
  std::vector<int32_t> seen_;
  std::vector<float> logits_;
  std::vector<int32_t> likeliest_;
  std::vector<float> largest_;
  struct Step {  // that was started, and what it found
    std::vector<int32_t> likeliest;
    std::vector<float> largest;
  };
  std::vector<Step> started_;
  Step last_, finished_;
  std::vector<int32_t> visible_;
};

}  // namespace camshaft::llm
