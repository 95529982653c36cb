#include "runtime/streamed_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/available_memory.h"
#include "base/format_bytes.h"
#include "base/resident_parts.h"
#include "compile/layer_name.h"
#include "runtime/device_weight_stream.h"
#include "runtime/file_weight_stream.h"
#include "runtime/step_weights.h"

namespace camshaft {

namespace {

// Huge pages need whole ones; what is smaller is streamed in finer pieces.
constexpr size_t large_block = size_t{2} << 20;
constexpr size_t least_for_large = size_t{256} << 20;
// Of a device's: each is mapped, and copied, by itself.
constexpr size_t most_blocks = 2048;

/// The step whose weights take most, for messages.
std::string largest_step(const Engine::Impl& engine, const StepBlocks& steps) {
  const auto largest =
      std::max_element(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (largest == steps.end()) return "";
  const PlanStep& step = engine.plan.steps[static_cast<size_t>(largest - steps.begin())];
  return layer_name(step.name, step.sources);
}

}  // namespace

StreamableWeights::StreamableWeights(const Engine::Impl& engine)
    : engine_(engine), queue_(engine.backend->make_queue()) {
  if (is_on_device()) {
    find_on_device();
  } else if (!engine.file) {
    fixed_bytes_ = static_cast<int64_t>(engine.weight_bytes());
  } else {
    find_in_file();
  }
}

void StreamableWeights::find_on_device() {
  image_ = lay_out_weights(engine_.plan, queue_->device());
  streamable_bytes_ = static_cast<int64_t>(image_.bytes);
  const size_t granularity = queue_->block_granularity();
  const size_t most = most_blocks * granularity;
  blocks_ = blocks_of(image_, granularity * std::max<size_t>((image_.bytes + most - 1) / most, 1));
}

void StreamableWeights::find_in_file() {
  const std::byte* const begin = engine_.file->data();
  const size_t size = engine_.file->size();
  const auto steps = step_weights(engine_.plan, engine_.graph);
  std::map<const std::byte*, size_t> parts;  // of the file and of memory; each once
  for (const std::vector<StepWeight>& step : steps)
    for (const StepWeight& weight : step) {
      size_t& bytes = parts[weight.bytes.data()];
      bytes = std::max(bytes, weight.bytes.size());
    }
  const auto is_in_file = [&](const std::byte* data) { return data >= begin && data < begin + size; };
  for (const auto& [data, bytes] : parts)
    (is_in_file(data) ? streamable_bytes_ : fixed_bytes_) += static_cast<int64_t>(bytes);
  blocks_.block_bytes =
      streamable_bytes_ >= static_cast<int64_t>(least_for_large) ? large_block : ResidentParts::alignment;
  blocks_.count = (size + blocks_.block_bytes - 1) / blocks_.block_bytes;
  for (const std::vector<StepWeight>& step : steps) {
    std::vector<ByteRange> ranges, without_tables;
    for (const StepWeight& weight : step) {
      if (!is_in_file(weight.bytes.data())) continue;
      ranges.push_back({static_cast<size_t>(weight.bytes.data() - begin), weight.bytes.size()});
      if (!weight.is_table) without_tables.push_back(ranges.back());
    }
    blocks_.steps.push_back(blocks_of(ranges, blocks_.block_bytes));
    without_tables_.push_back(blocks_of(without_tables, blocks_.block_bytes));
  }
}

size_t StreamableWeights::least_blocks(const StepBlocks& steps) const {
  return camshaft::least_blocks(steps, blocks_.count, far_uses());
}

bool StreamableWeights::has_room(int64_t budget, const StepBlocks& steps) const {
  return budget >= fixed_bytes_ + static_cast<int64_t>(least_blocks(steps) * blocks_.block_bytes);
}

// Where the budget has no room for a whole table, its rows are read from the file as they are looked up: the mapping
// brings them, and they go when the next run begins.
WeightBlocks StreamableWeights::blocks_within(int64_t budget) const {
  WeightBlocks blocks = blocks_;
  if (!without_tables_.empty() && !has_room(budget, blocks_.steps)) blocks.steps = without_tables_;
  return blocks;
}

int64_t StreamableWeights::least_budget() const {
  const size_t whole = least_blocks(blocks_.steps);
  const size_t blocks = without_tables_.empty() ? whole : std::min(whole, least_blocks(without_tables_));
  return std::min(fixed_bytes_ + static_cast<int64_t>(blocks * blocks_.block_bytes), weight_bytes());
}

int64_t StreamableWeights::automatic_budget() const {
  constexpr double used = 0.9;  // what else the process takes, and the system
  // What the weights have now is theirs.
  const int64_t resident = !is_on_device()  ? 0
                           : engine_.stream ? engine_.stream->counts().resident_bytes
                           : is_placed()    ? weight_bytes()
                                            : 0;
  const int64_t free = is_on_device() ? queue_->free_bytes() + resident : static_cast<int64_t>(available_memory());
  const auto available = static_cast<int64_t>(used * static_cast<double>(free));
  return std::clamp<int64_t>(available - engine_.arena_bytes(), 0, weight_bytes());
}

StreamingPlan StreamableWeights::plan(int64_t budget, const WeightBlocks& blocks) const {
  const auto block = static_cast<int64_t>(blocks.block_bytes);
  const auto room = static_cast<size_t>(std::max<int64_t>(budget - fixed_bytes_, 0) / block);
  StreamingPlan plan = plan_streaming(blocks.steps, blocks.count, room, far_uses());
  if (budget >= fixed_bytes_ && plan.staying + plan.window <= room) return plan;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("a weight budget of {} is too small for this engine: {} reads its weights at once, those of "
                  "the next layer come in meanwhile{}; give {} bytes ({}) or more",
                  format_bytes(static_cast<size_t>(std::max<int64_t>(budget, 0))), largest_step(engine_, blocks.steps),
                  fixed_bytes_ > 0 ? fmt::format(", and {} are not in its file as this machine reads them",
                                                 format_bytes(static_cast<size_t>(fixed_bytes_)))
                                   : "",
                  least_budget(), format_bytes(static_cast<size_t>(least_budget()))));
}

bool StreamableWeights::is_placed() const {
  return std::all_of(engine_.plan.values.begin(), engine_.plan.values.end(), [&](const PlanValue& value) {
    return value.storage != Storage::constant || value.device.is_host() || value.uploaded;
  });
}

std::unique_ptr<WeightStream> StreamableWeights::make_stream(int64_t budget, Plan& plan) const {
  if (is_on_device()) return make_device_stream(budget, plan);
  if (fits(budget)) return nullptr;
  WeightBlocks blocks = blocks_within(budget);
  StreamingPlan plan_of_file = this->plan(budget, blocks);
  return std::make_unique<FileWeightStream>(engine_.file, std::move(blocks), std::move(plan_of_file));
}

std::unique_ptr<WeightStream> StreamableWeights::make_device_stream(int64_t budget, Plan& plan) const {
  if (!fits(budget)) {
    auto stream = std::make_unique<DeviceWeightStream>(*engine_.backend, image_, blocks_, this->plan(budget, blocks_));
    place_weights(plan, image_, queue_->device(), stream->memory());
    return stream;
  }
  const std::shared_ptr<std::byte> memory = queue_->allocate(image_.bytes, "the weights of an engine");
  for (const WeightImage::Part& part : image_.parts) queue_->copy_to_device(memory.get() + part.offset, part.bytes);
  queue_->synchronize();
  place_weights(plan, image_, queue_->device(), memory);
  return nullptr;
}

WeightStreaming describe_streaming(const Engine::Impl& engine) {
  const StreamableWeights weights(engine);
  WeightStreaming now;
  now.weight_bytes = now.staying_bytes = weights.weight_bytes();
  now.streamable_bytes = weights.streamable_bytes();
  now.least_budget = engine.file || weights.is_on_device() ? weights.least_budget() : -1;
  now.automatic_budget = weights.automatic_budget();
  now.budget = engine.weight_budget;
  if (!engine.stream) return now;
  const auto block = static_cast<int64_t>(engine.stream->blocks().block_bytes);
  const StreamingPlan& plan = engine.stream->plan();
  now.staying_bytes = weights.fixed_bytes() + static_cast<int64_t>(plan.staying) * block;
  now.window_bytes = static_cast<int64_t>(plan.window) * block;
  now.loads_bytes = static_cast<int64_t>(plan.loads) * block;
  const StreamCounts counts = engine.stream->counts();
  now.brought_bytes = counts.brought_bytes;
  now.waited_seconds = counts.waited_seconds;
  return now;
}

}  // namespace camshaft
