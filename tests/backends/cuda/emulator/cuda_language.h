// What CUDA C++ has and the host's compiler lacks: in front of a kernel's text, behind interface.h.
//
// __global__ and __launch_bounds__ are left for nvrtc.cpp, which finds the kernels by them.

#define __device__
#define __host__
#define __constant__
#define __shared__ static thread_local
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#define __cluster_dims__(...)
#define __builtin_assume(condition) ((void)0)

typedef decltype(sizeof 0) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
typedef unsigned char uchar;

thread_local emulator::Block* camshaft_block = nullptr;
extern "C" __attribute__((visibility("default"))) void camshaft_enter(emulator::Block* block) {
  camshaft_block = block;
}

#define threadIdx (camshaft_block->thread)
#define blockIdx (camshaft_block->block)
#define blockDim (camshaft_block->threads)
#define gridDim (camshaft_block->blocks)
#define warpSize 32

// ---- vectors

#define EMULATOR_VECTORS(T, name, alignment)                        \
  struct name##1 {                                                  \
    T x;                                                            \
  };                                                                \
  struct alignas(2 * sizeof(T)) name##2 {                           \
    T x, y;                                                         \
  };                                                                \
  struct name##3 {                                                  \
    T x, y, z;                                                      \
  };                                                                \
  struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { \
    T x, y, z, w;                                                   \
  };                                                                \
  inline name##2 make_##name##2(T x, T y) {                         \
    return {x, y};                                                  \
  }                                                                 \
  inline name##3 make_##name##3(T x, T y, T z) {                    \
    return {x, y, z};                                               \
  }                                                                 \
  inline name##4 make_##name##4(T x, T y, T z, T w) {               \
    return {x, y, z, w};                                            \
  }
EMULATOR_VECTORS(signed char, char, 1)
EMULATOR_VECTORS(unsigned char, uchar, 1)
EMULATOR_VECTORS(short, short, 2)
EMULATOR_VECTORS(unsigned short, ushort, 2)
EMULATOR_VECTORS(int, int, 4)
EMULATOR_VECTORS(unsigned, uint, 4)
EMULATOR_VECTORS(long long, longlong, 8)
EMULATOR_VECTORS(unsigned long long, ulonglong, 8)
EMULATOR_VECTORS(float, float, 4)
EMULATOR_VECTORS(double, double, 8)
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// ---- mathematics

#define EMULATOR_MATH_1(name)               \
  extern "C" double name(double) noexcept;  \
  extern "C" float name##f(float) noexcept; \
  inline float name(float x) {              \
    return name##f(x);                      \
  }
#define EMULATOR_MATH_2(name)                      \
  extern "C" double name(double, double) noexcept; \
  extern "C" float name##f(float, float) noexcept; \
  inline float name(float x, float y) {            \
    return name##f(x, y);                          \
  }
