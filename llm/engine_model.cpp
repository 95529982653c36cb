#include "llm/engine_model.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "camshaft/error.hpp"

namespace camshaft::llm {

namespace {

// In the order of run().
constexpr const char* step_inputs[] = {"input_ids",    "positions",   "cumulative_sequence_length",
                                       "past_seqlens", "block_table", "logits_indices",
                                       "lora_ids"};
constexpr size_t lora_place = 6;
// Behind them, of engines with cross attention.
constexpr const char* cross_inputs[] = {"cross_seqlens", "cross_block_table"};

[[noreturn]] void refuse_engine(const std::string& what) {
  throw Error(ErrorCode::invalid_argument,
              "the engine is no language model: " + what + "; `camshaft llm build` makes engines that are");
}

const TensorInfo& named(const std::vector<TensorInfo>& infos, const std::string& name, const char* kind) {
  const auto found = std::ranges::find(infos, name, &TensorInfo::name);
  if (found == infos.end()) refuse_engine("it has no " + std::string(kind) + " " + name);
  return *found;
}

bool has_hidden_states(const Engine& engine) {
  return std::ranges::any_of(engine.outputs(), [](const TensorInfo& info) { return info.name == "hidden_states"; });
}

bool has_input(const Engine& engine, std::string_view name) {
  return std::ranges::any_of(engine.inputs(), [&](const TensorInfo& info) { return info.name == name; });
}

// What each layer keeps from step to step; scales where the caches have 8 bits.
constexpr const char* kinds[] = {"key_cache", "value_cache", "key_scales", "value_scales"};

bool is_of_scales(const std::string& name) {
  return name.find("_scales.") != std::string::npos;
}

// Of one of these: the sizes behind the first, which is the number of blocks.
Dims block_dims(const TensorInfo& cache) {
  Dims dims = cache.dims;
  const bool has_scales = is_of_scales(cache.name);
  if (dims.size() != (has_scales ? 3 : 4) || dims[0] >= 0 ||
      std::ranges::any_of(dims.begin() + 1, dims.end(), [](int64_t d) { return d < 1; }))
    refuse_engine("its input " + cache.name + " is " + cache.type + ", which should be [blocks, block_size, kv_heads" +
                  (has_scales ? "]" : ", head_size]") + " with the first size open");
  dims.erase(dims.begin());
  return dims;
}

constexpr const char *own = "", *cross = "cross_";

// The inputs of a layer that it keeps, `of` its own or the cross attention's.
std::vector<const TensorInfo*> kept_by(const Engine& engine, int32_t layer, const char* of) {
  std::vector<const TensorInfo*> kept;
  const std::string number = "." + std::to_string(layer);
  for (const char* kind : kinds) {
    const std::string name = std::string(of) + kind + number;
    if (const auto found = std::ranges::find(engine.inputs(), name, &TensorInfo::name); found != engine.inputs().end())
      kept.push_back(&*found);
    else if (!is_of_scales(name))
      refuse_engine("it has no input " + name);
  }
  return kept;
}

size_t block_bytes(const TensorInfo& cache) {
  int64_t count = 1;
  for (const int64_t size : block_dims(cache)) count *= size;
  return byte_size(cache.dtype, count);
}

ContextOptions options_of(int threads) {
  ContextOptions options;
  if (threads > 0) options.set("threads", threads);
  return options;
}

}  // namespace

EngineModel::Cache EngineModel::cache_of(const Engine& engine) {
  Cache cache;
  for (const TensorInfo& input : engine.inputs())
    if (input.name.rfind("key_cache.", 0) == 0) ++cache.layers;
  for (int32_t layer = 0; layer < cache.layers; ++layer)
    for (const TensorInfo* kept : kept_by(engine, layer, own)) {
      cache.block_bytes += block_bytes(*kept);
      cache.block_size = static_cast<int32_t>(block_dims(*kept)[0]);
    }
  if (cache.layers == 0 && !has_hidden_states(engine)) refuse_engine("it has no input key_cache.0");
  const auto table = std::ranges::find(engine.inputs(), cross_inputs[1], &TensorInfo::name);
  if (table == engine.inputs().end()) return cache;
  if (table->dims.size() != 2 || table->dims[1] < 1 || table->dims[1] > std::numeric_limits<int32_t>::max())
    refuse_engine("its input " + table->name + " is " + table->type + ", which should be [sequences, blocks of one]");
  cache.cross.table_width = static_cast<int32_t>(table->dims[1]);
  for (int32_t layer = 0; layer < cache.layers; ++layer)
    for (const TensorInfo* kept : kept_by(engine, layer, cross)) {
      cache.cross_block_bytes += block_bytes(*kept);
      cache.cross.block_size = static_cast<int32_t>(block_dims(*kept)[0]);
    }
  return cache;
}

EngineModel::EngineModel(const Engine& engine, int32_t num_blocks, int threads, int32_t num_cross_blocks,
                         int32_t max_loras)
    : device_(engine.device()), context_(engine.create_context(options_of(threads))) {
  const Cache cache = cache_of(engine);
  const auto add_input = [&](const char* name) {
    const bool is_of_caches = name == std::string_view("past_seqlens") || name == std::string_view("block_table");
    const bool is_of_loras = name == std::string_view(step_inputs[lora_place]);
    if ((is_of_caches && cache.layers == 0) || (is_of_loras && !has_input(engine, name))) {
      inputs_.push_back({});
      return;
    }
    if (named(engine.inputs(), name, "input").dtype != DType::i32)
      refuse_engine("its input " + std::string(name) + " is not of i32");
    inputs_.push_back({name, nullptr, {}});
  };
  for (const char* name : step_inputs) add_input(name);
  cross_ = cache.cross;
  if (cross_.table_width > 0) {
    for (const char* name : cross_inputs) add_input(name);
    cross_.blocks = num_cross_blocks;
    if (num_cross_blocks < 1)
      throw Error(ErrorCode::invalid_argument, "num_cross_blocks is " + std::to_string(num_cross_blocks) +
                                                   ", and the engine's cross attention needs 1 or more");
  }
  find_image_inputs(engine);
  find_outputs(engine);
  if (inputs_[lora_place].name != nullptr) add_loras(engine, max_loras);
  for (int32_t layer = 0; layer < cache.layers; ++layer) {
    for (const TensorInfo* kept : kept_by(engine, layer, own)) {
      const std::string input = kept->name, kind = input.substr(0, input.find('.'));
      const TensorInfo& output = named(engine.outputs(), kind + "_out." + std::to_string(layer), "output");
      if (output.aliased_input != input)
        refuse_engine("its output " + output.name + " does not update " + input + " in place");
      Tensor memory = bound_memory(*kept, num_blocks);
      context_.bind_output(output.name, const_cast<std::byte*>(memory.data()), memory.bytes(), memory.device());
      layers_.push_back({input, output.name, std::move(memory), block_bytes(*kept)});
    }
    if (cross_.table_width == 0) continue;
    for (const TensorInfo* kept : kept_by(engine, layer, cross))
      cross_layers_.push_back({kept->name, {}, bound_memory(*kept, num_cross_blocks), block_bytes(*kept)});
  }
}

// A step that was started ahead, and that nobody wanted, may still use what goes before the context.
EngineModel::~EngineModel() {
  try {
    if (!device_.is_host()) context_.synchronize();
  } catch (const Error&) {  // nobody asks any more
  }
}

// Of so many blocks, as an input.
Tensor EngineModel::bound_memory(const TensorInfo& info, int32_t blocks) {
  Dims dims = block_dims(info);
  dims.insert(dims.begin(), blocks);
  // Zeros: attention may multiply what nobody has written by weights of 0.
  Tensor memory(info.dtype, dims);
  if (!device_.is_host()) memory = memory.copy(to_string(device_));
  context_.set_input_shape(info.name, dims);
  context_.bind_input(info.name, memory.data(), memory.bytes(), memory.device());
  return memory;
}

void EngineModel::add_loras(const Engine& engine, int32_t max_loras) {
  // A step that names no adapter has zeros to look at.
  max_loras_ = std::max(max_loras, 0);
  for (const TensorInfo& input : engine.inputs()) {
    if (!input.name.starts_with("lora_a.") && !input.name.starts_with("lora_b.")) continue;
    if (input.dims.size() != 3 || input.dims[0] >= 0 || input.dims[1] < 1 || input.dims[2] < 1)
      refuse_engine("its input " + input.name + " is " + input.type +
                    ", which should be matrices with the first size open");
    loras_.push_back({input.name, Tensor(input.dtype, {std::max(max_loras_, 1), input.dims[1], input.dims[2]}), {}});
    context_.set_input_shape(input.name, loras_.back().host.dims());
    bind_lora(loras_.back());
  }
}

void EngineModel::bind_lora(LoraMatrices& matrices) {
  if (!device_.is_host()) matrices.device = matrices.host.copy(to_string(device_));
  const Tensor& bound = device_.is_host() ? matrices.host : matrices.device;
  context_.bind_input(matrices.input, bound.data(), bound.bytes(), bound.device());
}

void EngineModel::set_lora(int32_t lora, const std::map<std::string, std::span<const std::byte>>& matrices) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_argument, what); };
  if (lora < 0 || lora >= max_loras_)
    refuse("there is no adapter " + std::to_string(lora) + ": max_loras is " + std::to_string(max_loras_));
  const auto bytes_of = [&](const LoraMatrices& each) {
    return each.host.bytes() / static_cast<size_t>(each.host.dims()[0]);
  };
  for (const auto& [name, values] : matrices) {
    const auto found = std::ranges::find(loras_, name, &LoraMatrices::input);
    if (found == loras_.end()) refuse("the engine has no matrices " + name + " of adapters");
    if (values.size() != bytes_of(*found))
      refuse("the matrix " + name + " has " + std::to_string(values.size()) + " bytes; the engine's have " +
             std::to_string(bytes_of(*found)));
  }
  if (!device_.is_host()) context_.synchronize();  // a step that was started ahead reads them
  for (LoraMatrices& each : loras_) {
    const size_t bytes = bytes_of(each);
    std::byte* const to = each.host.mutable_data() + static_cast<size_t>(lora) * bytes;
    const auto found = matrices.find(each.input);
    if (found == matrices.end())
      std::memset(to, 0, bytes);
    else
      std::memcpy(to, found->second.data(), bytes);
    if (!device_.is_host()) bind_lora(each);
  }
}

