#include "backends/cpu/kernels/pointwise/tile_program.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/half.h"
#include "backends/cpu/kernels/pointwise/tile_fusion.h"
#include "base/error.h"

namespace camshaft::cpu {
namespace {

constexpr int64_t max_tile = 1024, max_tile_bytes = 4096;
constexpr int64_t min_tile = 64;
constexpr int64_t unbounded_tile = int64_t{1} << 40;
// Of one loop: what is longer begins with a short tile, so that the rest is aligned.
constexpr int64_t longest_row = 4096;
// Half of a 32 KB L1: the tiles of the inputs and outputs pass through the other half.
constexpr int64_t buffer_budget = 16 * 1024;
// Programs without intermediates, which are run on short rows too: compilers touch every page of a larger array.
constexpr size_t table_scratch = 1024;
constexpr size_t small_scratch = 32 * 1024;
constexpr size_t large_scratch = 1024 * 1024;
constexpr int64_t uniform_slot_bytes = 8;

int64_t width_of(DType dtype) {
  return bit_width(dtype) / 8;
}

}  // namespace

// Turns the fused node list into steps: places of values, order, stores.
struct TileProgram::Builder {
  TileProgram& program;
  std::vector<TileNode> nodes;
  std::vector<int32_t> slot;  // of each node's value; buffers are numbered from `first_buffer` once placed

  int32_t first_output() const { return program.inputs_; }
  int32_t first_constant() const { return first_output() + program.outputs(); }
  int32_t first_uniform() const { return first_constant() + static_cast<int32_t>(program.constants_.size()); }
  int32_t first_buffer() const { return first_uniform() + program.uniform_slots_; }

  static bool is_leaf(const TileNode& node) {
    return node.kind == TileNode::Kind::input || node.kind == TileNode::Kind::constant;
  }

  Step step_of(const TileNode& node, int32_t out) const {
    Step step{node.kernel, node.operands, {}, out, 0};
    for (int k = 0; k < node.operands; ++k) {
      step.in[k] = slot[node.in[k]];
      if (nodes[node.in[k]].uniform) step.uniform |= 1u << k;
    }
    return step;
  }

  void build(const std::vector<int32_t>& outputs, const std::vector<DType>& stored) {
    const int32_t count = static_cast<int32_t>(nodes.size());
    slot.assign(count, -1);
    for (const TileNode& node : nodes) {
      if (node.kind == TileNode::Kind::constant) program.constants_.push_back(node.bits);
      if (node.kind == TileNode::Kind::apply && node.uniform) ++program.uniform_slots_;
    }
    int32_t constant = first_constant();
    int32_t uniform = first_uniform();
    for (int32_t i = 0; i < count; ++i) {
      if (nodes[i].kind == TileNode::Kind::input) slot[i] = nodes[i].input;
      if (nodes[i].kind == TileNode::Kind::constant) slot[i] = constant++;
      if (nodes[i].kind == TileNode::Kind::apply && nodes[i].uniform) {
        slot[i] = uniform++;
        program.uniform_steps_.push_back(step_of(nodes[i], slot[i]));
      }
    }

    // Last position at which each value is read; outputs that are stored at the end live until then.
    std::vector<int32_t> last_use(count, -1);
    int32_t last_input_use = -1;  // of any input tile, by a step
    for (int32_t i = 0; i < count; ++i) {
      if (nodes[i].kind != TileNode::Kind::apply || nodes[i].uniform) continue;
      for (int k = 0; k < nodes[i].operands; ++k) {
        last_use[nodes[i].in[k]] = i;
        const TileNode& operand = nodes[nodes[i].in[k]];
        if (operand.kind == TileNode::Kind::input && !operand.uniform) last_input_use = i;
      }
    }
    std::vector<int32_t> store(outputs.size(), 0);  // 1: a step of its own at the end
    for (size_t k = 0; k < outputs.size(); ++k) {
      const TileNode& node = nodes[outputs[k]];
      const bool converts = node.dtype != stored[k];
      const bool taken = slot[outputs[k]] >= 0;  // a leaf, uniform, or the value of an earlier output
      // Written before the last read of an input tile, the output could overwrite an input it shares memory with.
      const bool early = outputs[k] < last_input_use;
      if (converts || taken || early || is_leaf(node) || node.uniform) {
        store[k] = 1;
        last_use[outputs[k]] = count;
      } else {
        slot[outputs[k]] = first_output() + static_cast<int32_t>(k);
      }
    }
    // A value that is both stored at the end and another output's own memory is read from there: but an output stored
    // at the end that is an input's memory must be read before any direct output is written over it. Inputs passed
    // through or converted are therefore stored first of all, unless some step still reads an input tile.
    bool passes_input = false;
    for (size_t k = 0; k < outputs.size(); ++k) {
      passes_input |= store[k] && nodes[outputs[k]].kind == TileNode::Kind::input && !nodes[outputs[k]].uniform;
    }
    if (passes_input && outputs.size() > 1) {
      for (size_t k = 0; k < outputs.size(); ++k) {
        if (store[k]) continue;
        store[k] = 1;
        slot[outputs[k]] = -1;
        last_use[outputs[k]] = count;
      }
    }

    std::vector<int32_t> free_buffers;
    for (int32_t i = 0; i < count; ++i) {
      if (nodes[i].kind != TileNode::Kind::apply || nodes[i].uniform) continue;
      if (slot[i] < 0) {
        // Taken before the operands' are given back: a loop whose element widths differ cannot run in place.
        if (free_buffers.empty()) free_buffers.push_back(first_buffer() + program.buffers_++);
        slot[i] = free_buffers.back();
        free_buffers.pop_back();
      }
      program.steps_.push_back(step_of(nodes[i], slot[i]));
      for (int k = 0; k < nodes[i].operands; ++k) {
        const int32_t operand = nodes[i].in[k];
        const bool again = std::find(nodes[i].in, nodes[i].in + k, operand) != nodes[i].in + k;
        if (last_use[operand] == i && !again && slot[operand] >= first_buffer()) free_buffers.push_back(slot[operand]);
      }
    }
    // The stores. Inputs first, among them in an order of their own: two outputs may have swapped the memory of two
    // inputs only through a buffer, which no caller does; see run_row.
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t k = 0; k < outputs.size(); ++k) {
        const TileNode& node = nodes[outputs[k]];
        const bool passed = node.kind == TileNode::Kind::input && !node.uniform;
        if (!store[k] || passed != (pass == 0)) continue;
        program.steps_.push_back({find_conversion(node.dtype, stored[k]),
                                  1,
                                  {slot[outputs[k]]},
                                  first_output() + static_cast<int32_t>(k),
                                  node.uniform ? 1u : 0u});
      }
    }
  }
};

