#include "llm/step_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace camshaft::llm {

namespace {

// Kernels read 16 bytes at once where addresses allow it.
constexpr size_t alignment = 256;

size_t aligned(size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

std::byte* writable(const Tensor& memory) {
  return const_cast<std::byte*>(memory.data());
}

// Of more than is needed now: steps grow.
void make_room_in(Tensor& there, std::array<Tensor, 2>& here, size_t bytes, Device device) {
  if (there.defined() && there.bytes() >= bytes) return;
  const Dims dims = {static_cast<int64_t>(std::bit_ceil(std::max(bytes, size_t{1} << 14)))};
  const auto pinned = [&] { return Tensor::pinned(to_string(device), DType::u8, dims); };
  std::array<Tensor, 2> more = {pinned(), pinned()};
  there = Tensor(DType::u8, dims).copy(to_string(device));
  here = std::move(more);  // all, or none where memory runs out
}

}  // namespace

size_t StepMemory::largest_at(size_t rows) {
  return aligned(rows * sizeof(int32_t));
}

void StepMemory::begin() {
  turn_ ^= 1;
  places_.clear();
  added_.clear();
  bytes_ = 0;
}

void StepMemory::add(std::span<const int32_t> values) {
  places_.push_back({bytes_, values.size_bytes()});
  added_.push_back(values);
  bytes_ = aligned(bytes_ + values.size_bytes());
}

// What is there may still be read by a step whose results nobody wanted.
void StepMemory::make_room(Context& context, size_t input_bytes, size_t result_bytes) {
  if (inputs_.defined() && inputs_.bytes() >= input_bytes && results_.bytes() >= result_bytes) return;
  context.synchronize();
  make_room_in(inputs_, written_, input_bytes, device_);
  make_room_in(results_, brought_, result_bytes, device_);
}

void StepMemory::send(Context& context, size_t rows, bool follows) {
  make_room(context, std::max(bytes_, alignment), largest_at(rows) + rows * sizeof(float));
  rows_[turn_] = rows;
  std::byte* const to = writable(written_[turn_]);
  for (size_t i = 0; i < added_.size(); ++i)
    if (!added_[i].empty()) std::memcpy(to + places_[i].begin, added_[i].data(), added_[i].size_bytes());
  const size_t first = follows && places_.size() > 1 ? places_[1].begin : 0;
  if (bytes_ > first) context.copy(writable(inputs_) + first, device_, to + first, {}, bytes_ - first);
  if (follows) context.copy(writable(inputs_), device_, results_.data(), device_, places_[0].bytes);
}

void StepMemory::bring(Context& context) {
  context.copy(writable(brought_[turn_]), {}, results_.data(), device_,
               largest_at(rows_[turn_]) + rows_[turn_] * sizeof(float));
}

StepMemory::Results StepMemory::results(size_t turn) const {
  const std::byte* const from = brought_[turn].data();
  return {reinterpret_cast<const int32_t*>(from), reinterpret_cast<const float*>(from + largest_at(rows_[turn]))};
}

}  // namespace camshaft::llm