std::vector<std::pair<std::string, const Tensor*>> EngineModel::cross_memory() const {
  std::vector<std::pair<std::string, const Tensor*>> memory;
  for (const Layer& layer : cross_layers_) memory.emplace_back(layer.input, &layer.memory);
  return memory;
}

void EngineModel::find_image_inputs(const Engine& engine) {
  const TensorInfo& positions = named(engine.inputs(), "positions", "input");
  has_mrope_ = positions.dims.size() == 2;
  if (has_mrope_ && positions.dims[1] != 3)
    refuse_engine("its input positions is " + positions.type + ", which should be i32[tokens], or [tokens, 3]");
  const auto rows = std::ranges::find(engine.inputs(), "image_embeddings", &TensorInfo::name);
  if (rows == engine.inputs().end()) return;
  if (rows->dtype != DType::f32 || rows->dims.size() != 2 || rows->dims[1] < 1)
    refuse_engine("its input image_embeddings is " + rows->type + ", which should be f32[image rows, width]");
  if (named(engine.inputs(), "image_indices", "input").dtype != DType::i32)
    refuse_engine("its input image_indices is not of i32");
  image_width_ = static_cast<int32_t>(rows->dims[1]);
  image_embeddings_.name = "image_embeddings";
  image_indices_.name = "image_indices";
}

