// GCC 12 takes the operand that _mm512_scalef_ps leaves out for one that was forgotten.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "backends/cpu/kernels/recurrent/recurrent.h"

#include <algorithm>

#include "backends/cpu/kernels/recurrent/step_barrier.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent/recurrent.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/recurrent/recurrent_cell-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

#ifndef CAMSHAFT_CPU_RECURRENT_PART
#define CAMSHAFT_CPU_RECURRENT_PART
namespace camshaft::cpu {
namespace {

/// What one thread computes of every step.
struct RecurrentPart {
  int64_t block0, block1, row0, row1;
};

/// Rows of the state that are looked up at once; 4 KiB of sums.
constexpr int64_t kRowChunk = 16;
/// More weights than this (1 MiB) come from beyond L2: 12 % faster for 1024 units as several streams, 4 % slower for
/// 128.
constexpr int64_t kStreamedFloats = 1 << 18;

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE constexpr int64_t cell_lanes() {
  return static_cast<int64_t>(HWY_LANES(float));
}

// sums[r] = init[r] + h[r] · weights for MR rows and the NV gates of a block; `last_init`, if any, is what the last
// gate starts from.
template <int MR, int NV>
void product(const float* const* h, int64_t k_count, const float* HWY_RESTRICT w, const float* const* init,
             const float* last_init, float* sums) {
  const CellTag d;
  constexpr int64_t lanes = cell_lanes();
  // Enough sums in flight to hide the latency of the multiply-add.
  constexpr int split = MR * NV >= 8 ? 1 : MR * NV >= 4 ? 2 : 4;
  CellVec sum[split][MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      sum[0][r][v] = hn::LoadU(d, v == NV - 1 && last_init ? last_init : init[r] + v * lanes);
#pragma GCC unroll 4
      for (int s = 1; s < split; ++s) sum[s][r][v] = hn::Zero(d);
    }
  }
  const float* rows[MR];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) rows[r] = h[r];
  int64_t k = 0;
  for (; k + split <= k_count; k += split, w += split * NV * lanes) {
#pragma GCC unroll 4
    for (int s = 0; s < split; ++s) {
      CellVec weights[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) weights[v] = hn::LoadU(d, w + (s * NV + v) * lanes);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) {
        const CellVec x = hn::Set(d, rows[r][k + s]);
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) sum[s][r][v] = hn::MulAdd(x, weights[v], sum[s][r][v]);
      }
    }
  }
  for (; k < k_count; ++k, w += NV * lanes) {
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const CellVec x = hn::Set(d, rows[r][k]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[0][r][v] = hn::MulAdd(x, hn::LoadU(d, w + v * lanes), sum[0][r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
#pragma GCC unroll 4
      for (int s = 1; s < split; ++s) sum[0][r][v] = hn::Add(sum[0][r][v], sum[s][r][v]);
      hn::StoreU(sum[0][r][v], d, sums + (r * NV + v) * lanes);
    }
  }
}

// The same for one row and neighbouring blocks, whose weights lie `stride` apart: memory gives more to several streams
// than to one.
template <int Blocks, int NV>
void product_of_blocks(const float* h, int64_t k_count, const float* w, int64_t stride, const float* init,
                       const float* last_init, float* sums) {
  const CellTag d;
  constexpr int64_t lanes = cell_lanes();
  CellVec sum[Blocks][NV];
#pragma GCC unroll 4
  for (int b = 0; b < Blocks; ++b) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v)
      sum[b][v] = hn::LoadU(d, v == NV - 1 && last_init ? last_init + b * lanes : init + (b * NV + v) * lanes);
  }
  for (int64_t k = 0; k < k_count; ++k, w += NV * lanes) {
    const CellVec x = hn::Set(d, h[k]);
#pragma GCC unroll 4
    for (int b = 0; b < Blocks; ++b) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[b][v] = hn::MulAdd(x, hn::LoadU(d, w + b * stride + v * lanes), sum[b][v]);
    }
  }
#pragma GCC unroll 4
  for (int b = 0; b < Blocks; ++b) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) hn::StoreU(sum[b][v], d, sums + (b * NV + v) * lanes);
  }
}

