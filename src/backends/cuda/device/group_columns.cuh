// Group and instance norm of [image, position, channel]: neighbouring channels are read together, whatever group they
// belong to. The first kernel finds the mean and the squared distances of each group, or of a piece of a wide one, over a
// split of the positions; the second one merges these in a fixed order and normalises. The generated text defines Element, Wide,
// ScaleElement and BiasElement.

/// What is known of some numbers. Source: Chan, Golub & LeVeque, "Updating formulae and a pairwise algorithm for
/// computing sample variances", 1979.
struct Moments {
  Wide count, mean, squares;
};

/// Of two that are of as many numbers.
__device__ __forceinline__ Moments merge_equal(const Moments& a, const Moments& b) {
  const Wide distance = b.mean - a.mean;
  return {a.count + b.count, a.mean + distance * Wide(0.5),
          a.squares + b.squares + distance * distance * a.count * Wide(0.5)};
}

/// Of all parts that some neighbouring lanes have: walk(take) calls take(part) for each of this lane's, three times, always
/// in the same order. The mean first, then how far the parts are from it: one division for all (merging two and two had one
/// each).
template <class Walk>
__device__ __forceinline__ Moments merge_all(u32 lanes, Walk walk) {
  const auto plus = [](Wide a, Wide b) { return a + b; };
  Moments all = {};
  walk([&](const Moments& part) { all.count += part.count; });
  all.count = combine_lanes(all.count, lanes, plus);
  const Wide share = Wide(1) / (all.count > 0 ? all.count : Wide(1));  // first: sums of large numbers may have no room
  walk([&](const Moments& part) { all.mean += part.count * share * part.mean; });
  all.mean = combine_lanes(all.mean, lanes, plus);
  walk([&](const Moments& part) {
    const Wide distance = part.mean - all.mean;
    all.squares += part.squares + part.count * distance * distance;
  });
  all.squares = combine_lanes(all.squares, lanes, plus);
  return all;
}

/// Channels of a piece of a group.
__device__ __forceinline__ u32 width_of_piece(const GroupColumnsParameters& shape, u32 piece) {
  const u32 left = shape.width - piece * shape.piece_width;
  return left < shape.piece_width ? left : shape.piece_width;
}

/// `partial`: [image, group, split, piece] of mean and squared distances.
template <int V>
__device__ __forceinline__ void find_moments(const GroupColumnsParameters& shape, const Element* in, Wide* partial) {
  take_turn();
  __shared__ Moments others[V][column_threads];
  const u32 lane = threadIdx.x % shape.lanes, down = threadIdx.x / shape.lanes, downs = column_threads / shape.lanes;
  const u32 image = divide(blockIdx.x, shape.tiles);
  const u32 tile = blockIdx.x - image * shape.tiles.value;
  const u32 first_group = tile / shape.pieces * shape.tile_groups, piece = tile % shape.pieces;
  const u32 groups = first_group + shape.tile_groups < shape.groups ? shape.tile_groups : shape.groups - first_group;
  const u32 width = width_of_piece(shape, piece);
  const u32 begin = blockIdx.y * shape.per_split;
  const u32 end = shape.positions - begin < shape.per_split ? shape.positions : begin + shape.per_split;
  Moments own[V] = {};
  if (lane * V < groups * width) {
    const Element* first = in + u64(image) * shape.positions * shape.channels + first_group * shape.width +
                           piece * shape.piece_width + lane * V;
    // So many chunks come together, and the squared distances are from their own mean: a number at a time (Welford) was a
    // division for each, one behind the other.
    constexpr int at_once = 8;
#pragma unroll 1
    for (u32 from = begin + down; from < end; from += at_once * downs) {
      alignas(16) Element x[at_once][V];
      Wide count = 0;
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const u32 at = from + u32(i) * downs;
        if (at >= end) continue;
        load(first + u64(at) * shape.channels, x[i]);
        count += 1;
      }
      const Wide share = Wide(1) / count, part = count / (own[0].count + count);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        Wide mean = 0, squares = 0;
#pragma unroll
        for (int i = 0; i < at_once; ++i)
          if (from + u32(i) * downs < end) mean += widen(x[i][v]);
        mean *= share;
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
          const Wide distance = widen(x[i][v]) - mean;
          if (from + u32(i) * downs < end) squares += distance * distance;
        }
        const Wide distance = mean - own[v].mean;
        own[v] = {own[v].count + count, own[v].mean + distance * part,
                  own[v].squares + squares + distance * distance * own[v].count * part};
      }
    }
  }
