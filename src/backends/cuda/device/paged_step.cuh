// What a decoder's step does to a layer's caches, within the attention over them (a chain of ops::PagedUpdate and
// ops::PagedAttention): queries and keys are turned, keys and values stored into their slots. No block waits for another:
// a key that the step stores is taken from the step's own rows, by its slot, whatever the cache has there meanwhile. So
// caches may be read before the kernel before has ended, where no kernel but this one writes them.
//
// The generated text defines Angle, rotated and interleaved; see device/paged_attention.cuh for the rest.

/// A head's units: pairs, of which both are turned, and the elements behind them.
constexpr int pairs_of_head = rotated / 2, units_of_head = pairs_of_head + head_size - rotated;
__device__ __forceinline__ u32 first_of_unit(u32 u) {
  return u >= pairs_of_head ? u + pairs_of_head : interleaved ? 2 * u : u;
}
constexpr u32 to_second_of_unit = interleaved ? 1 : pairs_of_head;

/// The step as a block with tile_rows rows sees it.
template <int tile_rows, int tile_keys>
struct PagedStep {
  static constexpr bool exists = true;
  typedef PaddedRows Layout;

  struct Pointers {
    const Query *query, *key, *value;
    const Angle *cosines, *sines;
    Key* keys;
    Value* values;
  };

  const PagedStepParameters& step;
  Pointers from;
  i32* rows;                         ///< shared [most_step_tokens]: of the caches, for each token; -1: it is not stored
  Element *own_keys, *own_values;    ///< shared [tile_rows][head_size], [tile_rows][value_size]: of the tile's tokens
  u32 first_own = 0, count_own = 0;  ///< these tokens

  __device__ __forceinline__ PagedStep(const PagedStepParameters& p, unsigned char* shared)
      : step(p),
        from{static_cast<const Query*>(p.query),   static_cast<const Query*>(p.key),
             static_cast<const Query*>(p.value),   static_cast<const Angle*>(p.cosines),
             static_cast<const Angle*>(p.sines),   static_cast<Key*>(p.keys),
             static_cast<Value*>(p.values)},
        rows(reinterpret_cast<i32*>(shared)),
        own_keys(reinterpret_cast<Element*>(rows + most_step_tokens)),
        own_values(own_keys + tile_rows * head_size) {}