TileProgram::TileProgram(const ScalarProgram& program, std::vector<RowForm> forms)
    : inputs_(program.inputs), forms_(std::move(forms)) {
  if (static_cast<int>(forms_.size()) != program.inputs) {
    throw Error(ErrorCode::internal, "a scalar program of " + std::to_string(program.inputs) + " inputs was given " +
                                         std::to_string(forms_.size()) + " input forms");
  }
  std::vector<bool> uniform;
  for (RowForm form : forms_) uniform.push_back(form == RowForm::uniform);
  TileNodes lowered = lower_to_nodes(program, uniform);
  fuse_nodes(lowered);
  input_types_ = lowered.input_types;
  for (int32_t output : program.outputs) output_types_.push_back(program.instructions[output].dtype);
  int64_t widest = 1;
  for (const TileNode& node : lowered.nodes) {
    widest = std::max(widest, width_of(node.dtype));
    if (node.kind == TileNode::Kind::apply && !node.uniform) cost_ += node.cost;
  }
  for (int i = 0; i < inputs_; ++i) input_widths_.push_back(uniform[i] ? 0 : width_of(input_types_[i]));
  for (DType type : output_types_) output_widths_.push_back(width_of(type));
  cost_ += static_cast<int64_t>(output_types_.size());
  for (int i = 0; i < inputs_ + outputs(); ++i) {
    const int64_t width = i < inputs_ ? input_widths_[i] : output_widths_[i - inputs_];
    if (width >= anchor_width_) anchor_ = i, anchor_width_ = width;
  }

  Builder{*this, lowered.nodes, {}}.build(lowered.outputs, output_types_);

  // One loop alone leaves nothing in cache for another: it runs over all at once.
  if (buffers_ == 0 && steps_.size() == 1) tile_ = unbounded_tile;
  if (buffers_ > 0) {
    tile_ = std::clamp(buffer_budget / (buffers_ * widest) / min_tile * min_tile, min_tile,
                       std::max(max_tile, max_tile_bytes / widest));
  }
  buffer_bytes_ = tile_ * widest;
  const size_t slots =
      static_cast<size_t>(inputs_) + output_types_.size() + constants_.size() + uniform_slots_ + buffers_;
  const size_t table = (slots * sizeof(void*) + uniform_slots_ * uniform_slot_bytes + 63) / 64 * 64;
  scratch_bytes_ = table + static_cast<size_t>(buffers_ * buffer_bytes_);
  if (scratch_bytes_ > large_scratch) {
    throw Error(ErrorCode::unsupported,
                "a scalar program keeps " + std::to_string(buffers_) +
                    " intermediates at a time, more than a tile has room for; split the region");
  }
}

// Tiles behind the first begin where a cache line does.
int64_t TileProgram::first_tile(int64_t count, const void* anchor) const {
  const int64_t before = anchor_width_ == 0 ? 0 : elements_before_line(anchor, anchor_width_, count);
  if (before == 0) return std::min(count, tile_);
  return tile_ == unbounded_tile ? before : std::min(count, tile_ - 64 / anchor_width_ + before);
}

// The loops of a tile but the first and the last do not touch memory: without a wish for the next tile's lines, they
// and memory take turns. LeakyRelu of 10^6 elements took 185 us, and takes 153. In L2 the wishes would cost a tenth.
bool TileProgram::fetches_ahead(int64_t count) const {
  constexpr int64_t l2_bytes = 1 << 20;  // of most cores
  int64_t bytes = 0;
  for (const int64_t width : input_widths_) bytes += count * width;
  for (const int64_t width : output_widths_) bytes += count * width;
  return tile_ != unbounded_tile && bytes > l2_bytes;
}