#pragma unroll
  for (int width_of_one = 1; width_of_one < V; width_of_one *= 2) {
    if (u32(width_of_one) >= shape.joined) continue;
#pragma unroll
    for (int v = 0; v < V; v += 2 * width_of_one) own[v] = merge_equal(own[v], own[v + width_of_one]);
  }
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (u32(v) % shape.joined == 0) others[v][threadIdx.x] = own[v];
  __syncthreads();
  const u32 in_row = width / shape.joined, parts = in_row * downs;  // of a group
  const u32 part_lane = threadIdx.x % shape.group_lanes, groups_at_once = column_threads / shape.group_lanes;
  for (u32 first = 0; first < groups; first += groups_at_once) {
    const u32 g = first + threadIdx.x / shape.group_lanes;
    const Moments all = merge_all(shape.group_lanes, [&](auto take) {
      if (g >= groups) return;
#pragma unroll 2
      for (u32 e = part_lane; e < parts; e += shape.group_lanes) {
        const u32 row = e / in_row, c = g * width + (e - row * in_row) * shape.joined;
        take(others[c % V][row * shape.lanes + c / V]);
      }
    });
    if (g >= groups || part_lane > 0) continue;
    Wide* to = partial + (((u64(image) * shape.groups + first_group + g) * shape.splits + blockIdx.y) * shape.pieces + piece) * 2;
    to[0] = all.mean;
    to[1] = all.squares;
  }
}

template <int V>
__device__ __forceinline__ void normalize_columns(const GroupColumnsParameters& shape, const Element* in,
                                                  const ScaleElement* scale, const BiasElement* bias, Element* out,
                                                  const Wide* partial) {
  DYNAMIC_SHARED(shared);
  Wide* const means = reinterpret_cast<Wide*>(shared);  // of channels
  const u32 pitch = (shape.channels + 3) / 4 * 4;  // so that chunks are read by 16 bytes
  Wide* const factors = means + pitch;
  Wide* const biases = factors + pitch;
  Wide* const figures = biases + pitch;  // of groups: mean and factor
  const u32 image = divide(blockIdx.x, shape.blocks), block = blockIdx.x - image * shape.blocks.value;
  const u64 begin = u64(image) * shape.positions * shape.channels;
  const u32 chunks = shape.positions * shape.chunks.value, step = shape.blocks.value * column_threads;
  if (!parameters_are_constant) take_turn();
  for (u32 c = threadIdx.x; c < shape.channels; c += column_threads) {
    factors[c] = scale != nullptr ? Wide(widen(scale[c])) : Wide(1);
    biases[c] = bias != nullptr ? Wide(widen(bias[c])) : Wide(0);
  }
  if (parameters_are_constant) take_turn();

  // The next few chunks, the first of them before their figures are known.
  constexpr int at_once = 4;
  alignas(16) Element x[at_once][V];
  const auto load_from = [&](u32 first) {
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (first + u32(i) * step < chunks) load(in + begin + u64(first + u32(i) * step) * V, x[i]);
  };
  u32 at = block * column_threads + threadIdx.x;
  load_from(at);

  const u32 own = threadIdx.x % shape.split_lanes, groups_at_once = column_threads / shape.split_lanes;
  for (u32 first = 0; first < shape.groups; first += groups_at_once) {
    const u32 g = first + threadIdx.x / shape.split_lanes;
    const u32 parts = shape.splits * shape.pieces;
    const Wide* part = partial + (u64(image) * shape.groups + g) * parts * 2;
    const Moments all = merge_all(shape.split_lanes, [&](auto take) {
      if (g >= shape.groups) return;
#pragma unroll 4
      for (u32 s = own; s < parts; s += shape.split_lanes) {
        const u32 split = shape.pieces == 1 ? s : s / shape.pieces, begin = split * shape.per_split;
        const u32 positions = shape.positions - begin < shape.per_split ? shape.positions - begin : shape.per_split;
        const u32 width = width_of_piece(shape, s - split * shape.pieces);
        take(Moments{Wide(positions) * Wide(width), part[2 * s], part[2 * s + 1]});
      }
    });
    if (g >= shape.groups || own > 0) continue;
    figures[2 * g] = all.mean;
    figures[2 * g + 1] = Wide(1) / sqrt(all.squares / all.count + Wide(shape.epsilon));
  }
  __syncthreads();
  for (u32 c = threadIdx.x; c < shape.channels; c += column_threads) {
    const u32 g = c / shape.width;
    means[c] = figures[2 * g];
    factors[c] *= figures[2 * g + 1];
  }
  __syncthreads();
#pragma unroll 1
  for (; at < chunks; at += at_once * step) {
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const u32 here = at + u32(i) * step;
      if (here >= chunks) break;
      const u32 c = (here - divide(here, shape.chunks) * shape.chunks.value) * V;
      Wide mean[V], factor[V], add[V], y[V];
      load_parameters(means + c, mean);
      load_parameters(factors + c, factor);
      load_parameters(biases + c, add);
#pragma unroll
      for (int v = 0; v < V; ++v) y[v] = (widen(x[i][v]) - mean[v]) * factor[v] + add[v];
      store_wide(out + begin + u64(here) * V, y);
    }
    load_from(at + at_once * step);
  }
}