// All rows of a block in tiles that fit the registers.
template <int NV>
void products(int64_t rows, const float* const* h, int64_t k, const float* w, const float* const* init,
              const float* last_init, float* sums) {
  constexpr int64_t lanes = cell_lanes();
  int64_t r = 0;
  const auto tile = [&](auto size) {
    constexpr int MR = decltype(size)::value;
    product<MR, NV>(h + r, k, w, init + r, last_init, sums + r * NV * lanes);
    r += MR;
  };
  if constexpr (kTiles.recurrent_rows == 6) {
    while (rows - r >= 6 && rows - r != 8) tile(std::integral_constant<int, 6>());
    while (rows - r >= 4) tile(std::integral_constant<int, 4>());
  }
  while (rows - r >= 2) tile(std::integral_constant<int, 2>());
  while (rows - r >= 1) tile(std::integral_constant<int, 1>());
}

// A few rows at one step.
struct Rows {
  int64_t count = 0;
  int64_t index[kRowChunk];
  const float* h[kRowChunk];          // the old state
  const float* projected[kRowChunk];  // of this step
  float* y[kRowChunk];
};

template <RecurrentCell cell, bool usual>
void update_cells(const RecurrentSteps& args, const RecurrentDirection& direction, int phase, const Rows& rows,
                  int64_t block, const float* sums) {
  const CellTag d;
  constexpr int64_t lanes = cell_lanes();
  const RecurrentLayout& layout = args.layout;
  const int64_t unit = block * lanes, count = std::min(lanes, layout.hidden - unit), padded = layout.padded();
  const int64_t gates = layout.phase_gates(phase);
  const CellRules rules{direction.activations, args.clip, args.input_forget};
  for (int64_t r = 0; r < rows.count; ++r, sums += gates * lanes) {
    const int64_t state = rows.index[r] * padded + unit;
    const auto sum = [&](int64_t gate) HWY_ATTR { return hn::LoadU(d, sums + gate * lanes); };
    CellVec h = hn::Zero(d);
    if constexpr (cell == RecurrentCell::rnn) {
      h = cell_function<usual, RecurrentFunction::tanh>(rules, 0, sum(0));
    } else if constexpr (cell == RecurrentCell::lstm) {
      const CellVec all[4] = {sum(0), sum(1), sum(2), sum(3)};
      CellVec c = hn::LoadU(d, direction.c + state);
      h = lstm_cell<usual>(rules, all, c, direction.peepholes ? direction.peepholes + unit : nullptr, layout.hidden,
                           count);
      hn::StoreU(c, d, direction.c + state);
    } else if constexpr (cell == RecurrentCell::gru_linear) {
      const CellVec update = cell_function<usual, RecurrentFunction::sigmoid>(rules, 0, sum(0));
      const CellVec reset = cell_function<usual, RecurrentFunction::sigmoid>(rules, 0, sum(1));
      const CellVec own = hn::LoadU(d, rows.projected[r] + block * gates * lanes + 2 * lanes);
      const CellVec next = cell_function<usual, RecurrentFunction::tanh>(rules, 1, hn::MulAdd(reset, sum(2), own));
      h = gru_mix(update, next, load_lanes(rows.h[r] + unit, count));
    } else {
      if (phase == 0) {
        const CellVec update = cell_function<usual, RecurrentFunction::sigmoid>(rules, 0, sum(0));
        const CellVec reset = cell_function<usual, RecurrentFunction::sigmoid>(rules, 0, sum(1));
        hn::StoreU(update, d, direction.update + state);
        hn::StoreU(hn::Mul(reset, load_lanes(rows.h[r] + unit, count)), d, direction.reset_h + state);
        continue;
      }
      const CellVec next = cell_function<usual, RecurrentFunction::tanh>(rules, 1, sum(0));
      h = gru_mix(hn::LoadU(d, direction.update + state), next, load_lanes(rows.h[r] + unit, count));
    }
    store_lanes(h, rows.y[r] + unit, count);
  }
}