void EngineModel::find_outputs(const Engine& engine) {
  const auto width_of = [&](const char* name, const char* what) {
    const TensorInfo& rows = named(engine.outputs(), name, "output");
    if (rows.dtype != DType::f32 || rows.dims.size() != 2 || rows.dims[1] < 1)
      refuse_engine("its output " + rows.name + " is " + rows.type + ", which should be f32[rows, " + what + "]");
    return static_cast<int32_t>(rows.dims[1]);
  };
  if (has_hidden_states(engine)) {
    hidden_size_ = width_of("hidden_states", "size");
    return;
  }
  vocabulary_ = width_of("logits", "vocabulary");
  const auto has_output = [&](std::string_view name, DType dtype) {
    return std::ranges::any_of(engine.outputs(), [&](const TensorInfo& output) {
      return output.name == name && output.dtype == dtype && output.dims.size() == 1;
    });
  };
  has_likeliest_ = has_output("likeliest", DType::i32) && has_output("largest", DType::f32);
  if (has_likeliest_ && !device_.is_host()) memory_.emplace(device_);
}

void EngineModel::make_host_blocks(int32_t count) {
  for (Layer& layer : layers_) {
    Dims dims = layer.memory.dims();
    dims[0] = count;
    layer.host = Tensor::pinned(to_string(device_), layer.memory.dtype(), dims);
  }
}