EMULATOR_MATH_1(acos)
EMULATOR_MATH_1(acosh)
EMULATOR_MATH_1(asin)
EMULATOR_MATH_1(asinh)
EMULATOR_MATH_1(atan)
EMULATOR_MATH_1(atanh)
EMULATOR_MATH_1(cbrt)
EMULATOR_MATH_1(ceil)
EMULATOR_MATH_1(cos)
EMULATOR_MATH_1(cosh)
EMULATOR_MATH_1(erf)
EMULATOR_MATH_1(erfc)
EMULATOR_MATH_1(exp)
EMULATOR_MATH_1(exp2)
EMULATOR_MATH_1(expm1)
EMULATOR_MATH_1(fabs)
EMULATOR_MATH_1(floor)
EMULATOR_MATH_1(lgamma)
EMULATOR_MATH_1(log)
EMULATOR_MATH_1(log10)
EMULATOR_MATH_1(log1p)
EMULATOR_MATH_1(log2)
EMULATOR_MATH_1(nearbyint)
EMULATOR_MATH_1(rint)
EMULATOR_MATH_1(round)
EMULATOR_MATH_1(sin)
EMULATOR_MATH_1(sinh)
EMULATOR_MATH_1(sqrt)
EMULATOR_MATH_1(tan)
EMULATOR_MATH_1(tanh)
EMULATOR_MATH_1(tgamma)
EMULATOR_MATH_1(trunc)
EMULATOR_MATH_2(atan2)
EMULATOR_MATH_2(copysign)
EMULATOR_MATH_2(fdim)
EMULATOR_MATH_2(fmax)
EMULATOR_MATH_2(fmin)
EMULATOR_MATH_2(fmod)
EMULATOR_MATH_2(hypot)
EMULATOR_MATH_2(nextafter)
EMULATOR_MATH_2(pow) EMULATOR_MATH_2(remainder) extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
inline float fma(float x, float y, float z) {
  return fmaf(x, y, z);
}
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
inline float ldexp(float x, int e) {
  return ldexpf(x, e);
}
inline float rsqrtf(float x) {
  return float(1 / sqrt(double(x)));
}
inline float rsqrt(float x) {
  return rsqrtf(x);
}
inline double rsqrt(double x) {
  return 1 / sqrt(x);
}
inline bool isnan(float x) {
  return x != x;
}
inline bool isnan(double x) {
  return x != x;
}
inline bool isinf(float x) {
  return __builtin_isinf(x);
}
inline bool isinf(double x) {
  return __builtin_isinf(x);
}
inline bool isfinite(float x) {
  return __builtin_isfinite(x);
}
inline bool isfinite(double x) {
  return __builtin_isfinite(x);
}
inline bool signbit(float x) {
  return __builtin_signbit(x);
}
inline bool signbit(double x) {
  return __builtin_signbit(x);
}

#define EMULATOR_ORDER(A, B, R)       \
  inline R min(A a, B b) {            \
    return (R)b < (R)a ? (R)b : (R)a; \
  }                                   \
  inline R max(A a, B b) {            \
    return (R)a < (R)b ? (R)b : (R)a; \
  }
EMULATOR_ORDER(int, int, int)
EMULATOR_ORDER(unsigned, unsigned, unsigned)
EMULATOR_ORDER(int, unsigned, unsigned)
EMULATOR_ORDER(unsigned, int, unsigned)
EMULATOR_ORDER(long, long, long)
EMULATOR_ORDER(unsigned long, unsigned long, unsigned long)
EMULATOR_ORDER(long long, long long, long long)
EMULATOR_ORDER(unsigned long long, unsigned long long, unsigned long long)
EMULATOR_ORDER(long long, unsigned long long, unsigned long long)
EMULATOR_ORDER(unsigned long long, long long, unsigned long long) inline float min(float a, float b) {
  return fminf(a, b);
}
inline float max(float a, float b) {
  return fmaxf(a, b);
}
inline double min(double a, double b) {
  return fmin(a, b);
}
inline double max(double a, double b) {
  return fmax(a, b);
}
inline double min(float a, double b) {
  return fmin(double(a), b);
}
inline double max(float a, double b) {
  return fmax(double(a), b);
}
inline double min(double a, float b) {
  return fmin(a, double(b));
}
inline double max(double a, float b) {
  return fmax(a, double(b));
}
inline int abs(int a) {
  return a < 0 ? -a : a;
}
inline long abs(long a) {
  return a < 0 ? -a : a;
}
inline long long abs(long long a) {
  return a < 0 ? -a : a;
}
inline float abs(float a) {
  return __builtin_fabsf(a);
}
inline double abs(double a) {
  return __builtin_fabs(a);
}

// ---- bits and conversions

namespace emulator {
template <class To, class From>
inline To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
// As the device converts: out of range gives the nearest there is, NaN 0.
template <class To, class From>
inline To saturate(From x) {
  constexpr bool is_signed = To(-1) < To(0);
  constexpr To largest = To((~0ULL) >> (64 - 8 * sizeof(To) + is_signed)), least = is_signed ? To(-largest - 1) : To(0);
  return x != x ? To(0) : x >= From(largest) ? largest : x <= From(least) ? least : To(x);
}
inline float towards(double x, bool down, bool up) {
  float near = float(x);
  if (down && double(near) > x) near = nextafterf(near, -__builtin_inff());
  if (up && double(near) < x) near = nextafterf(near, __builtin_inff());
  return near;
}
}  // namespace emulator

