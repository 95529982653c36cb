#include "runtime/weight_image.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace camshaft {

namespace {

// As allocations are.
constexpr size_t alignment_of_weights = 256;

bool is_weight_on(const PlanValue& value, DeviceId device) {
  return value.storage == Storage::constant && value.device == device && value.constant->bytes() > 0;
}

// The plan's weights by their first bytes on the host, and which steps read them.
class WeightReaders {
 public:
  WeightReaders(const Plan& plan, DeviceId device) {
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const PlanStep& step = plan.steps[s];
      by_step.emplace_back();
      if (step.device != device) continue;
      for (const int32_t id : step.inputs) {
        if (id < 0) continue;
        const PlanValue& value = plan.values[static_cast<size_t>(plan.root(id))];
        if (is_weight_on(value, device)) add(value.constant->span());
      }
      for (const DeviceWeights& weights : step.on_device)
        if (!weights.bytes().empty()) add(weights.bytes());
    }
    for (const PlanValue& value : plan.values)  // that nobody reads
      if (is_weight_on(value, device) && !numbers_.contains(value.constant->data())) add_part(value.constant->span());
  }

  std::vector<std::span<const std::byte>> parts;
  StepBlocks by_step;  // parts

 private:
  uint32_t add_part(std::span<const std::byte> bytes) {
    parts.push_back(bytes);
    return numbers_[bytes.data()] = static_cast<uint32_t>(parts.size() - 1);
  }

  // Of the latest step.
  void add(std::span<const std::byte> bytes) {
    const auto known = numbers_.find(bytes.data());
    const uint32_t part = known == numbers_.end() ? add_part(bytes) : known->second;
    if (parts[part].size() < bytes.size()) parts[part] = bytes;
    std::vector<uint32_t>& list = by_step.back();
    if (std::find(list.begin(), list.end(), part) == list.end()) list.push_back(part);
  }

  std::map<const std::byte*, uint32_t> numbers_;
};

}  // namespace

WeightImage lay_out_weights(const Plan& plan, DeviceId device) {
  const WeightReaders readers(plan, device);
  std::vector<size_t> order(readers.parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const std::vector<bool> are_far = far_uses(readers.by_step, order.size());
  std::stable_partition(order.begin(), order.end(), [&](size_t part) { return are_far[part]; });
  WeightImage image;
  std::vector<uint32_t> place(order.size());
  for (const size_t part : order) {
    place[part] = static_cast<uint32_t>(image.parts.size());
    image.parts.push_back({readers.parts[part], image.bytes});
    image.bytes +=
        (readers.parts[part].size() + alignment_of_weights - 1) / alignment_of_weights * alignment_of_weights;
  }
  for (const std::vector<uint32_t>& step : readers.by_step) {
    std::vector<uint32_t>& parts = image.steps.emplace_back();
    for (const uint32_t part : step) parts.push_back(place[part]);
    std::sort(parts.begin(), parts.end());
  }
  return image;
}

WeightBlocks blocks_of(const WeightImage& image, size_t block_bytes) {
  WeightBlocks blocks;
  blocks.block_bytes = block_bytes;
  blocks.count = (image.bytes + block_bytes - 1) / block_bytes;
  for (const std::vector<uint32_t>& step : image.steps) {
    std::vector<ByteRange> ranges;
    for (const uint32_t part : step) ranges.push_back({image.parts[part].offset, image.parts[part].bytes.size()});
    blocks.steps.push_back(blocks_of(ranges, block_bytes));
  }
  return blocks;
}

void place_weights(Plan& plan, const WeightImage& image, DeviceId device, const std::shared_ptr<std::byte>& memory) {
  std::map<const std::byte*, size_t> offsets;
  for (const WeightImage::Part& part : image.parts) offsets[part.bytes.data()] = part.offset;
  const auto at = [&](const std::byte* data) {
    return std::shared_ptr<std::byte>(memory, memory.get() + offsets.at(data));
  };
  for (PlanValue& value : plan.values)
    if (is_weight_on(value, device)) value.uploaded = at(value.constant->data());
  for (const PlanStep& step : plan.steps)
    for (const DeviceWeights& weights : step.on_device)
      if (!weights.bytes().empty()) weights.place(at(weights.bytes().data()));
}

}  // namespace camshaft
