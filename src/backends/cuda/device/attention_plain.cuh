// Attention in f32, by fused multiply-adds. A block of 256 threads takes 16 · thread_queries queries of one outer index and
// goes over tiles of 16 · thread_keys keys. Thread (x, y) has the scores of queries thread_queries · y + i and keys
// x + 16 · j, and sums of the same queries and values x + 16 · j.

constexpr int head_padded = (head_size + 3) / 4 * 4, value_padded = (value_size + 15) / 16 * 16;
// An odd number of 16 bytes: rows that neighbours read by 16 bytes lie in different banks.
constexpr int head_pitch = head_padded / 4 % 2 == 0 ? head_padded + 4 : head_padded, value_pitch = value_padded + 4;

template <int rows, int size, int padded, int pitch>
__device__ __forceinline__ void copy_rows(f32* tile, const Element* data, const AttentionAccess& access, u32 first,
                                          u32 count, bool aligned) {
  constexpr int V = 16 / sizeof(Element);
  if (aligned) {  // then V divides the size
    constexpr int chunks = size / V > 0 ? size / V : 1;
#pragma unroll 4
    for (int i = threadIdx.x; i < rows * chunks; i += 256) {
      const int r = i / chunks, c = i % chunks * V;
      alignas(16) Element x[V] = {};
      if (first + r < count) load(data + offset_of(access.rows, first + r) + c, x);
#pragma unroll
      for (int v = 0; v < V; ++v) tile[r * pitch + c + v] = widen(x[v]);
    }
    return;
  }
  const bool along = access.column == 1;
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * size; i += 256) {
    const int r = along ? i / size : i % rows, c = along ? i % size : i / rows;
    const bool inside = first + r < count;
    tile[r * pitch + c] = inside ? widen(data[offset_of(access.rows, first + r) + c * access.column]) : 0.0f;
  }
}

/// Columns between the size and what it is padded to stay 0.
template <int rows, int size, int padded, int pitch>
__device__ __forceinline__ void clear_padding(f32* tile) {
  constexpr int width = padded - size;
  if (width > 0)
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * width; i += 256)
      tile[i / (width > 0 ? width : 1) * pitch + size + i % (width > 0 ? width : 1)] = 0;
}

