// Attention over caches in blocks, by fused multiply-adds in f32, of any floats. A block of 128 threads takes 16 rows, of
// which 8 neighbouring threads have one: thread x of these the scores of keys x + 8 · j, and sums of values x + 8 · j.

template <int tile_keys>
__device__ __forceinline__ void attend(const PagedParameters& p, const PagedPointers& at, const Complaint& complaint) {
  constexpr int tile_rows = 16, threads = 128;
  // An odd distance: rows that neighbours read lie in different banks.
  constexpr int head_pitch = head_size | 1, value_pitch = value_size, score_pitch = tile_keys + 1;
  constexpr int thread_keys = tile_keys / 8, thread_values = (value_size + 7) / 8;
  DYNAMIC_SHARED(shared);
  i32* const rows = reinterpret_cast<i32*>(shared);
  f32* const queries = reinterpret_cast<f32*>(rows + tile_keys);
  f32* const keys = queries + tile_rows * head_pitch;
  f32* const values = keys + tile_keys * head_pitch;
  f32* const probabilities = values + tile_keys * value_pitch;
  const u32 x = threadIdx.x % 8, y = threadIdx.x / 8, key_head = blockIdx.z;
  PagedTile tile;
  PagedPart part;
  const bool exists = find_part<tile_rows, tile_keys, tile_keys>(p, at, complaint, tile, part, rows,
                                                         shared + p.own_bytes, tables_are_early);
  if (tables_are_early) take_turn();
  if (blockIdx.y == 0) clear_padding_tokens(p, at, tile, key_head);
  if (!exists) return;
  const u32 pieces = part.pieces<tile_keys>();

  for (int i = threadIdx.x; i < tile_rows * head_size; i += threads) {
    const int r = i / head_size, c = i % head_size;
    const u32 row = tile.first_row + r;
    queries[r * head_pitch + c] =
        row < tile.end_row ? widen(at.query[place_of(p, tile, key_head, row) * head_size + c]) : 0.0f;
  }
  const u32 own = tile.first_row + y;
  const i64 position = position_of(p, tile, own < tile.end_row ? own : tile.end_row - 1);
  const i64 first = first_seen(p, position), end = end_seen(p, tile, position), last = end < part.end ? end : part.end;
  const f32* const bias = bias_of(p, at, place_of(p, tile, key_head, own < tile.end_row ? own : tile.end_row - 1));
  f32 sums[thread_values] = {};
  f32 largest = -infinity(), total = 0;

#pragma unroll 1
  for (u32 piece = 0; piece < pieces; ++piece) {
    const i64 first_key = part.begin + i64(piece) * tile_keys;
    __syncthreads();  // the piece before has been used
    if (piece > 0)
      for (u32 k = threadIdx.x; k < tile_keys; k += threads) {
        const i64 position = first_key + k;
        rows[k] = cache_row(p, entry_of(p, at, tile, position, part.end), position, part.end, key_head, complaint);
      }
    __syncthreads();
#pragma unroll 4
    for (int i = threadIdx.x; i < tile_keys * head_size; i += threads) {
      const int k = i / head_size, c = i % head_size;
      const i64 row = rows[k];
      keys[k * head_pitch + c] =
          row < 0 ? 0.0f : cached<key_scaled>(at.keys[row * head_size + c], at.key_scales, row);
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < tile_keys * value_size; i += threads) {
      const int k = i / value_size, c = i % value_size;
      const i64 row = rows[k];
      values[k * value_pitch + c] =
          row < 0 ? 0.0f : cached<value_scaled>(at.values[row * value_size + c], at.value_scales, row);
    }
    __syncthreads();
    f32 scores[thread_keys] = {};
#pragma unroll 4
    for (int d = 0; d < head_size; ++d) {
      const f32 q = queries[y * head_pitch + d];
#pragma unroll
      for (int j = 0; j < thread_keys; ++j) scores[j] = fmaf(q, keys[(x + 8 * j) * head_pitch + d], scores[j]);
    }
    f32 top = -infinity();
#pragma unroll
    for (int j = 0; j < thread_keys; ++j) {
      const i64 key = first_key + x + 8 * j;
      scores[j] = key < first || key >= last ? -infinity() : scaled(p, scores[j], bias, key - position);
      top = fmaxf(top, scores[j]);
    }
    top = fmaxf(largest, combine_lanes(top, 8, [](f32 a, f32 b) { return fmaxf(a, b); }));
    const f32 reference = reference_of(top), shrink = power(largest - reference);
    largest = top;
    total *= shrink;
#pragma unroll
    for (int v = 0; v < thread_values; ++v) sums[v] *= shrink;
#pragma unroll
    for (int j = 0; j < thread_keys; ++j) {
      const f32 probability = power(scores[j] - reference);
      total += probability;
      probabilities[y * score_pitch + x + 8 * j] = probability;
    }
    __syncwarp();  // a row's probabilities are used by the threads that have made them
#pragma unroll 2
    for (int k = 0; k < tile_keys; ++k) {
      const f32 left = probabilities[y * score_pitch + k];
#pragma unroll
      for (int v = 0; v < thread_values; ++v)
        if (x + 8 * v < value_size) sums[v] = fmaf(left, values[k * value_pitch + x + 8 * v], sums[v]);
    }
  }

  total = combine_lanes(total, 8, [](f32 a, f32 b) { return a + b; });
  __syncthreads();  // keys and values have been used
  // Behind the rows, at an address that rows of four columns begin at.
  f32* const found = reinterpret_cast<f32*>(rows + tile_keys);  // [tile_rows][found_pitch]
#pragma unroll
  for (int v = 0; v < thread_values; ++v)
    if (x + 8 * v < value_size) found[y * found_pitch + x + 8 * v] = sums[v];
  if (x == 0) {
    found[y * found_pitch + value_columns] = largest;
    found[y * found_pitch + value_columns + 1] = total;
  }
  finish_part<tile_rows, 1>(p, at, tile, found, shared + p.own_bytes, reinterpret_cast<u32*>(rows));
}
