// Group and instance norm of [image, position, channel]: neighbouring channels are read together, whatever group they
// belong to. The first kernel finds the mean and the squared distances of each group, or of a piece of a wide one, over a
// split of the positions; the second one merges these in a fixed order and normalises. The generated text defines Element, Wide,
// ScaleElement and BiasElement.

/// What is known of some numbers. Source: Chan, Golub & LeVeque, "Updating formulae and a pairwise algorithm for
/// computing sample variances", 1979; and for one number more, Welford, 1962.
struct Moments {
  Wide count, mean, squares;
};

__device__ __forceinline__ Moments merge(const Moments& a, const Moments& b) {
  const Wide count = a.count + b.count;
  if (count == 0) return a;
  const Wide distance = b.mean - a.mean, part = b.count / count;
  return {count, a.mean + distance * part, a.squares + b.squares + distance * distance * a.count * part};
}

/// Of each group of so many lanes of a warp, in a fixed order.
__device__ __forceinline__ Moments merge_lanes(Moments mine, u32 lanes) {
  for (u32 distance = lanes / 2; distance > 0; distance /= 2) {
    const Moments other = {exchange(mine.count, distance), exchange(mine.mean, distance),
                           exchange(mine.squares, distance)};
    const bool is_first = threadIdx.x % (2 * distance) < distance;
    mine = is_first ? merge(mine, other) : merge(other, mine);
  }
  return mine;
}

/// Channels of a piece of a group.
__device__ __forceinline__ u32 width_of_piece(const GroupColumnsParameters& shape, u32 piece) {
  const u32 left = shape.width - piece * shape.piece_width;
  return left < shape.piece_width ? left : shape.piece_width;
}

/// `partial`: [image, group, split, piece] of mean and squared distances.
template <int V>
__device__ __forceinline__ void find_moments(const GroupColumnsParameters& shape, const Element* in, Wide* partial) {
  __shared__ Moments others[V][column_threads];
  const u32 lane = threadIdx.x % shape.lanes, down = threadIdx.x / shape.lanes, downs = column_threads / shape.lanes;
  const u32 image = divide(blockIdx.x, shape.tiles);
  const u32 tile = blockIdx.x - image * shape.tiles.value;
  const u32 first_group = tile / shape.pieces * shape.tile_groups, piece = tile % shape.pieces;
  const u32 groups = first_group + shape.tile_groups < shape.groups ? shape.tile_groups : shape.groups - first_group;
  const u32 width = width_of_piece(shape, piece);
  const u32 begin = blockIdx.y * shape.per_split;
  const u32 end = shape.positions - begin < shape.per_split ? shape.positions : begin + shape.per_split;
  Wide mean[V] = {}, squares[V] = {};
  Wide count = 0;
  if (lane * V < groups * width) {
    const Element* first = in + u64(image) * shape.positions * shape.channels + first_group * shape.width +
                           piece * shape.piece_width + lane * V;
#pragma unroll 4
    for (u32 at = begin + down; at < end; at += downs) {
      Wide x[V];
      load_wide(first + u64(at) * shape.channels, x);
      count += 1;
      const Wide part = Wide(1) / count;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const Wide distance = x[v] - mean[v];
        mean[v] += distance * part;
        squares[v] += distance * (x[v] - mean[v]);
      }
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) others[v][threadIdx.x] = {count, mean[v], squares[v]};
  for (u32 half = downs / 2; half > 0; half /= 2) {
    __syncthreads();
    if (down < half) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        Moments& mine = others[v][threadIdx.x];
        mine = merge(mine, others[v][threadIdx.x + half * shape.lanes]);
      }
    }
  }
  __syncthreads();
  // Some lanes for each group: of 512 channels one thread alone took longer than all else.
  const u32 own = threadIdx.x % shape.group_lanes, groups_at_once = column_threads / shape.group_lanes;
  for (u32 first = 0; first < groups; first += groups_at_once) {
    const u32 g = first + threadIdx.x / shape.group_lanes;
    Moments all = {Wide(0), Wide(0), Wide(0)};
    if (g < groups)
      for (u32 c = g * width + own; c < (g + 1) * width; c += shape.group_lanes)
        all = merge(all, others[c % V][c / V]);
    all = merge_lanes(all, shape.group_lanes);
    if (g >= groups || own > 0) continue;
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
  const u32 own = threadIdx.x % shape.split_lanes, groups_at_once = column_threads / shape.split_lanes;
  for (u32 first = 0; first < shape.groups; first += groups_at_once) {
    const u32 g = first + threadIdx.x / shape.split_lanes;
    Moments all = {Wide(0), Wide(0), Wide(0)};
    if (g < shape.groups) {
      const u32 parts = shape.splits * shape.pieces;
      const Wide* part = partial + (u64(image) * shape.groups + g) * parts * 2;
#pragma unroll 4
      for (u32 s = own; s < parts; s += shape.split_lanes) {
        const u32 split = s / shape.pieces, begin = split * shape.per_split;
        const u32 positions = shape.positions - begin < shape.per_split ? shape.positions - begin : shape.per_split;
        const u32 width = width_of_piece(shape, s - split * shape.pieces);
        all = merge(all, {Wide(positions) * Wide(width), part[2 * s], part[2 * s + 1]});
      }
    }
    all = merge_lanes(all, shape.split_lanes);
    if (g >= shape.groups || own > 0) continue;
    figures[2 * g] = all.mean;
    figures[2 * g + 1] = Wide(1) / sqrt(all.squares / all.count + Wide(shape.epsilon));
  }
  __syncthreads();
  for (u32 c = threadIdx.x; c < shape.channels; c += column_threads) {
    const u32 g = c / shape.width;
    means[c] = figures[2 * g];
    factors[c] = scale != nullptr ? figures[2 * g + 1] * Wide(widen(scale[c])) : figures[2 * g + 1];
    biases[c] = bias != nullptr ? Wide(widen(bias[c])) : Wide(0);
  }
  __syncthreads();
  const u64 begin = u64(image) * shape.positions * shape.channels;
  const u32 chunks = shape.positions * shape.chunks.value;
  for (u32 at = block * column_threads + threadIdx.x; at < chunks; at += shape.blocks.value * column_threads) {
    const u32 c = (at - divide(at, shape.chunks) * shape.chunks.value) * V;
    Wide x[V];
    load_wide(in + begin + u64(at) * V, x);
    Wide mean[V], factor[V], add[V];
    load_parameters(means + c, mean);
    load_parameters(factors + c, factor);
    load_parameters(biases + c, add);
#pragma unroll
    for (int v = 0; v < V; ++v) x[v] = (x[v] - mean[v]) * factor[v] + add[v];
    store_wide(out + begin + u64(at) * V, x);
  }
}
