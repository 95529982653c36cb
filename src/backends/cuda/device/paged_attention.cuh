// Attention over caches in blocks: what its kernels share. The rows of a sequence for one head of the keys are its
// tokens' queries of all heads that share it, token by token, so that keys and values are read once for the group. A
// block takes a tile of such rows of one sequence, and one of `splits` parts of the keys that these see.
//
// The generated text defines Query, Key, Value, head_size, value_size, key_scaled, value_scaled, capped and approximate.

/// Where the data is.
struct PagedPointers {
  const Query* query;
  const Key* keys;
  const Value* values;
  const i32 *starts, *past, *table;
  const f32* sink;                        ///< null: there is none
  const f32 *key_scales, *value_scales;  ///< of each row, where there are some
  Query* result;
  f32* partial;
};

/// A tile: rows [first_row, end_row) of a sequence, and the keys [low, high) that they see.
struct PagedTile {
  u32 sequence = 0, start = 0, first_row = 0, end_row = 0;  ///< no rows: nothing to do
  i64 past = 0, length = 0, low = 0, high = 0;
};

/// Tokens of sequences; behind them is padding.
__device__ __forceinline__ u32 used_tokens(const PagedParameters& p, const PagedPointers& at) {
  const i32 used = p.sequences > 0 ? at.starts[p.sequences] : 0;
  return used < 0 ? 0 : u32(used) < p.tokens ? u32(used) : p.tokens;
}

/// The last sequence that begins at a token or before it. Of those without tokens, which begin there too, the last.
__device__ __forceinline__ u32 sequence_of(const PagedParameters& p, const i32* starts, u32 token) {
  u32 low = 0, high = p.sequences;
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    if (starts[middle] <= i32(token)) low = middle; else high = middle;
  }
  return low;
}

/// The keys that the token of a row sees.
__device__ __forceinline__ i64 first_seen(const PagedParameters& p, i64 position) {
  return p.window > 0 && position + 1 > p.window ? position + 1 - p.window : 0;
}
__device__ __forceinline__ i64 end_seen(const PagedParameters& p, const PagedTile& tile, i64 position) {
  return p.causal ? position + 1 : tile.length;
}
__device__ __forceinline__ i64 position_of(const PagedParameters& p, const PagedTile& tile, u32 row) {
  return tile.past + divide(row, p.group);
}
/// Of a row: its place among all tokens' heads.
__device__ __forceinline__ i64 place_of(const PagedParameters& p, const PagedTile& tile, u32 key_head, u32 row) {
  const u32 token = divide(row, p.group);
  return i64(tile.start + token) * p.heads + key_head * p.group.value + (row - token * p.group.value);
}

/// Tile number `number`, of `rows` rows. Sequence s has the tiles from starts[s] · group / rows + s on: at least as many
/// as it needs, whatever the lengths are, and together tokens · group / rows + sequences.
template <int rows>
__device__ __forceinline__ PagedTile find_tile(const PagedParameters& p, const PagedPointers& at, u32 number,
                                               const Complaint& complaint) {
  PagedTile tile;
  if (p.sequences == 0) return tile;
  const auto first_tile = [&](u32 s) { return i64(at.starts[s]) * p.group.value / rows + s; };
  u32 low = 0, high = p.sequences;
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    if (first_tile(middle) <= number) low = middle; else high = middle;
  }
  const i64 start = at.starts[low], end = at.starts[low + 1], past = at.past[low];
  const i64 first_row = (number - first_tile(low)) * rows, all_rows = (end - start) * p.group.value;
  tile.sequence = low;
  if (start < 0 || end < start || end > p.tokens || (low == 0 && start != 0)) {
    if (threadIdx.x == 0) complain(complaint, end, i64(p.tokens) + 1, 0);
    return tile;
  }
  if (first_row < 0 || first_row >= all_rows) return tile;
  const i64 length = past + end - start;
  if (past < 0 || length > i64(p.width) * p.block_size.value) {
    if (threadIdx.x == 0) complain(complaint, length, i64(p.width) * p.block_size.value + 1, 0);
    return tile;
  }
  tile.start = u32(start);
  tile.first_row = u32(first_row);
  tile.end_row = u32(first_row + rows < all_rows ? first_row + rows : all_rows);
  tile.past = past;
  tile.length = length;
  tile.low = first_seen(p, position_of(p, tile, tile.first_row));
  tile.high = end_seen(p, tile, position_of(p, tile, tile.end_row - 1));
  return tile;
}

/// The row of the cache, of all blocks' positions, that has a position of the sequence; -1 for those that no row of the
/// tile sees, and, with a complaint, where the table names no block.
__device__ __forceinline__ i64 slot_of(const PagedParameters& p, const PagedPointers& at, const PagedTile& tile,
                                       i64 position, const Complaint& complaint) {
  if (position >= tile.high) return -1;
  const u32 number = divide(u32(position), p.block_size);
  const i32 block = at.table[i64(tile.sequence) * p.width + number];
  if (block < 0 || block >= p.blocks) {
    complain(complaint, block, p.blocks, 0);
    return -1;
  }
  return i64(block) * p.block_size.value + (u32(position) - number * p.block_size.value);
}

