// Attention over caches in blocks: what its kernels share. The rows of a sequence for one head of the keys are its
// tokens' queries of all heads that share it, token by token, so that keys and values are read once for the group. A
// block takes a tile of such rows of one sequence, and one of `splits` parts of the keys that these see. Where a tile's
// blocks are a cluster, each of them merges what all found for its share of the results; elsewhere the last one that is
// done merges all.
//
// From the kernel before on, a cluster waits for memory once (queries, keys and values, asked for together) where tables
// are early, once for what its blocks send each other, and for the results to be written. Merging through memory waits
// five times: for its sums to be there, the counter, the figures, the sums, and the results.
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
  u32 used_tokens = 0;                                      ///< of all sequences; behind them is padding
  i64 past = 0, length = 0, low = 0, high = 0;
};

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
__device__ __forceinline__ u32 head_of(const PagedParameters& p, u32 key_head, u32 row) {
  return key_head * p.group.value + (row - divide(row, p.group) * p.group.value);
}
/// Of a row: its place among all tokens' heads.
__device__ __forceinline__ i64 place_of(const PagedParameters& p, const PagedTile& tile, u32 key_head, u32 row) {
  const u32 token = divide(row, p.group);
  return i64(tile.start + token) * p.heads + key_head * p.group.value + (row - token * p.group.value);
}