void TileProgram::fetch_next_tile(void* const* slots, int64_t n) const {
  const auto fetch = [&]<int kWrites>(const void* from, int64_t width) {
    const char* begin = static_cast<const char*>(from) + n * width;
    for (int64_t at = 0; at < tile_ * width; at += 64) __builtin_prefetch(begin + at, kWrites, 3);
  };
  for (int i = 0; i < inputs_; ++i) fetch.template operator()<0>(slots[i], input_widths_[i]);
  for (int i = 0; i < outputs(); ++i) fetch.template operator()<1>(slots[inputs_ + i], output_widths_[i]);
}

void TileProgram::run_in(std::byte* scratch, int64_t count, const void* const* inputs, void* const* outputs) const {
  // Slots hold const and mutable pointers alike; only those of outputs and buffers are ever written through.
  auto* slots = reinterpret_cast<void**>(scratch);
  void** next = slots;
  for (int i = 0; i < inputs_; ++i) *next++ = const_cast<void*>(inputs[i]);
  const int output_count = this->outputs();
  for (int i = 0; i < output_count; ++i) *next++ = outputs[i];
  for (const uint64_t& constant : constants_) *next++ = const_cast<uint64_t*>(&constant);
  const size_t slot_count = static_cast<size_t>(next - slots) + uniform_slots_ + buffers_;
  std::byte* place = scratch + slot_count * sizeof(void*);
  for (int i = 0; i < uniform_slots_; ++i, place += uniform_slot_bytes) *next++ = place;
  place = scratch + (static_cast<size_t>(place - scratch) + 63) / 64 * 64;
  for (int i = 0; i < buffers_; ++i, place += buffer_bytes_) *next++ = place;

  const void* in[most_operands] = {};
  for (const Step& step : uniform_steps_) {
    for (int k = 0; k < step.operands; ++k) in[k] = slots[step.in[k]];
    step.kernel(in, slots[step.out], 1, step.uniform);
  }
  int64_t n = first_tile(count, slots[anchor_]);
  const bool fetches = fetches_ahead(count);
  for (int64_t begin = 0; begin < count; begin += n, n = std::min(tile_, count - begin)) {
    if (fetches && begin + n < count) fetch_next_tile(slots, n);
    for (const Step& step : steps_) {
      for (int k = 0; k < step.operands; ++k) in[k] = slots[step.in[k]];
      step.kernel(in, slots[step.out], n, step.uniform);
    }
    for (int i = 0; i < inputs_; ++i) slots[i] = static_cast<std::byte*>(slots[i]) + n * input_widths_[i];
    for (int i = 0; i < output_count; ++i) {
      slots[inputs_ + i] = static_cast<std::byte*>(slots[inputs_ + i]) + n * output_widths_[i];
    }
  }
}

namespace {

// Never inlined: a program of the ordinary size must not touch the stack of the largest.
template <size_t kBytes, class Body>
[[gnu::noinline]] void with_scratch(const Body& body) {
  alignas(64) std::byte scratch[kBytes];
  body(scratch);
}

}  // namespace

// A row of one loop needs no tiles, and nothing written down for each: of rows of 1000 elements in cache that took a
// fifth of the time.
bool TileProgram::is_one_loop(int64_t count) const {
  return tile_ == unbounded_tile && count <= longest_row && uniform_steps_.empty();
}

void TileProgram::run_loops(int64_t count, int64_t rows, const void* const* inputs, void* const* outputs,
                            const int64_t* steps) const {
  const Step& step = steps_.front();
  const int first_constant = inputs_ + this->outputs();
  const void* in[most_operands] = {};
  int64_t in_steps[most_operands] = {};
  for (int k = 0; k < step.operands; ++k) {
    const int slot = step.in[k];
    in[k] = slot < inputs_          ? inputs[slot]
            : slot < first_constant ? outputs[slot - inputs_]
                                    : &constants_[static_cast<size_t>(slot - first_constant)];
    in_steps[k] = steps && slot < first_constant ? steps[slot] : 0;
  }
  auto* out = static_cast<std::byte*>(outputs[step.out - inputs_]);
  for (int64_t r = 1;; ++r) {
    step.kernel(in, out, count, step.uniform);
    if (r == rows) return;
    out += steps[step.out];
    for (int k = 0; k < step.operands; ++k) in[k] = static_cast<const std::byte*>(in[k]) + in_steps[k];
  }
}

void TileProgram::run_row(int64_t count, const void* const* inputs, void* const* outputs) const {
  if (is_one_loop(count)) return run_loops(count, 1, inputs, outputs, nullptr);
  const auto body = [&](std::byte* scratch) { run_in(scratch, count, inputs, outputs); };
  if (scratch_bytes_ <= table_scratch) {
    with_scratch<table_scratch>(body);
  } else if (scratch_bytes_ <= small_scratch) {
    with_scratch<small_scratch>(body);
  } else {
    with_scratch<large_scratch>(body);
  }
}

}  // namespace camshaft::cpu