void EngineModel::copy_blocks(std::span<const BlockCopy> copies) {
  copy_blocks(copies, &Layer::memory, &Layer::memory);
}

void EngineModel::offload_blocks(std::span<const BlockCopy> copies) {
  copy_blocks(copies, &Layer::host, &Layer::memory);
}

void EngineModel::restore_blocks(std::span<const BlockCopy> copies) {
  copy_blocks(copies, &Layer::memory, &Layer::host);
}

// Neighbours that stay neighbours go in one copy: those of a prompt mostly are. Within one memory a block may be read
// that was written just before.
void EngineModel::copy_blocks(std::span<const BlockCopy> copies, Tensor Layer::*to, Tensor Layer::*from) {
  const bool is_within_one = to == from;
  for (Layer& layer : layers_) {
    auto* const into = const_cast<std::byte*>((layer.*to).data());
    const std::byte* const out_of = (layer.*from).data();
    for (size_t first = 0, end = 0; first < copies.size(); first = end) {
      for (end = first + 1; end < copies.size() && !is_within_one; ++end) {
        const auto further = static_cast<int32_t>(end - first);
        if (copies[end].from != copies[first].from + further || copies[end].to != copies[first].to + further) break;
      }
      std::byte* const begin = into + static_cast<size_t>(copies[first].to) * layer.block_bytes;
      const std::byte* const source = out_of + static_cast<size_t>(copies[first].from) * layer.block_bytes;
      const size_t bytes = (end - first) * layer.block_bytes;
      if (device_.is_host()) {
        std::memmove(begin, source, bytes);
      } else {
        context_.copy(begin, (layer.*to).device(), source, (layer.*from).device(), bytes);
      }
    }
  }
}

// `columns`: 0 for a vector.
void EngineModel::bind(Input& input, const void* data, size_t bytes, size_t rows, size_t columns, Device device) {
  const bool is_same = !input.dims.empty() && input.data == data && input.dims[0] == static_cast<int64_t>(rows) &&
                       (columns == 0 || input.dims[1] == static_cast<int64_t>(columns));
  if (is_same) return;
  input.dims.assign(1, static_cast<int64_t>(rows));
  if (columns > 0) input.dims.push_back(static_cast<int64_t>(columns));
  input.data = data;
  context_.set_input_shape(input.name, input.dims);
  context_.bind_input(input.name, data, bytes, device);
}

// Those of i32 that the engine has: their values, rows and columns (0 for a vector).
template <class Use>
void EngineModel::for_each_input(const StepInputs& inputs, const Use& use) {
  const auto each = [&](size_t number, std::span<const int32_t> values, size_t rows, size_t columns) {
    if (inputs_[number].name != nullptr) use(inputs_[number], values, rows, columns);
  };
  const size_t tokens = inputs.input_ids.size(), sequences = inputs.past.size();
  each(0, inputs.input_ids, tokens, 0);
  each(1, inputs.positions, tokens, has_mrope_ ? 3 : 0);
  each(2, inputs.cumulative, inputs.cumulative.size(), 0);
  each(3, inputs.past, sequences, 0);
  each(4, inputs.block_table, sequences, static_cast<size_t>(inputs.table_width));
  each(5, inputs.logits_indices, inputs.logits_indices.size(), 0);
  each(lora_place, inputs.lora_ids, inputs.lora_ids.size(), 0);
  if (cross_.table_width == 0) return;
  each(7, inputs.cross_seqlens, inputs.cross_seqlens.size(), 0);
  each(8, inputs.cross_block_table, inputs.cross_seqlens.size(), static_cast<size_t>(cross_.table_width));
}

void EngineModel::bind_images(const StepInputs& inputs) {
  if (image_width_ == 0) return;
  const size_t rows = inputs.image_indices.size();
  bind(image_embeddings_, inputs.image_embeddings.data(), inputs.image_embeddings.size_bytes(), rows,
       static_cast<size_t>(image_width_));
  bind(image_indices_, inputs.image_indices.data(), inputs.image_indices.size_bytes(), rows, 0);
}