// The rows of [row0, row1) that have step t, from `row` on; those that have not become zero in units [unit0, unit1).
Rows rows_of_step(const RecurrentSteps& args, const RecurrentDirection& direction, int64_t t, int64_t projected_step,
                  int64_t& row, int64_t row1, int64_t unit0, int64_t unit1) {
  Rows rows;
  const int64_t hidden = args.layout.hidden;
  for (; row < row1 && rows.count < kRowChunk; ++row) {
    float* y = direction.y + t * args.y_step + row * hidden;
    const int64_t length = args.lengths ? args.lengths[row] : args.time;
    if (t >= length) {
      std::fill(y + unit0, y + unit1, 0.0f);
      continue;
    }
    const bool first = direction.reverse ? t + 1 == length : t == 0;
    const float* h = direction.reverse ? y + args.y_step : y - args.y_step;
    if (first) h = direction.initial_h ? direction.initial_h + row * hidden : args.zeros;
    rows.index[rows.count] = row;
    rows.h[rows.count] = h;
    rows.projected[rows.count] = direction.projected + (projected_step * args.batch + row) * args.layout.columns();
    rows.y[rows.count++] = y;
  }
  return rows;
}

// `backwards`: from the last block to the first, so that every other step finds in L1 what the one before read last.
template <RecurrentCell cell, bool usual>
void phase_of_step(const RecurrentSteps& args, const RecurrentDirection& direction, int phase, const Rows& rows,
                   int64_t block0, int64_t block1, bool backwards) {
  constexpr int64_t lanes = cell_lanes();
  constexpr int gates = cell == RecurrentCell::rnn ? 1 : cell == RecurrentCell::lstm ? 4 : 3;
  const RecurrentLayout& layout = args.layout;
  const float* h[kRowChunk];
  const float* init[kRowChunk];
  const int64_t before = layout.first_gate(phase) * layout.padded();  // columns of the phase before
  const int64_t width = layout.phase_gates(phase) * lanes;
  const int64_t stride = width * layout.hidden;
  const float* weights = direction.recurrence + before * layout.hidden;
  for (int64_t r = 0; r < rows.count; ++r)
    h[r] = phase == 1 ? direction.reset_h + rows.index[r] * layout.padded() : rows.h[r];
  HWY_ALIGN float sums[kRowChunk * 4 * cell_lanes()];
  int64_t block = block0;
  const float* reset_bias = cell == RecurrentCell::gru_linear ? direction.reset_bias : nullptr;
  constexpr int streams = kTiles.recurrent_streams;
  const bool far = layout.packed_floats() > kStreamedFloats;
  for (; far && rows.count == 1 && block + streams <= block1; block += streams) {
    const float* start = rows.projected[0] + before + block * width;
    if constexpr (cell == RecurrentCell::gru) {
      const auto product = phase == 0 ? product_of_blocks<streams, 2> : product_of_blocks<streams, 1>;
      product(h[0], layout.hidden, weights + block * stride, stride, start, nullptr, sums);
    } else {
      product_of_blocks<streams, gates>(h[0], layout.hidden, weights + block * stride, stride, start,
                                        reset_bias ? reset_bias + block * lanes : nullptr, sums);
    }
    for (int64_t s = 0; s < streams; ++s)
      update_cells<cell, usual>(args, direction, phase, rows, block + s, sums + s * width);
  }
  for (int64_t i = block; i < block1; ++i) {
    const int64_t at = backwards ? block + block1 - 1 - i : i;
    const float* own = weights + at * stride;
    for (int64_t r = 0; r < rows.count; ++r) init[r] = rows.projected[r] + before + at * width;
    if constexpr (cell == RecurrentCell::gru) {
      if (phase == 0) {
        products<2>(rows.count, h, layout.hidden, own, init, nullptr, sums);
      } else {
        products<1>(rows.count, h, layout.hidden, own, init, nullptr, sums);
      }
    } else {
      products<gates>(rows.count, h, layout.hidden, own, init, reset_bias ? reset_bias + at * lanes : nullptr, sums);
    }
    update_cells<cell, usual>(args, direction, phase, rows, at, sums);
  }
}

