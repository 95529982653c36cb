// A step's queries and keys turned, and its keys and values stored into the slots of their caches: a block has a part of a
// token. As in paged_store.cuh, of rows with one slot the last one stays, and slots beyond the cache are complaints.

template <class T, class A, int CHUNK, bool INTERLEAVED>
struct Turned {
  static constexpr u32 step = INTERLEAVED ? 2 : 1;
  static_assert(!INTERLEAVED || CHUNK == 1, "pairs of neighbours are turned one by one");

  /// Unit `u` of a head from `x` on, to `y`, which may have another type.
  template <class C>
  static __device__ __forceinline__ void run(const PagedUpdateParameters& p, u32 u, const T* __restrict__ x,
                                             const A* __restrict__ cosines, const A* __restrict__ sines, C* y) {
    T a[CHUNK];
    C out[CHUNK];
    if (u >= p.pairs) {
      const u32 at = 2 * p.half + (u - p.pairs) * CHUNK;
      load(x + at, a);
#pragma unroll
      for (int i = 0; i < CHUNK; ++i) out[i] = Narrow<C>::from(widen(a[i]));
      store(y + at, out);
      return;
    }
    const u32 first = u * CHUNK * step, second = first + (INTERLEAVED ? 1 : p.half);
    T b[CHUNK];
    A cosine[CHUNK], sine[CHUNK];
    load(x + first, a);
    load(x + second, b);
    load(cosines + u * CHUNK, cosine);
    load(sines + u * CHUNK, sine);
    C turned[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) {
      const f32 left = widen(a[i]), right = widen(b[i]), c = widen(cosine[i]), s = widen(sine[i]);
      // The type of the rows first, as a rotary embedding of its own would give them.
      out[i] = Narrow<C>::from(widen(Narrow<T>::from(left * c - right * s)));
      turned[i] = Narrow<C>::from(widen(Narrow<T>::from(right * c + left * s)));
    }
    store(y + first, out);
    store(y + second, turned);
  }
};

template <class T, class A, class C, int CHUNK, bool INTERLEAVED>
__device__ __forceinline__ void update_caches(const PagedUpdateParameters& p, const T* __restrict__ query,
                                              const T* __restrict__ key, const T* __restrict__ value,
                                              const A* __restrict__ cosines, const A* __restrict__ sines,
                                              const void* __restrict__ slots, T* turned, C* keys, C* values,
                                              const Complaint& complaint) {
  typedef Turned<T, A, CHUNK, INTERLEAVED> Turn;
  for (u32 token = blockIdx.x; token < p.tokens; token += gridDim.x) {
    i64 slot = index_at(slots, p.wide, token);
    bool comes_again = false;
    for (u32 later = token + 1 + threadIdx.x; later < p.tokens; later += blockDim.x)
      comes_again |= index_at(slots, p.wide, later) == slot;
    if (slot >= p.places) {
      if (threadIdx.x == 0 && blockIdx.y == 0) complain(complaint, slot, p.places, 0);
      slot = -1;
    }
    if (__syncthreads_or(comes_again)) slot = -1;
    const A *cosine = cosines + i64(token) * p.half, *sine = sines + i64(token) * p.half;
    const u32 units = slot < 0 ? p.query : p.query + p.key + p.value;
    for (u32 unit = blockIdx.y * blockDim.x + threadIdx.x; unit < units; unit += gridDim.y * blockDim.x) {
      if (unit < p.query) {
        const u32 head = divide(unit, p.head), at = head * p.size;
        Turn::run(p, unit - head * p.head.value, query + token * p.query_pitch + at, cosine, sine,
                  turned + i64(token) * p.query_width + at);
      } else if (unit < p.query + p.key) {
        const u32 of_key = unit - p.query, head = divide(of_key, p.head), at = head * p.size;
        Turn::run(p, of_key - head * p.head.value, key + token * p.key_pitch + at, cosine, sine,
                  keys + slot * p.key_width + at);
      } else {
        const u32 at = (unit - p.query - p.key) * CHUNK;
        T x[CHUNK];
        C y[CHUNK];
        load(value + token * p.value_pitch + at, x);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) y[i] = Narrow<C>::from(widen(x[i]));
        store(values + slot * p.value_width + at, y);
      }
    }
  }
}