inline unsigned __float_as_uint(float x) {
  return emulator::bits<unsigned>(x);
}
inline int __float_as_int(float x) {
  return emulator::bits<int>(x);
}
inline float __uint_as_float(unsigned x) {
  return emulator::bits<float>(x);
}
inline float __int_as_float(int x) {
  return emulator::bits<float>(x);
}
inline long long __double_as_longlong(double x) {
  return emulator::bits<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return emulator::bits<double>(x);
}
inline int __double2hiint(double x) {
  return int(emulator::bits<unsigned long long>(x) >> 32);
}
inline int __double2loint(double x) {
  return int(emulator::bits<unsigned long long>(x));
}

inline float __double2float_rn(double x) {
  return float(x);
}
inline float __double2float_rd(double x) {
  return emulator::towards(x, true, false);
}
inline float __double2float_ru(double x) {
  return emulator::towards(x, false, true);
}
inline float __double2float_rz(double x) {
  return emulator::towards(x, x > 0, x < 0);
}
#define EMULATOR_TO_INTEGER(name, T, R)     \
  inline R name##_rn(T x) {                 \
    return emulator::saturate<R>(rint(x));  \
  }                                         \
  inline R name##_rz(T x) {                 \
    return emulator::saturate<R>(trunc(x)); \
  }                                         \
  inline R name##_rd(T x) {                 \
    return emulator::saturate<R>(floor(x)); \
  }                                         \
  inline R name##_ru(T x) {                 \
    return emulator::saturate<R>(ceil(x));  \
  }
EMULATOR_TO_INTEGER(__float2int, float, int)
EMULATOR_TO_INTEGER(__float2uint, float, unsigned)
EMULATOR_TO_INTEGER(__float2ll, float, long long)
EMULATOR_TO_INTEGER(__float2ull, float, unsigned long long)
EMULATOR_TO_INTEGER(__double2int, double, int)
EMULATOR_TO_INTEGER(__double2uint, double, unsigned)
EMULATOR_TO_INTEGER(__double2ll, double, long long)
EMULATOR_TO_INTEGER(__double2ull, double, unsigned long long) inline float __int2float_rn(int x) {
  return float(x);
}
inline float __uint2float_rn(unsigned x) {
  return float(x);
}
inline float __ll2float_rn(long long x) {
  return float(x);
}
inline float __ull2float_rn(unsigned long long x) {
  return float(x);
}
inline double __int2double_rn(int x) {
  return double(x);
}
inline double __ll2double_rn(long long x) {
  return double(x);
}