  /// Brings what the step gives: all queries of the tile, turned, the keys and values of its tokens, and where all tokens
  /// are stored. A warp takes two rows at a time, and asks for them together.
  __device__ __forceinline__ void bring(const PagedParameters& p, const PagedTile& tile, u32 key_head, Element* queries,
                                        const Complaint& complaint) {
    const u32 of_queries = tile.end_row - tile.first_row, first_token = divide(tile.first_row, p.group);
    first_own = tile.start + first_token;
    count_own = divide(tile.end_row - 1, p.group) - first_token + 1;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, all = of_queries + 2 * count_own;
    constexpr u32 at_once = 2, value_half = (value_size + 1) / 2;
    constexpr u32 of_lane = ((units_of_head > value_half ? units_of_head : value_half) + 31) / 32;
#pragma unroll 1
    for (u32 base = warp; base < all; base += at_once * warps) {
      Query x[at_once][of_lane], y[at_once][of_lane];
      Angle cosine[at_once][of_lane], sine[at_once][of_lane];
      Element* to[at_once];
      bool is_value[at_once];
#pragma unroll
      for (u32 j = 0; j < at_once; ++j) {
        const u32 row = base + j * warps, of_tile = tile.first_row + row, own = row - of_queries;
        is_value[j] = row >= of_queries + count_own;
        to[j] = nullptr;
        if (row >= all) continue;
        const Query* source;
        u32 token;
        if (row < of_queries) {
          token = tile.start + divide(of_tile, p.group);
          source = from.query + i64(token) * step.query_pitch + head_of(p, key_head, of_tile) * head_size;
          to[j] = queries + Layout::at<tile_rows, head_padded>(row, 0);
        } else if (!is_value[j]) {
          token = first_own + own;
          source = from.key + i64(token) * step.key_pitch + key_head * head_size;
          to[j] = own_keys + own * head_size;
        } else {
          token = first_own + own - count_own;
          source = from.value + i64(token) * step.value_pitch + key_head * value_size;
          to[j] = own_values + (own - count_own) * value_size;
        }
#pragma unroll
        for (u32 n = 0; n < of_lane; ++n) {
          const u32 unit = lane + 32 * n;
          const bool turns = !is_value[j] && unit < pairs_of_head;
          const u32 first = first_of(unit, is_value[j]), second = first + to_second_of(is_value[j]);
          if (unit < (is_value[j] ? value_half : units_of_head)) x[j][n] = source[first];
          if (turns || (is_value[j] && second < value_size)) y[j][n] = source[second];
          if (!turns) continue;
          cosine[j][n] = from.cosines[token * pairs_of_head + unit];
          sine[j][n] = from.sines[token * pairs_of_head + unit];
        }
      }
#pragma unroll
      for (u32 j = 0; j < at_once; ++j) {
        if (!to[j]) continue;
#pragma unroll
        for (u32 n = 0; n < of_lane; ++n) {
          const u32 unit = lane + 32 * n;
          const bool turns = !is_value[j] && unit < pairs_of_head;
          const u32 first = first_of(unit, is_value[j]), second = first + to_second_of(is_value[j]);
          if (turns) turn(x[j][n], y[j][n], cosine[j][n], sine[j][n]);
          if (unit < (is_value[j] ? value_half : units_of_head)) to[j][first] = x[j][n];
          if (turns || (is_value[j] && second < value_size)) to[j][second] = y[j][n];
        }
      }
    }
    bring_slots(p, key_head, complaint);
    // Where there is no row, and behind the last column.
#pragma unroll 1
    for (u32 i = threadIdx.x; i < tile_rows * head_padded; i += blockDim.x) {
      const u32 r = i / head_padded, c = i % head_padded;
      if (r >= of_queries || c >= head_size) queries[Layout::at<tile_rows, head_padded>(r, c)] = Element{};
    }
  }

  /// Stores the keys and values of tokens whose first row the tile has, and those of the tokens of no sequence. Behind
  /// bring() and a barrier; of a tile's parts one does.
  __device__ __forceinline__ void store(const PagedParameters& p, const PagedTile& tile, u32 key_head) const {
#pragma unroll 1
    for (u32 own = 0; own < count_own; ++own) {
      if ((first_own + own - tile.start) * p.group.value < tile.first_row) continue;
      const i64 row = stored_row(p, first_own + own);
      if (row < 0) continue;
      for (u32 c = threadIdx.x; c < head_size; c += blockDim.x) from.keys[row * head_size + c] = own_keys[own * head_size + c];
      for (u32 c = threadIdx.x; c < value_size; c += blockDim.x)
        from.values[row * value_size + c] = own_values[own * value_size + c];
    }
  }
  __device__ __forceinline__ void store_padding(const PagedParameters& p, const PagedTile& tile, u32 key_head) const {
#pragma unroll 1
    for (u32 token = tile.used_tokens + blockIdx.x; token < p.tokens; token += gridDim.x) {
      const i64 row = stored_row(p, token);
      if (row < 0) continue;
      put_turned(token, key_head, threadIdx.x, blockDim.x, [&](u32 c) { return from.keys + row * head_size + c; });
      for (u32 c = threadIdx.x; c < value_size; c += blockDim.x)
        from.values[row * value_size + c] = from.value[i64(token) * step.value_pitch + key_head * value_size + c];
    }
  }

  /// The latter by a block without a tile.
  __device__ __forceinline__ void store_all_padding(const PagedParameters& p, const PagedTile& tile, u32 key_head,
                                                    const Complaint& complaint) const {
    if (blockIdx.y > 0) return;
    bring_slots(p, key_head, complaint);
    __syncthreads();
    store_padding(p, tile, key_head);
  }

  /// Of the tokens that are stored in a row of the caches the last one, which stays there; -1: they have what is there.
  __device__ __forceinline__ i32 newest(const PagedParameters& p, i32 row) const {
    i32 found = -1;
    if (row < 0) return found;
#pragma unroll 1
    for (u32 t = 0; t < p.tokens; t += 4) {
      const int4 four = *reinterpret_cast<const int4*>(rows + t);
      if (four.x == row) found = i32(t);
      if (four.y == row) found = i32(t) + 1;
      if (four.z == row) found = i32(t) + 2;
      if (four.w == row) found = i32(t) + 3;
    }
    return found;
  }

