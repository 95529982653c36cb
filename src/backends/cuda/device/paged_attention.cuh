// Attention over caches in blocks: what its kernels share. The rows of a sequence for one head of the keys are its
// tokens' queries of all heads that share it, token by token, so that keys and values are read once for the group. A
// block takes a tile of such rows of one sequence, and one of `splits` parts of the keys that these see; of a tile's blocks
// the last one merges what they found.
//
// The generated text defines Query, Key, Value, head_size, value_size, key_scaled, value_scaled, capped, biased,
// approximate and tables_are_early.

/// Where the data is.
struct PagedPointers {
  const Query* query;
  const Key* keys;
  const Value* values;
  const i32 *starts, *past, *table;
  const f32* sink;                        ///< null: there is none
  const f32 *key_scales, *value_scales;  ///< of each row, where there are some
  const f32* relative_bias;              ///< [heads, 2·reach + 1], where scores are biased
  Query* result;
  f32* partial;
  u32* counters;  ///< of tiles and heads of the keys: how many parts are done; 0 between launches
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
  if ((p.causal ? past : length) < 0 || length > i64(p.width) * p.block_size.value) {
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
/// Column `reach` of the relative bias of a row's head.
__device__ __forceinline__ const f32* bias_of(const PagedParameters& p, const PagedPointers& at, i64 place) {
  return biased ? at.relative_bias + (place % p.heads) * (2 * i64(p.reach) + 1) + p.reach : nullptr;
}
/// Scores are exponents of 2. `bias`: bias_of() the row; `distance`: from its token to the key.
__device__ __forceinline__ f32 scaled(const PagedParameters& p, f32 product, const f32* bias, i64 distance) {
  f32 score = product * p.scale;
  if (biased) {
    const i64 reach = p.reach;
    score = fmaf(bias[distance < -reach ? -reach : distance > reach ? reach : distance], p.bias_scale, score);
  }
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

/// Merges the parts of a row in their order, by one warp, of which each lane looks after some.
__device__ __forceinline__ void merge_row(const PagedParameters& p, const PagedPointers& at, i64 place) {
  constexpr u32 of_lane = most_parts / 32, at_once = 8;
  const u32 lane = threadIdx.x % 32;
  const f32* const first = partial_of(p, at, place, 0);
  f32 top[of_lane], total = 0, weight[of_lane];
  u32 live[of_lane];  // of a part without keys there are no sums
#pragma unroll
  for (u32 j = 0; j < of_lane; ++j) {
    const u32 part = lane + 32 * j;
    const f32* const figures = first + u64(part) * (value_size + 2) + value_size;
    top[j] = part < p.splits ? figures[0] : -infinity();
    weight[j] = part < p.splits ? figures[1] : 0;
    live[j] = __ballot_sync(full_warp, top[j] != -infinity() || weight[j] != 0);
  }
  f32 largest = top[0];
#pragma unroll
  for (u32 j = 1; j < of_lane; ++j) largest = fmaxf(largest, top[j]);
  largest = combine_lanes(largest, 32, [](f32 x, f32 y) { return fmaxf(x, y); });
  const f32 reference = reference_of(largest);
#pragma unroll
  for (u32 j = 0; j < of_lane; ++j) {
    const f32 factor = power(top[j] - reference);
    total += weight[j] * factor;
    weight[j] = factor;
  }
  total = combine_lanes(total, 32, [](f32 x, f32 y) { return x + y; });
  const f32 factor = factor_of(at, u32(place % p.heads), largest, total);
  Query* const to = at.result + place * value_size;
#pragma unroll 1
  for (u32 from = 0; from < value_size; from += 32) {
    const u32 v = from + lane;
    f32 all = 0;
#pragma unroll
    for (u32 j = 0; j < of_lane; ++j) {
#pragma unroll 1
      for (u32 rest = live[j]; rest != 0;) {
        f32 sums[at_once], weights[at_once];  // asked for together
#pragma unroll
        for (u32 i = 0; i < at_once; ++i) {
          const bool exists = rest != 0;
          const u32 part = exists ? u32(__ffs(int(rest))) - 1 : 0;
          rest &= rest - 1;
          weights[i] = __shfl_sync(full_warp, weight[j], int(part));
          sums[i] = exists && v < value_size ? first[u64(part + 32 * j) * (value_size + 2) + v] : 0;
          if (!exists) weights[i] = 0;
        }
#pragma unroll
        for (u32 i = 0; i < at_once; ++i) all = fmaf(sums[i], weights[i], all);
      }
    }
    if (v < value_size) to[v] = Narrow<Query>::from(all * factor);
  }
}

/// Behind a part, by all threads: the block that comes last merges the tile's. `before` is shared, and free.
__device__ __forceinline__ void merge_behind_last(const PagedParameters& p, const PagedPointers& at, const PagedTile& tile,
                                                  u32 key_head, u32* before) {
  __threadfence();
  __syncthreads();
  u32* const counter = at.counters + blockIdx.x * p.key_heads + key_head;
  if (threadIdx.x == 0) *before = atomicAdd(counter, 1u);
  __syncthreads();
  if (*before + 1 != p.splits) return;
  __threadfence();
  if (threadIdx.x == 0) *counter = 0;
  for (u32 row = tile.first_row + threadIdx.x / 32; row < tile.end_row; row += blockDim.x / 32)
    merge_row(p, at, place_of(p, tile, key_head, row));
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

/// Asks for the rows of the cache at a slot: they come from memory to the second level of cache, whoever writes the other
/// rows meanwhile.
template <class T, int size>
__device__ __forceinline__ void fetch_row(const PagedParameters& p, const T* data, i64 slot, u32 key_head) {
  constexpr int line = 128 / sizeof(T);
  const T* const row = data + (slot * p.key_heads + key_head) * size;
#pragma unroll
  for (int i = 0; i < size; i += line) fetch_to_shared_cache(row + i);
}

/// What the block is to do, and where the first of its keys are: those of piece `begin`, which go to `slots`. Where the
/// tables are the model's inputs, and the queries are not, this is known before the kernel before has ended: that one waited
/// for who wrote them. Includes take_turn(). False where there is nothing to do.
template <int tile_rows, int tile_keys>
__device__ __forceinline__ bool begin_part(const PagedParameters& p, const PagedPointers& at, const Complaint& complaint,
                                           PagedTile& tile, u32& begin, u32& end, i64* slots) {
  const u32 key_head = blockIdx.y, part = blockIdx.z;
  if (!tables_are_early) take_turn();
  tile = find_tile<tile_rows>(p, at, blockIdx.x, complaint);
  const bool exists = tile.first_row < tile.end_row;
  if (exists) {
    take_part<tile_keys>(p, tile, part, begin, end);
    for (u32 k = threadIdx.x; k < tile_keys && begin < end; k += blockDim.x) {
      const i64 slot = slot_of(p, at, tile, tile.low + i64(begin) * tile_keys + k, complaint);
      slots[k] = slot;
      if (tables_are_early && slot >= 0) {
        fetch_row<Key, head_size>(p, at.keys, slot, key_head);
        fetch_row<Value, value_size>(p, at.values, slot, key_head);
      }
    }
  }
  if (tables_are_early) take_turn();
  if (part == 0) clear_padding_tokens(p, at, key_head);
  if (exists && begin == end && p.splits > 1) {
    leave_no_part(p, at, tile, key_head, part);
    merge_behind_last(p, at, tile, key_head, reinterpret_cast<u32*>(slots));
  }
  return exists && (begin < end || p.splits == 1);
}