template <RecurrentCell cell, bool usual>
void steps_of_cell(const RecurrentSteps& args, const RecurrentDirection& direction, int64_t done, int64_t steps,
                   const RecurrentPart& part, StepBarrier& barrier) {
  const int64_t unit0 = part.block0 * args.layout.lanes;
  const int64_t unit1 = std::min(args.layout.hidden, part.block1 * args.layout.lanes);
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t t = direction.reverse ? args.time - 1 - done - s : done + s;
    const int64_t projected_step = direction.reverse ? steps - 1 - s : s;
    for (int phase = 0; phase < args.layout.phases(); ++phase) {
      for (int64_t row = part.row0; row < part.row1;) {
        const Rows rows = rows_of_step(args, direction, t, projected_step, row, part.row1, unit0, unit1);
        phase_of_step<cell, usual>(args, direction, phase, rows, part.block0, part.block1, s % 2 == 1);
      }
      barrier.wait();
    }
  }
}

template <RecurrentCell cell>
void steps_of_direction(const RecurrentSteps& args, const RecurrentDirection& direction, int64_t done, int64_t steps,
                        const RecurrentPart& part, StepBarrier& barrier) {
  const auto run = is_usual(args, direction) ? steps_of_cell<cell, true> : steps_of_cell<cell, false>;
  run(args, direction, done, steps, part, barrier);
}

void recurrent_steps(const RecurrentSteps& args, const RecurrentDirection& direction, int64_t done, int64_t steps,
                     const RecurrentPart& part, StepBarrier& barrier) {
  switch (args.layout.cell) {
    case RecurrentCell::rnn:
      return steps_of_direction<RecurrentCell::rnn>(args, direction, done, steps, part, barrier);
    case RecurrentCell::gru:
      return steps_of_direction<RecurrentCell::gru>(args, direction, done, steps, part, barrier);
    case RecurrentCell::gru_linear:
      return steps_of_direction<RecurrentCell::gru_linear>(args, direction, done, steps, part, barrier);
    case RecurrentCell::lstm:
      return steps_of_direction<RecurrentCell::lstm>(args, direction, done, steps, part, barrier);
  }
}