  /// Puts the step's own rows in the place of those that came from the caches. `found`: newest() of key threadIdx.x of the
  /// piece. Between barriers.
  __device__ __forceinline__ void replace(const PagedParameters& p, i32 found, u32 key_head, Element* keys,
                                          Element* values) const {
    const u32 lane = threadIdx.x % 32, first_key = threadIdx.x - lane;
#pragma unroll 1
    for (u32 rest = __ballot_sync(full_warp, found >= 0); rest != 0; rest &= rest - 1) {
      const u32 bit = u32(__ffs(int(rest))) - 1, key = first_key + bit;
      const u32 token = u32(__shfl_sync(full_warp, found, int(bit))), own = token - first_own;
      const auto key_at = [&](u32 c) { return keys + Layout::at<tile_keys, head_padded>(key, c); };
      if (own < count_own)
        for (u32 c = lane; c < head_size; c += 32) *key_at(c) = own_keys[own * head_size + c];
      else
        put_turned(token, key_head, lane, 32, key_at);
      const Query* const value = from.value + i64(token) * step.value_pitch + key_head * value_size;
      for (u32 c = lane; c < value_size; c += 32)
        values[Layout::at<tile_keys, value_padded>(key, c)] = own < count_own ? own_values[own * value_size + c] : value[c];
    }
  }

 private:
  /// Rounded to the type of the rows, as a rotary embedding of its own would give them.
  static __device__ __forceinline__ void turn(Query& x, Query& y, Angle cosine, Angle sine) {
    const f32 a = widen(x), b = widen(y), c = widen(cosine), s = widen(sine);
    x = Narrow<Query>::from(a * c - b * s);
    y = Narrow<Query>::from(b * c + a * s);
  }

  /// Of a row's unit the first element, and how far from it the second is. Those of values are two that are not turned.
  static __device__ __forceinline__ u32 first_of(u32 unit, bool is_value) { return is_value ? unit : first_of_unit(unit); }
  static __device__ __forceinline__ u32 to_second_of(bool is_value) {
    return is_value ? (value_size + 1) / 2 : to_second_of_unit;
  }

  __device__ __forceinline__ void bring_slots(const PagedParameters& p, u32 key_head, const Complaint& complaint) const {
    for (u32 t = threadIdx.x; t < most_step_tokens; t += blockDim.x) {
      i64 slot = t < p.tokens ? index_at(step.slots, step.wide, t) : -1;
      if (slot >= step.places) {
        if (blockIdx.x + blockIdx.y + blockIdx.z == 0) complain(complaint, slot, step.places, 0);
        slot = -1;
      }
      rows[t] = slot < 0 ? -1 : i32(u32(slot) * p.key_heads + key_head);
    }
  }

  /// Where a token is stored; -1: nowhere, or a later one is stored there. All lanes of a warp ask for the same one.
  __device__ __forceinline__ i32 stored_row(const PagedParameters& p, u32 token) const {
    const i32 row = rows[token];
    bool comes_again = false;
    for (u32 later = token + 1 + threadIdx.x % 32; later < p.tokens; later += 32) comes_again |= rows[later] == row;
    return __any_sync(full_warp, comes_again) ? -1 : row;
  }

  /// A token's key, turned, by `count` threads.
  template <class At>
  __device__ __forceinline__ void put_turned(u32 token, u32 key_head, u32 thread, u32 count, At at) const {
    const Query* const key = from.key + i64(token) * step.key_pitch + key_head * head_size;
#pragma unroll 1
    for (u32 unit = thread; unit < units_of_head; unit += count) {
      const u32 first = first_of_unit(unit);
      Query x = key[first];
      if (unit < pairs_of_head) {
        Query y = key[first + to_second_of_unit];
        turn(x, y, from.cosines[token * pairs_of_head + unit], from.sines[token * pairs_of_head + unit]);
        *at(first + to_second_of_unit) = y;
      }
      *at(first) = x;
    }
  }
};
