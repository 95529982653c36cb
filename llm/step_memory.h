// A GPU's memory of what a step is told and what it finds, and how both pass between there and the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "camshaft/context.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft::llm {

/// The inputs of a step go to the GPU in one copy, from pinned memory that there is twice of, so that a step is written
/// while the one before is not over; its likeliest tokens become the next one's input_ids there. Memory is taken for
/// the largest step so far.
class StepMemory {
 public:
  explicit StepMemory(Device device) : device_(device) {}

  /// Begins the next step. Call add() for each input, input_ids first, and send() then.
  void begin();
  void add(std::span<const int32_t> values);
  /// Puts the copy of what was added in front of the run that is next; with `follows`, without input_ids, which become
  /// what the step before found likeliest. Where there is not enough memory it waits, and other is taken.
  void send(Context& context, size_t rows, bool follows);
  /// Behind that run: puts the copy of what it found there.
  void bring(Context& context);

  /// On the GPU, of this step: what was added as number `input`, and the likeliest token, i32 [rows], and its logit,
  /// f32 [rows].
  const std::byte* input(size_t number) const { return inputs_.data() + places_[number].begin; }
  std::byte* likeliest() const { return const_cast<std::byte*>(results_.data()); }
  std::byte* largest() const { return likeliest() + largest_at(rows_[turn_]); }
  Device device() const { return device_; }

  /// The number of this step, which is that of the one behind the next, too.
  size_t turn() const { return turn_; }
  /// What the step of that number found, once it was waited for. Valid until the one behind the next begins.
  struct Results {
    const int32_t* likeliest = nullptr;
    const float* largest = nullptr;
  };
  Results results(size_t turn) const;

 private:
  struct Place {
    size_t begin = 0, bytes = 0;
  };
  static size_t largest_at(size_t rows);
  void make_room(Context& context, size_t input_bytes, size_t result_bytes);

  Device device_;
  Tensor inputs_, results_;                  // there
  std::array<Tensor, 2> written_, brought_;  // here, pinned: by turn
  size_t turn_ = 0;
  std::vector<Place> places_;
  std::vector<std::span<const int32_t>> added_;
  size_t bytes_ = 0;
  std::array<size_t, 2> rows_ = {};
};

}  // namespace camshaft::llm
