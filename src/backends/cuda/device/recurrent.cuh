// Recurrent layers: the input's part of all gates in one product, and then a launch for each step. The generated text
// defines Element, `cell` (one of those below), `peepholes`, `input_forget`, clip() (0: none) and activate_f(), activate_g()
// and activate_h(). State and products are f32. Layout of operands as in ops/recurrent.h.

constexpr int simple_cell = 0, gru_cell = 1, lstm_cell = 2;
constexpr int gates = cell == lstm_cell ? 4 : cell == gru_cell ? 3 : 1;

__device__ __forceinline__ u32 time_of(const RecurrentParameters& shape, u32 direction, u32 step) {
  return (shape.reverse >> direction & 1) != 0 ? shape.time - 1 - step : step;
}
/// Of a state.
__device__ __forceinline__ u32 elements_of(const RecurrentParameters& shape) {
  return shape.directions * shape.batch * shape.hidden;
}

__device__ __forceinline__ f32 bounded(f32 x) {
  const f32 most = clip();
  return most > 0 ? (x < -most ? -most : x > most ? most : x) : x;
}

/// The state before the first step: zeros where no initial one is given. Without any step it is the final one.
__device__ __forceinline__ void begin_state(const RecurrentParameters& shape, const Element* h, const Element* c,
                                            f32* state_h, f32* state_c, Element* final_h, Element* final_c) {
  const u32 at = blockIdx.x * recurrent_threads + threadIdx.x;
  if (at >= elements_of(shape)) return;
  state_h[at] = h != nullptr ? widen(h[at]) : 0.0f;
  if (cell == lstm_cell) state_c[at] = c != nullptr ? widen(c[at]) : 0.0f;
  if (final_h != nullptr) final_h[at] = Narrow<Element>::from(state_h[at]);
  if (final_c != nullptr) final_c[at] = Narrow<Element>::from(state_c[at]);
}