inline unsigned __umulhi(unsigned a, unsigned b) {
  return unsigned((unsigned long long)a * b >> 32);
}
inline int __mulhi(int a, int b) {
  return int((long long)a * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline long long __mul64hi(long long a, long long b) {
  return (long long)((__int128)a * b >> 64);
}
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(unsigned(x));
}
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline unsigned __brev(unsigned x) {
  unsigned out = 0;
  for (int i = 0; i < 32; ++i) out |= (x >> i & 1) << (31 - i);
  return out;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long all = (unsigned long long)b << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= unsigned(all >> (selector >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
  return out;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}

inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return fmaf(a, b, c);
}
inline float __fsqrt_rn(float a) {
  return sqrtf(a);
}
inline float __frcp_rn(float a) {
  return 1 / a;
}
inline float __frsqrt_rn(float a) {
  return rsqrtf(a);
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __fma_rn(double a, double b, double c) {
  return fma(a, b, c);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __expf(float a) {
  return expf(a);
}
inline float __exp10f(float a) {
  return powf(10, a);
}
inline float __logf(float a) {
  return logf(a);
}
inline float __log2f(float a) {
  return log2f(a);
}
inline float __log10f(float a) {
  return log10f(a);
}
inline float __powf(float a, float b) {
  return powf(a, b);
}
inline float __sinf(float a) {
  return sinf(a);
}
inline float __cosf(float a) {
  return cosf(a);
}
inline float __tanf(float a) {
  return tanf(a);
}
inline float __saturatef(float a) {
  return a >= 1 ? 1.0f : a > 0 ? a : 0.0f;
}

// ---- memory

#define EMULATOR_LOAD(name)      \
  template <class T>             \
  inline T name(const T* from) { \
    return *from;                \
  }
EMULATOR_LOAD(__ldg)
EMULATOR_LOAD(__ldca)
EMULATOR_LOAD(__ldcg)
EMULATOR_LOAD(__ldcs)
EMULATOR_LOAD(__ldlu)
EMULATOR_LOAD(__ldcv)
#define EMULATOR_STORE(name)         \
  template <class T>                 \
  inline void name(T* to, T value) { \
    *to = value;                     \
  }
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stcg) EMULATOR_STORE(__stcs) EMULATOR_STORE(__stwt) inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_block() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_system() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

namespace emulator {
template <class T, class F>
inline T change(T* at, const F& f) {
  T old, wanted;
  __atomic_load(at, &old, __ATOMIC_SEQ_CST);
  do wanted = f(old);
  while (!__atomic_compare_exchange(at, &old, &wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
}  // namespace emulator
#define EMULATOR_ATOMIC(name, T, expression)                             \
  inline T name(T* at, T value) {                                        \
    return emulator::change(at, [&](T old) -> T { return expression; }); \
  }
#define EMULATOR_ATOMICS(T)             \
  EMULATOR_ATOMIC(atomicExch, T, value) \
  EMULATOR_ATOMIC(atomicAdd, T, old + value)
#define EMULATOR_INTEGER_ATOMICS(T)                                                         \
  EMULATOR_ATOMICS(T)                                                                       \
  EMULATOR_ATOMIC(atomicMin, T, value < old ? value : old)                                  \
  EMULATOR_ATOMIC(atomicMax, T, old < value ? value : old)                                  \
  EMULATOR_ATOMIC(atomicAnd, T, old& value)                                                 \
  EMULATOR_ATOMIC(atomicOr, T, old | value)                                                 \
  EMULATOR_ATOMIC(atomicXor, T, old ^ value)                                                \
  inline T atomicCAS(T* at, T expected, T value) {                                          \
    return emulator::change(at, [&](T old) -> T { return old == expected ? value : old; }); \
  }
EMULATOR_INTEGER_ATOMICS(int)
EMULATOR_INTEGER_ATOMICS(unsigned)
EMULATOR_INTEGER_ATOMICS(long long)
EMULATOR_INTEGER_ATOMICS(unsigned long long)
EMULATOR_ATOMICS(float)
EMULATOR_ATOMICS(double)
EMULATOR_ATOMIC(atomicSub, int, old - value)
EMULATOR_ATOMIC(atomicSub, unsigned, old - value)
EMULATOR_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
EMULATOR_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)

// ---- threads together

inline void __syncthreads() {
  camshaft_block->synchronize(0);
}
inline int __syncthreads_count(int vote) {
  return int(camshaft_block->synchronize(vote != 0));
}
inline int __syncthreads_or(int vote) {
  return __syncthreads_count(vote) != 0;
}
inline int __syncthreads_and(int vote) {
  return unsigned(__syncthreads_count(vote)) == blockDim.x * blockDim.y * blockDim.z;
}
inline void __syncwarp(unsigned mask = 0xffffffff) {
  camshaft_block->exchange("__syncwarp", mask, nullptr, 0, nullptr);
}
inline unsigned __activemask() {
  return 0xffffffff;
}

namespace emulator {
template <class T>
inline Lane* give(const char* what, unsigned mask, T value) {
  static_assert(sizeof(T) <= sizeof(Lane::given));
  return camshaft_block->exchange(what, mask, &value, sizeof value, nullptr);
}
template <class T>
inline T take(const Lane& lane) {
  T value;
  __builtin_memcpy(&value, lane.given, sizeof value);
  return value;
}
// From a lane that took no part comes what nobody gave.
template <class T>
inline T shuffle(const char* what, unsigned mask, T value, int from) {
  const Lane* lanes = give(what, mask, value);
  if (lanes[from].there) return take<T>(lanes[from]);
  __builtin_memset(&value, 0xcd, sizeof value);
  return value;
}
}  // namespace emulator

// Lanes are shuffled inside of segments of `width`.
template <class T>
inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const int lane = int(camshaft_block->lane);
  return emulator::shuffle("__shfl_sync", mask, value, (lane & ~(width - 1)) | (from & (width - 1)));
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32) {
  const int lane = int(camshaft_block->lane), from = (lane ^ with) & 31;
  return emulator::shuffle("__shfl_xor_sync", mask, value, from >= (lane & ~(width - 1)) + width ? lane : from);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = int(camshaft_block->lane), from = lane - int(by);
  return emulator::shuffle("__shfl_up_sync", mask, value, from < (lane & ~(width - 1)) ? lane : from);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = int(camshaft_block->lane), from = lane + int(by);
  return emulator::shuffle("__shfl_down_sync", mask, value, from >= (lane & ~(width - 1)) + width ? lane : from);
}

inline unsigned __ballot_sync(unsigned mask, int vote) {
  const emulator::Lane* lanes = emulator::give("a vote", mask, vote);
  unsigned out = 0;
  for (int i = 0; i < 32; ++i)
    if (lanes[i].there && emulator::take<int>(lanes[i]) != 0) out |= 1u << i;
  return out;
}
inline int __any_sync(unsigned mask, int vote) {
  return __ballot_sync(mask, vote) != 0;
}
inline int __all_sync(unsigned mask, int vote) {
  return __ballot_sync(mask, vote == 0) == 0;
}
template <class T>
inline unsigned __match_any_sync(unsigned mask, T value) {
  const emulator::Lane* lanes = emulator::give("__match_any_sync", mask, value);
  unsigned out = 0;
  for (int i = 0; i < 32; ++i)
    if (lanes[i].there && __builtin_memcmp(lanes[i].given, &value, sizeof value) == 0) out |= 1u << i;
  return out;
}
#define EMULATOR_REDUCE(name, T, expression)                          \
  inline T name(unsigned mask, T value) {                             \
    const emulator::Lane* lanes = emulator::give(#name, mask, value); \
    T a = value;                                                      \
    bool first = true;                                                \
    for (int i = 0; i < 32; ++i)                                      \
      if (lanes[i].there) {                                           \
        const T b = emulator::take<T>(lanes[i]);                      \
        a = first ? b : T(expression);                                \
        first = false;                                                \
      }                                                               \
    return a;                                                         \
  }
EMULATOR_REDUCE(__reduce_add_sync, unsigned, a + b)
EMULATOR_REDUCE(__reduce_add_sync, int, a + b)
EMULATOR_REDUCE(__reduce_min_sync, unsigned, min(a, b))
EMULATOR_REDUCE(__reduce_min_sync, int, min(a, b))
EMULATOR_REDUCE(__reduce_max_sync, unsigned, max(a, b))
EMULATOR_REDUCE(__reduce_max_sync, int, max(a, b))
EMULATOR_REDUCE(__reduce_and_sync, unsigned, a& b)
EMULATOR_REDUCE(__reduce_or_sync, unsigned, a | b)
EMULATOR_REDUCE(__reduce_xor_sync, unsigned, a ^ b)

inline void __nanosleep(unsigned) {
  camshaft_block->yield();
}
inline void __trap() {
  camshaft_block->fail("__trap()");
}
inline long long clock64() {
  static long long now = 0;
  return now += 100;
}
#define assert(condition) ((condition) ? (void)0 : camshaft_block->fail("assert(" #condition ")"))

// ---- how the driver calls a kernel

namespace emulator {
template <class T>
constexpr bool is_pointer = false;
template <class T>
constexpr bool is_pointer<T*> = true;
template <class... P>
constexpr Parameter parameters_of[] = {{sizeof(P), alignof(P), is_pointer<P>}..., {0, 0, false}};
template <class... P>
struct Call {
  Call(void (*kernel)(P...), P... values) { kernel(values...); }
};
template <auto kernel>
struct Caller;
template <class... P, void (*kernel)(P...)>
struct Caller<kernel> {
  static void run(void** arguments) {
    [[maybe_unused]] int next = 0;
    Call<P...>{kernel, *static_cast<P*>(arguments[next++])...};  // braces: from left to right
  }
  static constexpr Kernel described(unsigned most_threads) {
    return {parameters_of<P...>, sizeof...(P), most_threads, run};
  }
};
constexpr unsigned first_of(unsigned first = 0, unsigned = 0, unsigned = 0) {
  return first;
}
}  // namespace emulator