StepOutputs EngineModel::run(const StepInputs& inputs) {
  if (memory_) {
    start(inputs, false);
    return finish();
  }
  for_each_input(inputs, [&](Input& input, std::span<const int32_t> values, size_t rows, size_t columns) {
    bind(input, values.data(), values.size_bytes(), rows, columns);
  });
  bind_images(inputs);
  bind_outputs(inputs.logits_indices.size());
  context_.run();
  StepOutputs outputs;
  if (hidden_size_ > 0) {
    outputs.hidden_states = hidden_states_.data();
    return outputs;
  }
  outputs.logits = logits_.data();
  if (has_likeliest_) outputs.likeliest = likeliest_.data(), outputs.largest = largest_.data();
  return outputs;
}

void EngineModel::start(const StepInputs& inputs, bool follows) {
  StepMemory& memory = *memory_;
  memory.begin();
  for_each_input(inputs, [&](Input&, std::span<const int32_t> values, size_t, size_t) { memory.add(values); });
  const size_t row_count = inputs.logits_indices.size();
  memory.send(context_, row_count, follows);
  size_t number = 0;
  for_each_input(inputs, [&](Input& input, std::span<const int32_t> values, size_t rows, size_t columns) {
    bind(input, memory.input(number++), values.size_bytes(), rows, columns, memory.device());
  });
  bind_images(inputs);
  bind_logits(row_count, inputs.reads_logits);
  if (bound_likeliest_ != memory.likeliest() || bound_rows_ != row_count) {
    bound_likeliest_ = nullptr;
    context_.bind_output("likeliest", memory.likeliest(), row_count * sizeof(int32_t), memory.device());
    context_.bind_output("largest", memory.largest(), row_count * sizeof(float), memory.device());
    bound_likeliest_ = memory.likeliest();
    bound_rows_ = row_count;
  }
  // Logits that the host reads come into memory that is not pinned, and ranks meet in a run.
  if (inputs.reads_logits || has_ranks_) {
    context_.run();
  } else {
    context_.start();
  }
  memory.bring(context_);
  started_.push_back({memory.turn(), inputs.reads_logits ? logits_.data() : nullptr});
}

StepOutputs EngineModel::finish() {
  const Started step = started_.front();
  started_.erase(started_.begin());
  if (started_.empty()) {
    context_.synchronize();
  } else {
    context_.synchronize_previous();
  }
  StepOutputs outputs;
  outputs.logits = const_cast<float*>(step.logits);
  const StepMemory::Results found = memory_->results(step.turn);
  outputs.likeliest = found.likeliest;
  outputs.largest = found.largest;
  return outputs;
}

// Memory is bound anew only where it is too small.
void EngineModel::bind_outputs(size_t rows) {
  if (hidden_size_ > 0) {
    const size_t size = rows * static_cast<size_t>(hidden_size_);
    if (hidden_states_.size() >= size) return;
    hidden_states_.resize(size);
    context_.bind_output("hidden_states", hidden_states_.data(), size * sizeof(float));
    return;
  }
  bind_logits(rows, true);
  if (!has_likeliest_ || likeliest_.size() >= rows) return;
  likeliest_.resize(rows);
  largest_.resize(rows);
  context_.bind_output("likeliest", likeliest_.data(), rows * sizeof(int32_t));
  context_.bind_output("largest", largest_.data(), rows * sizeof(float));
}

// The same, and where they go elsewhere: a GPU repeats what it has recorded of either.
void EngineModel::bind_logits(size_t rows, bool reads_logits) {
  const size_t wanted = rows * static_cast<size_t>(vocabulary_);
  if (reads_logits) {
    if (logits_.size() < wanted) logits_.resize(wanted), bound_logits_ = nullptr;
    if (bound_logits_ != logits_.data()) context_.bind_output("logits", logits_.data(), logits_.size() * sizeof(float));
    bound_logits_ = logits_.data();
    return;
  }
  if (!logits_there_.defined() || logits_there_.bytes() < wanted * sizeof(float)) {
    context_.synchronize();
    logits_there_ = Tensor(DType::f32, {static_cast<int64_t>(wanted)}).copy(to_string(device_));
    bound_logits_ = nullptr;
  }
  if (bound_logits_ != logits_there_.data())
    context_.bind_output("logits", const_cast<std::byte*>(logits_there_.data()), logits_there_.bytes(),
                         logits_there_.device());
  bound_logits_ = logits_there_.data();
}

}  // namespace camshaft::llm