/// projected[direction][step][batch][gate, hidden] = x · weightsᵀ + biases, for `steps` steps: tiles of 64 × 64, of which
/// each thread has 4 × 4. The GRU's third gate gets the input's bias alone.
__device__ __forceinline__ void project_inputs(const RecurrentParameters& shape, u32 steps, const Element* x,
                                               const Element* weights, const Element* biases, f32* projected) {
  constexpr int depth = 16, pitch = 64 + 4;
  __shared__ f32 left[depth][pitch], right[depth][pitch];
  const u32 direction = blockIdx.z, rows = steps * shape.batch, columns = gates * shape.hidden;
  const u32 first_row = blockIdx.y * 64, first_column = blockIdx.x * 64;
  const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  weights += u64(direction) * columns * shape.in;
  f32 sums[4][4] = {};
  for (u32 k0 = 0; k0 < shape.in; k0 += depth) {
    for (u32 i = threadIdx.x; i < 64 * depth; i += recurrent_threads) {
      const u32 k = k0 + i % depth, r = i / depth, row = first_row + r, column = first_column + r;
      f32 a = 0, b = 0;
      if (row < rows && k < shape.in) {
        const u32 step = row / shape.batch, time = time_of(shape, direction, shape.first_step + step);
        a = widen(x[(u64(time) * shape.batch + (row - step * shape.batch)) * shape.in + k]);
      }
      if (column < columns && k < shape.in) b = widen(weights[u64(column) * shape.in + k]);
      left[i % depth][r] = a;
      right[i % depth][r] = b;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < depth; ++k) {
      f32 a[4], b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        a[i] = left[k][ty * 4 + i];
        b[i] = right[k][tx + 16 * i];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const u32 row = first_row + ty * 4 + i, column = first_column + tx + 16 * j;
      if (row >= rows || column >= columns) continue;
      f32 sum = sums[i][j];
      if (biases != nullptr) {
        const Element* of_input = biases + u64(direction) * 2 * columns + column;
        sum += widen(*of_input);
        if (cell != gru_cell || column < 2 * shape.hidden) sum += widen(of_input[columns]);
      }
      projected[(u64(direction) * rows + row) * columns + column] = sum;
    }
}

/// One step of `batch_tile` rows and a unit a warp. `h` is the state before, `next_h` the one behind it; where the last
/// step's results are asked for, they go to final_h and final_c too.
__device__ __forceinline__ void advance_step(const RecurrentParameters& shape, u32 steps, u32 step,
                                             const f32* projected, const Element* recurrence, const Element* biases,
                                             const Element* peephole, const f32* h, f32* next_h, f32* c, Element* y,
                                             Element* final_h, Element* final_c) {
  const u32 lane = threadIdx.x % 32, unit = blockIdx.x * (recurrent_threads / 32) + threadIdx.x / 32;
  const u32 first = blockIdx.y * batch_tile, direction = blockIdx.z, hidden = shape.hidden;
  if (unit >= hidden) return;  // a whole warp
  f32 sums[gates][batch_tile] = {};
  const Element* const rows = recurrence + (u64(direction) * gates * hidden + unit) * hidden;
  const f32* const before = h + (u64(direction) * shape.batch + first) * hidden;
#pragma unroll 4
  for (u32 k = lane; k < hidden; k += 32) {
    f32 weight[gates];
#pragma unroll
    for (int g = 0; g < gates; ++g) weight[g] = widen(rows[u64(g) * hidden * hidden + k]);
#pragma unroll
    for (int b = 0; b < batch_tile; ++b) {
      const f32 x = first + b < shape.batch ? before[u64(b) * hidden + k] : 0.0f;
#pragma unroll
      for (int g = 0; g < gates; ++g) sums[g][b] = fmaf(weight[g], x, sums[g][b]);
    }
  }
  f32 mine[gates] = {};  // of the row that this lane finishes
#pragma unroll
  for (int g = 0; g < gates; ++g)
#pragma unroll
    for (int b = 0; b < batch_tile; ++b) {
      const f32 all = combine_lanes(sums[g][b], 32, [](f32 p, f32 q) { return p + q; });
      if (lane == b) mine[g] = all;
    }
  const u32 row = first + lane;
  if (lane >= batch_tile || row >= shape.batch) return;
  const f32* const input =
      projected + ((u64(direction) * steps + (step - shape.first_step)) * shape.batch + row) * gates * hidden + unit;
  const u64 at = (u64(direction) * shape.batch + row) * hidden + unit;
  f32 result;
  if (cell == lstm_cell) {
    f32 gate[4];
#pragma unroll
    for (int g = 0; g < gates; ++g) gate[g] = input[g * hidden] + mine[g];
    const Element* const holes = peephole + u64(direction) * 3 * hidden + unit;
    f32 state = c[at];
    if (peepholes) {
      gate[0] += widen(holes[0]) * state;
      gate[2 % gates] += widen(holes[2 * hidden]) * state;
    }
    const f32 in = activate_f(bounded(gate[0]));
    const f32 forget = input_forget ? 1 - in : activate_f(bounded(gate[2 % gates]));
    state = forget * state + in * activate_g(bounded(gate[3 % gates]));
    c[at] = state;
    if (peepholes) gate[1 % gates] += widen(holes[hidden]) * state;
    result = activate_f(bounded(gate[1 % gates])) * activate_h(bounded(state));
    if (final_c != nullptr) final_c[at] = Narrow<Element>::from(state);
  } else if (cell == gru_cell) {
    const f32 update = activate_f(bounded(input[0] + mine[0]));
    const f32 reset = activate_f(bounded(input[hidden] + mine[1 % gates]));
    const f32 bias = biases != nullptr ? widen(biases[(u64(direction) * 6 + 5) * hidden + unit]) : 0.0f;
    const f32 candidate = activate_g(bounded(input[2 * hidden] + reset * (mine[2 % gates] + bias)));
    result = (1 - update) * candidate + update * h[at];
  } else {
    result = activate_f(bounded(input[0] + mine[0]));
  }
  next_h[at] = result;
  const Element rounded = Narrow<Element>::from(result);
  const u64 time = time_of(shape, direction, step);
  if (y != nullptr) y[((time * shape.directions + direction) * shape.batch + row) * hidden + unit] = rounded;
  if (final_h != nullptr) final_h[at] = rounded;
}