/// An element of a row of a cache.
template <bool is_scaled, class T>
__device__ __forceinline__ f32 cached(T element, const f32* scales, i64 row) {
  const f32 x = f32(widen(element));
  return is_scaled ? x * scales[row] : x;
}

constexpr f32 log2_e = 1.44269504f;
/// Scores are exponents of 2.
__device__ __forceinline__ f32 scaled(const PagedParameters& p, f32 product) {
  const f32 score = product * p.scale;
  return log2_e * (!capped ? score : p.softcap * (approximate ? tanh_rounded(score) : tanh(score)));
}
__device__ __forceinline__ f32 power(f32 x) { return approximate ? exp2_approximate(x) : exp2(x); }

/// Where a part leaves what it found for a row: value_size sums, the largest score, the sum of exponentials.
__device__ __forceinline__ f32* partial_of(const PagedParameters& p, const PagedPointers& at, i64 place, u32 part) {
  return at.partial + (place * p.splits + part) * (value_size + 2);
}

/// What the sums of a row, whose exponentials have `total` as their sum, are multiplied by.
__device__ __forceinline__ f32 factor_of(const PagedPointers& at, u32 head, f32 largest, f32 total) {
  if (!at.sink) return 1 / total;
  const f32 sink = at.sink[head] * log2_e, top = fmaxf(largest, sink), reference = reference_of(top);
  const f32 shrink = power(largest - reference);
  return shrink / (total * shrink + power(sink - reference));
}

/// Zeros for the tokens of no sequence: all blocks of a head take some.
__device__ __forceinline__ void clear_padding_tokens(const PagedParameters& p, const PagedPointers& at, u32 key_head) {
  const u32 width = p.group.value * value_size;
  for (u32 token = used_tokens(p, at) + blockIdx.x; token < p.tokens; token += gridDim.x) {
    Query* const to = at.result + (i64(token) * p.heads + key_head * p.group.value) * value_size;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) to[i] = Narrow<Query>::from(0.0f);
  }
}

/// Merges the parts of each token's heads in their order: a warp for each.
__device__ __forceinline__ void merge_parts(const PagedParameters& p, const PagedPointers& at) {
  const u32 lane = threadIdx.x % 32;
  const i64 place = i64(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (place >= i64(p.tokens) * p.heads) return;
  Query* const to = at.result + place * value_size;
  const bool is_used = place < i64(used_tokens(p, at)) * p.heads;
  f32 largest = -infinity(), total = 0;
  const f32* const first = partial_of(p, at, place, 0);
#pragma unroll 4
  for (u32 part = 0; is_used && part < p.splits; ++part)
    largest = fmaxf(largest, first[u64(part) * (value_size + 2) + value_size]);
  const f32 reference = reference_of(largest);
#pragma unroll 4
  for (u32 part = 0; is_used && part < p.splits; ++part) {
    const f32* const figures = first + u64(part) * (value_size + 2) + value_size;
    total += figures[1] * power(figures[0] - reference);
  }
  const f32 factor = is_used ? factor_of(at, u32(place % p.heads), largest, total) : 0;
#pragma unroll 1
  for (u32 v = lane; v < value_size; v += 32) {
    f32 all = 0;
#pragma unroll 4
    for (u32 part = 0; is_used && part < p.splits; ++part) {
      const f32* const sums = first + u64(part) * (value_size + 2);
      // Of a part without keys there are no sums.
      if (sums[value_size] != -infinity() || sums[value_size + 1] != 0) all += sums[v] * power(sums[value_size] - reference);
    }
    to[v] = Narrow<Query>::from(is_used ? all * factor : 0.0f);
  }
}

/// Of the tile's keys the part that a block takes: pieces of `keys` from low on.
template <int keys>
__device__ __forceinline__ void take_part(const PagedParameters& p, const PagedTile& tile, u32 part, u32& begin, u32& end) {
  const i64 all = (tile.high - tile.low + keys - 1) / keys;
  begin = u32(all * part / p.splits);
  end = u32(all * (part + 1) / p.splits);
}

/// Leaves word that a part of a tile has no keys.
__device__ __forceinline__ void leave_no_part(const PagedParameters& p, const PagedPointers& at, const PagedTile& tile,
                                              u32 key_head, u32 part) {
  for (u32 row = tile.first_row + threadIdx.x; row < tile.end_row; row += blockDim.x) {
    f32* const figures = partial_of(p, at, place_of(p, tile, key_head, row), part) + value_size;
    figures[0] = -infinity();
    figures[1] = 0;
  }
}