template <int thread_queries, int thread_keys>
__device__ __forceinline__ void attend(const Attention& a, const Element* query, const Element* key,
                                       const Element* value, const MaskPointers& masks, Result* result, f32* partial) {
  constexpr int tile_queries = 16 * thread_queries, tile_keys = 16 * thread_keys, score_pitch = tile_keys + 4;
  constexpr int thread_values = value_padded / 16;
  DYNAMIC_SHARED(shared);
  f32* const queries = reinterpret_cast<f32*>(shared);
  f32* const keys = queries + tile_queries * head_pitch;
  f32* const values = keys + tile_keys * head_pitch;
  f32* const probabilities = values + tile_keys * value_pitch;
  const u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
  const u32 outer = divide(blockIdx.x, a.tiles), first_query = (blockIdx.x - outer * a.tiles.value) * tile_queries;
  const u32 tiles = (a.keys + tile_keys - 1) / tile_keys, begin = blockIdx.y * a.tiles_per_split;
  const u32 end = begin + a.tiles_per_split < tiles ? begin + a.tiles_per_split : tiles;
  key += a.key.offset + offset_of(a.key.outer, outer);
  value += a.value.offset + offset_of(a.value.outer, outer);
  copy_rows<tile_queries, head_size, head_padded, head_pitch>(
      queries, query + a.query.offset + offset_of(a.query.outer, outer), a.query, first_query, a.queries,
      (a.aligned & 1) != 0);
  clear_padding<tile_queries, head_size, head_padded, head_pitch>(queries);
  clear_padding<tile_keys, head_size, head_padded, head_pitch>(keys);
  clear_padding<tile_keys, value_size, value_padded, value_pitch>(values);

  MaskRow mask_rows[thread_queries];
#pragma unroll
  for (int i = 0; i < thread_queries; ++i) {
    const u32 q = first_query + y * thread_queries + i;
    mask_rows[i].locate(a, outer, q < a.queries ? q : a.queries - 1);
  }
  f32 sums[thread_queries][thread_values] = {};
  f32 largest[thread_queries], total[thread_queries];
#pragma unroll
  for (int i = 0; i < thread_queries; ++i) {
    largest[i] = -infinity();
    total[i] = 0;
  }
  const auto quad = [](const f32* from, f32(&to)[4]) { load(from, to); };

#pragma unroll 1
  for (u32 tile = begin; tile < end; ++tile) {
    __syncthreads();  // the tile before has been used
    copy_rows<tile_keys, head_size, head_padded, head_pitch>(keys, key, a.key, tile * tile_keys, a.keys,
                                                             (a.aligned & 2) != 0);
    copy_rows<tile_keys, value_size, value_padded, value_pitch>(values, value, a.value, tile * tile_keys, a.keys,
                                                                (a.aligned & 4) != 0);
    __syncthreads();
    f32 scores[thread_queries][thread_keys] = {};
#pragma unroll 2
    for (int d = 0; d < head_padded; d += 4) {
      alignas(16) f32 left[thread_queries][4], right[thread_keys][4];
#pragma unroll
      for (int i = 0; i < thread_queries; ++i) quad(queries + (y * thread_queries + i) * head_pitch + d, left[i]);
#pragma unroll
      for (int j = 0; j < thread_keys; ++j) quad(keys + (x + 16 * j) * head_pitch + d, right[j]);
#pragma unroll
      for (int i = 0; i < thread_queries; ++i)
#pragma unroll
        for (int j = 0; j < thread_keys; ++j)
#pragma unroll
          for (int e = 0; e < 4; ++e) scores[i][j] = fmaf(left[i][e], right[j][e], scores[i][j]);
    }
#pragma unroll
    for (int i = 0; i < thread_queries; ++i) {
      f32 top = -infinity();
#pragma unroll
      for (int j = 0; j < thread_keys; ++j) {
        const u32 k = tile * tile_keys + x + 16 * j;
        f32& score = scores[i][j];
        f32 one[1] = {scaled(a, score)};
        const MaskRow row[1] = {mask_rows[i]};
        if (mask_count > 0 && k < a.keys) mask_scores<false>(a, masks, row, k, one);
        score = k < a.keys ? one[0] : -infinity();
        top = fmaxf(top, score);
      }
      top = fmaxf(largest[i], combine_lanes(top, 16, [](f32 p, f32 q) { return fmaxf(p, q); }));
      const f32 reference = reference_of(top), shrink = exponential(largest[i] - reference);
      largest[i] = top;
      total[i] *= shrink;
#pragma unroll
      for (int v = 0; v < thread_values; ++v) sums[i][v] *= shrink;
#pragma unroll
      for (int j = 0; j < thread_keys; ++j) {
        const f32 p = exponential(scores[i][j] - reference);
        total[i] += p;
        probabilities[(y * thread_queries + i) * score_pitch + x + 16 * j] = p;
      }
    }
    __syncwarp();  // a row's probabilities are used by the threads that have made them
#pragma unroll 1
    for (int k = 0; k < tile_keys; k += 4) {
      alignas(16) f32 left[thread_queries][4];
#pragma unroll
      for (int i = 0; i < thread_queries; ++i)
        quad(probabilities + (y * thread_queries + i) * score_pitch + k, left[i]);
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int v = 0; v < thread_values; ++v) {
          const f32 right = values[(k + e) * value_pitch + x + 16 * v];
#pragma unroll
          for (int i = 0; i < thread_queries; ++i) sums[i][v] = fmaf(left[i][e], right, sums[i][v]);
        }
    }
  }

  result += a.result.offset + offset_of(a.result.outer, outer);
#pragma unroll
  for (int i = 0; i < thread_queries; ++i) {
    const u32 q = first_query + y * thread_queries + i;
    const f32 sum = combine_lanes(total[i], 16, [](f32 p, f32 q) { return p + q; });
    if (q >= a.queries) continue;
    if (gridDim.y > 1) {
      f32* const to = partial_of(partial, outer * a.queries + q, blockIdx.y, gridDim.y);
#pragma unroll
      for (int v = 0; v < thread_values; ++v)
        if (x + 16 * v < value_size) to[x + 16 * v] = sums[i][v];
      if (x == 0) {
        to[value_size] = largest[i];
        to[value_size + 1] = sum;
      }
      continue;
    }
    const f32 factor = factor_of(a, sum);
    Result* const to = result + offset_of(a.result.rows, q);
#pragma unroll
    for (int v = 0; v < thread_values; ++v) {
      const f32 one[1] = {factor == 0 ? 0.0f : sums[i][v] * factor};
      if (x + 16 * v < value_size) give(to + (x + 16 * v) * a.result.column, one);
    }
  }
}