int64_t recurrent_lanes() {
  return cell_lanes();
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/thread_pool.h"

namespace camshaft::cpu {

HWY_EXPORT(recurrent_steps);
HWY_EXPORT(recurrent_lanes);

namespace {

// Nanoseconds of a step on one thread: its weights come from L2 at 60 GB/s or so, or its products take longer.
double step_time(const RecurrentSteps& args) {
  const auto weights = static_cast<double>(args.layout.packed_floats());
  return std::max(weights * 4 / 60, weights * 2 * static_cast<double>(args.batch) / 120);
}

// From this on the threads share the units of a step; a meeting of two takes 100 to 200 ns.
constexpr double worth_sharing_ns = 2000;

void start_state(const RecurrentSteps& args, const RecurrentDirection& direction) {
  if (args.layout.cell != RecurrentCell::lstm) return;
  const int64_t hidden = args.layout.hidden, padded = args.layout.padded();
  for (int64_t b = 0; b < args.batch; ++b) {
    float* c = direction.c + b * padded;
    std::fill_n(c, padded, 0.0f);
    if (direction.initial_c) std::copy_n(direction.initial_c + b * hidden, hidden, c);
  }
}

}  // namespace

int64_t RecurrentLayout::row_of_column(int64_t column) const {
  const int phase = phases() == 2 && column >= 2 * padded() ? 1 : 0;
  const int64_t local = column - first_gate(phase) * padded(), count = phase_gates(phase);
  const int64_t unit = local / (count * lanes) * lanes + local % lanes;
  return unit < hidden ? (first_gate(phase) + local / lanes % count) * hidden + unit : -1;
}

RecurrentLayout recurrent_layout(RecurrentCell cell, int64_t hidden) {
  return {cell, hidden, HWY_DYNAMIC_DISPATCH(recurrent_lanes)()};
}

void pack_recurrence(const RecurrentLayout& layout, const float* weights, float* packed) {
  for (int64_t column = 0; column < layout.columns(); column += layout.lanes) {
    const int phase = layout.phases() == 2 && column >= 2 * layout.padded() ? 1 : 0;
    const int64_t before = layout.first_gate(phase) * layout.padded(), width = layout.phase_gates(phase) * layout.lanes;
    const int64_t block = (column - before) / width;
    float* to = packed + (before + block * width) * layout.hidden + (column - before) % width;
    for (int64_t lane = 0; lane < layout.lanes; ++lane) {
      const int64_t row = layout.row_of_column(column + lane);
      for (int64_t k = 0; k < layout.hidden; ++k)
        to[k * width + lane] = row < 0 ? 0.0f : weights[row * layout.hidden + k];
    }
  }
}

void unpack_recurrence(const RecurrentLayout& layout, const float* packed, float* weights) {
  for (int64_t column = 0; column < layout.columns(); ++column) {
    const int64_t row = layout.row_of_column(column);
    if (row < 0) continue;
    const int phase = layout.phases() == 2 && column >= 2 * layout.padded() ? 1 : 0;
    const int64_t before = layout.first_gate(phase) * layout.padded(), width = layout.phase_gates(phase) * layout.lanes;
    const int64_t block = (column - before) / width;
    const float* from = packed + (before + block * width) * layout.hidden + (column - before) % width;
    for (int64_t k = 0; k < layout.hidden; ++k) weights[row * layout.hidden + k] = from[k * width];
  }
}

void run_recurrent(const RecurrentSteps& args, int64_t done, int64_t steps, ThreadPool& pool) {
  if (args.batch == 0 || args.layout.hidden == 0) return;
  if (done == 0)
    for (const RecurrentDirection& direction : args.directions) start_state(args, direction);
  const auto kernel = HWY_DYNAMIC_DISPATCH(recurrent_steps);
  const int64_t blocks = args.layout.blocks();
  const auto directions = static_cast<int>(args.directions.size());
  const int groups = directions == 2 && pool.size() >= 2 ? 2 : 1;  // each direction has threads of its own
  const int most = pool.size() / groups;
  // Units are shared where a step is long enough to meet after each; rows where they are many; else one thread runs.
  const double time = step_time(args);
  const bool share_units = time > worth_sharing_ns && blocks > 1;
  const auto members = static_cast<int>(
      share_units ? std::min<int64_t>({most, blocks, static_cast<int64_t>(time / (worth_sharing_ns / 2))})
                  : std::clamp<int64_t>(args.batch / 8, 1, most));
  if (groups == 1 && members == 1) {
    StepBarrier alone;
    for (const RecurrentDirection& direction : args.directions)
      kernel(args, direction, done, steps, {0, blocks, 0, args.batch}, alone);
    return;
  }
  StepBarrier barriers[2] = {StepBarrier(share_units ? members : 1), StepBarrier(share_units ? members : 1)};
  pool.run([&](int thread) {
    const int group = thread % groups, member = thread / groups;
    if (member >= members) return;
    RecurrentPart part{0, blocks, 0, args.batch};
    if (share_units) {
      part.block0 = blocks * member / members;
      part.block1 = blocks * (member + 1) / members;
    } else {
      part.row0 = args.batch * member / members;
      part.row1 = args.batch * (member + 1) / members;
    }
    // Without a barrier between members, each one has a barrier of its own.
    StepBarrier alone;
    for (int d = group; d < directions; d += groups)
      kernel(args, args.directions[static_cast<size_t>(d)], done, steps, part, share_units ? barriers[group] : alone);
  });
}

void final_h(const RecurrentSteps& args, const RecurrentDirection& direction, float* h) {
  const int64_t hidden = args.layout.hidden;
  for (int64_t b = 0; b < args.batch; ++b) {
    const int64_t length = args.lengths ? args.lengths[b] : args.time;
    const float* from = args.zeros;
    if (length > 0) from = direction.y + (direction.reverse ? 0 : length - 1) * args.y_step + b * hidden;
    // Without any steps at all the state is what it was.
    if (args.time == 0 && !args.lengths && direction.initial_h) from = direction.initial_h + b * hidden;
    std::copy_n(from, hidden, h + b * hidden);
  }
}

void final_c(const RecurrentSteps& args, const RecurrentDirection& direction, float* c) {
  const int64_t hidden = args.layout.hidden;
  for (int64_t b = 0; b < args.batch; ++b) {
    const bool stepless = args.lengths && args.lengths[b] == 0;
    std::copy_n(stepless ? args.zeros : direction.c + b * args.layout.padded(), hidden, c + b * hidden);
  }
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