/// Tile number `number`, of `rows` rows. Sequence s has the tiles from starts[s] · group / rows + s on: at least as many
/// as it needs, whatever the lengths are, and together tokens · group / rows + sequences. Each warp looks at 32 sequences
/// at once, and has all that there is to know about them in one wait: up to 32 take one, up to 1024 two.
template <int rows>
__device__ __forceinline__ PagedTile find_tile(const PagedParameters& p, const PagedPointers& at, u32 number,
                                               const Complaint& complaint) {
  PagedTile tile;
  if (p.sequences == 0) return tile;
  const u32 lane = threadIdx.x % 32;
  const i32 used = at.starts[p.sequences];
  u32 low = 0, count = p.sequences;  // the last sequence whose tiles begin at `number` or before it is one of these
  i64 start = 0, end = 0, past = 0;
  for (;;) {
    const u32 step = (count + 31) / 32, own = lane * step < count ? low + lane * step : low;
    const i32 own_start = at.starts[own], own_end = at.starts[own + 1], own_past = at.past[own];
    const bool begins = lane * step < count && i64(own_start) * p.group.value / rows + own <= number;
    const u32 ballot = __ballot_sync(full_warp, begins || lane == 0);
    const u32 last = 31 - u32(__clz(int(ballot)));
    if (step == 1) {
      low += last;
      start = __shfl_sync(full_warp, own_start, int(last));
      end = __shfl_sync(full_warp, own_end, int(last));
      past = __shfl_sync(full_warp, own_past, int(last));
      break;
    }
    count = count - last * step < step ? count - last * step : step;
    low += last * step;
  }
  tile.used_tokens = used < 0 ? 0 : u32(used) < p.tokens ? u32(used) : p.tokens;
  const i64 first_row = (number - (start * p.group.value / rows + low)) * rows, all_rows = (end - start) * p.group.value;
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

/// The entry of the table for a position of the sequence; -1 for those behind `end`, which the block does not look at.
__device__ __forceinline__ i32 entry_of(const PagedParameters& p, const PagedPointers& at, const PagedTile& tile,
                                        i64 position, i64 end) {
  if (position >= end) return -1;
  return at.table[i64(tile.sequence) * p.width + divide(u32(position), p.block_size)];
}
/// The row of the cache, of all blocks' positions and heads, that has a position of the sequence, by its entry of the
/// table; -1 for those behind `end`, and, with a complaint, where the table names no block.
__device__ __forceinline__ i32 cache_row(const PagedParameters& p, i32 block, i64 position, i64 end, u32 key_head,
                                         const Complaint& complaint) {
  if (position >= end) return -1;
  if (block < 0 || block >= p.blocks) {
    complain(complaint, block, p.blocks, 0);
    return -1;
  }
  const u32 number = divide(u32(position), p.block_size);
  return i32((u32(block) * p.block_size.value + (u32(position) - number * p.block_size.value)) * p.key_heads + key_head);
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
__device__ __forceinline__ void clear_padding_tokens(const PagedParameters& p, const PagedPointers& at,
                                                     const PagedTile& tile, u32 key_head) {
  const u32 width = p.group.value * value_size;
  for (u32 token = tile.used_tokens + blockIdx.x; token < p.tokens; token += gridDim.x) {
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

/// Asks for a row of the cache: it comes from memory to the second level of cache, whoever writes the other
/// rows meanwhile.
template <class T, int size>
__device__ __forceinline__ void fetch_row(const T* data, i32 row) {
  constexpr int line = 128 / sizeof(T);
#pragma unroll
  for (int i = 0; i < size; i += line) fetch_to_shared_cache(data + i64(row) * size + i);
}

/// The keys [begin, end) that a block looks at.
struct PagedPart {
  i64 begin = 0, end = 0;
  template <int keys>
  __device__ __forceinline__ u32 pieces() const {
    return end > begin ? u32((end - begin + keys - 1) / keys) : 0;
  }
};

/// Of the tile's keys the part that a block takes. Those of a cluster take equally many fragments of 16; merging through
/// memory costs more than a piece that is not full.
template <int tile_keys>
__device__ __forceinline__ PagedPart part_of(const PagedParameters& p, const PagedTile& tile, u32 part) {
  const u32 keys = tile.high > tile.low ? u32(tile.high - tile.low) : 0, unit = p.is_cluster ? 16 : tile_keys;
  const u32 units = p.is_cluster ? (keys + 15) / 16 : (keys + tile_keys - 1) / tile_keys;
  const u32 each = units / p.splits, more = units - each * p.splits;  // the first ones have one more
  const u32 begin = (each * part + (part < more ? part : more)) * unit, end = begin + (each + (part < more)) * unit;
  PagedPart made;
  made.begin = tile.low + begin;
  made.end = tile.low + (end < keys ? end : keys);
  return made;
}

/// What the block is to do, and where the first of its keys are: those of its first pieces go to `rows`, of
/// `first_keys`. Where the tables are the model's inputs, and the queries are not, this is known before the kernel before
/// has ended: that one waited for who wrote them. Elsewhere it includes take_turn(). `memory`: for what comes from the
/// cluster. `fetches`: the rows are read later, and asked for at once. False where there is nothing to do.
template <int tile_rows, int tile_keys, int first_keys>
__device__ __forceinline__ bool find_part(const PagedParameters& p, const PagedPointers& at, const Complaint& complaint,
                                          PagedTile& tile, PagedPart& own, i32* rows, unsigned char* memory, bool fetches) {
  const u32 part = blockIdx.y, key_head = blockIdx.z;
  if (p.is_cluster) begin_cluster_sums(reinterpret_cast<u64*>(memory));
  if (!tables_are_early) take_turn();
  tile = find_tile<tile_rows>(p, at, blockIdx.x, complaint);
  if (tile.first_row >= tile.end_row) {
#if __CUDA_ARCH__ >= 900
    if (p.is_cluster) cluster_wait();  // none of its blocks has anything to do
#endif
    return false;
  }
  own = part_of<tile_keys>(p, tile, part);
  for (u32 k = threadIdx.x; k < first_keys; k += blockDim.x) {
    const i64 position = own.begin + k;
    const i32 row = cache_row(p, entry_of(p, at, tile, position, own.end), position, own.end, key_head, complaint);
    rows[k] = row;
    if (fetches && row >= 0) {
      fetch_row<Key, head_size>(at.keys, row);
      fetch_row<Value, value_size>(at.values, row);
    }
  }
  return true;
}

/// What threads of a block found for a row: sums of its columns, then the largest score and the sum of exponentials.
constexpr int value_columns = (value_size + 15) / 16 * 16, found_pitch = value_columns + 4;

/// Four columns of a row's result.
__device__ __forceinline__ void put_result(const PagedParameters& p, const PagedPointers& at, i64 place, u32 column,
                                           const f32 (&sum)[4], f32 factor) {
  Query* const to = at.result + place * value_size + column;
  Query x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = Narrow<Query>::from(sum[i] * factor);
  if (value_size % 4 == 0 && (p.aligned & 8) != 0) {
    store(to, x);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (column + i < value_size) to[i] = x[i];
}

/// What a cluster's block gets of the others: the figures of their rows, and of its share of the results the sums.
template <int rows>
struct PagedReceived {
  static constexpr u32 quads = (value_size + 3) / 4;  ///< of a row
  u64* barrier;                                       ///< 16 bytes, of which a phase ends once all has come
  float4* figures;                                    ///< [splits][rows]: the largest score, the sum of exponentials
  float4* sums;                                       ///< [splits][share]
  u32 share;                                          ///< of the tile's quads, row by row

  __device__ __forceinline__ PagedReceived(const PagedParameters& p, const PagedTile& tile, unsigned char* memory)
      : barrier(reinterpret_cast<u64*>(memory)),
        figures(reinterpret_cast<float4*>(memory) + 1),
        sums(figures + p.splits * rows),
        share(((tile.end_row - tile.first_row) * quads + p.splits - 1) / p.splits) {}

  /// What comes for quads [first, end).
  __device__ __forceinline__ u32 bytes(const PagedParameters& p, u32 first, u32 end) const {
    return first < end ? 16 * p.splits * (end - first + (end - 1) / quads - first / quads + 1) : 0;
  }
};

/// Gives away what a block found for its tile: `found`, in shared memory, is [shares][rows][found_pitch]. Shares are added
/// up in their order, as parts are. `memory`: for what comes from the cluster. All threads come here.
template <int rows, int shares>
__device__ __forceinline__ void finish_part(const PagedParameters& p, const PagedPointers& at, const PagedTile& tile,
                                            const f32* found, unsigned char* memory, u32* before) {
  const u32 part = blockIdx.y, key_head = blockIdx.z, threads = blockDim.x;
  constexpr u32 quads = PagedReceived<rows>::quads;
  const PagedReceived<rows> received(p, tile, memory);
  const u32 all = (tile.end_row - tile.first_row) * quads;
  const u32 first = part * received.share, end = first + received.share < all ? first + received.share : all;
  __syncthreads();  // all have been written
#if __CUDA_ARCH__ >= 900
  if (p.is_cluster) {
    if (threadIdx.x == 0) phase_barrier_expect(received.barrier, received.bytes(p, first, end));
    cluster_wait();  // all blocks have begun
  }
#endif
#pragma unroll 1
  for (u32 i = threadIdx.x; i < all; i += threads) {
    const u32 r = i / quads, q = i % quads;
    const f32* const row = found + r * found_pitch;
    f32 top = row[value_columns];
#pragma unroll
    for (int s = 1; s < shares; ++s) top = fmaxf(top, row[s * rows * found_pitch + value_columns]);
    const f32 reference = reference_of(top);
    f32 sum[4] = {}, total = 0;
#pragma unroll
    for (int s = 0; s < shares; ++s) {
      const f32* const of_share = row + s * rows * found_pitch;
      const f32 weight = shares == 1 ? 1.0f : power(of_share[value_columns] - reference);
      const float4 four = *reinterpret_cast<const float4*>(of_share + q * 4);
      total = fmaf(of_share[value_columns + 1], weight, total);
      sum[0] = fmaf(four.x, weight, sum[0]);
      sum[1] = fmaf(four.y, weight, sum[1]);
      sum[2] = fmaf(four.z, weight, sum[2]);
      sum[3] = fmaf(four.w, weight, sum[3]);
    }
    const i64 place = place_of(p, tile, key_head, tile.first_row + r);
    if (p.splits == 1) {
      put_result(p, at, place, q * 4, sum, factor_of(at, head_of(p, key_head, tile.first_row + r), top, total));
      continue;
    }
#if __CUDA_ARCH__ >= 900
    if (p.is_cluster) {
      const u32 owner = i / received.share;
      const u32 barrier = shared_address(received.barrier);
      send_to_cluster(shared_address(received.sums + part * received.share + (i - owner * received.share)), barrier, owner,
                      make_float4(sum[0], sum[1], sum[2], sum[3]));
      // The row's figures to each block that has some of it: from the first of its quads, and from that block's first.
      if (q == 0 || i == owner * received.share)
        send_to_cluster(shared_address(received.figures + part * rows + r), barrier, owner, make_float4(top, total, 0, 0));
      continue;
    }
#endif
    f32* const to = partial_of(p, at, place, part);
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (q * 4 + c < value_size) to[q * 4 + c] = sum[c];
    if (q == 0) {
      to[value_size] = top;
      to[value_size + 1] = total;
    }
  }
  if (p.splits == 1) return;
#if __CUDA_ARCH__ >= 900
  if (p.is_cluster) {
    if (first >= end) return;
    phase_barrier_wait(received.barrier, 0);
#pragma unroll 1
    for (u32 i = threadIdx.x; first + i < end; i += threads) {
      const u32 r = (first + i) / quads, q = (first + i) % quads;
      f32 top = -infinity(), total = 0, sum[4] = {};
      for (u32 s = 0; s < p.splits; ++s) top = fmaxf(top, received.figures[s * rows + r].x);
      const f32 reference = reference_of(top);
#pragma unroll 4
      for (u32 s = 0; s < p.splits; ++s) {
        const float4 figures = received.figures[s * rows + r], four = received.sums[s * received.share + i];
        const f32 weight = power(figures.x - reference);
        total = fmaf(figures.y, weight, total);
        sum[0] = fmaf(four.x, weight, sum[0]);
        sum[1] = fmaf(four.y, weight, sum[1]);
        sum[2] = fmaf(four.z, weight, sum[2]);
        sum[3] = fmaf(four.w, weight, sum[3]);
      }
      const i64 place = place_of(p, tile, key_head, tile.first_row + r);
      put_result(p, at, place, q * 4, sum, factor_of(at, head_of(p, key_head, tile.first_row + r), top, total));
    }
    return;
  }
#endif
  merge_behind_last(p, at, tile, key_head, before);
}
