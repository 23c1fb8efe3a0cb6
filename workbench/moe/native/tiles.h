// What the kernels share: bf16 storage, packed operands, blocks of work over threads.
//
// A matrix product multiplies a row-major A [M, K] by a packed B [K/2, N, 2], two neighbouring
// rows of B side by side, and accumulates in fp32. Shapes are few and fixed (blocks of 64 rows, the
// last one rounded up to 16): the library generates code for each new shape.
#pragma once

#include <ATen/native/CPUBlas.h>
#include <omp.h>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace workbench {

using bf16 = uint16_t;

constexpr int64_t BLOCK = 64;

inline int64_t blocks_of(int64_t rows) { return (rows + BLOCK - 1) / BLOCK; }
inline int64_t rounded(int64_t rows) { return (rows + 15) / 16 * 16; }

// Sixteen values at once, in the compiler's own vector types.
constexpr int64_t LANES = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));

// Vectors of a row's values, zeros behind its end; `count` is LANES but in the last.
template <typename Vector, typename Value>
Vector load(const Value* from, int64_t count) {
  static_assert(sizeof(Vector) == LANES * sizeof(Value));
  Vector v{};
  if (count == LANES)
    std::memcpy(&v, from, sizeof(v));
  else
    std::memcpy(&v, from, count * sizeof(Value));
  return v;
}

template <typename Vector, typename Value>
void store(const Vector& v, Value* to, int64_t count) {
  static_assert(sizeof(Vector) == LANES * sizeof(Value));
  if (count == LANES)
    std::memcpy(to, &v, sizeof(v));
  else
    std::memcpy(to, &v, count * sizeof(Value));
}

inline Floats floats(const float* from, int64_t count) { return load<Floats>(from, count); }

// Call work(i, count) for every stretch of LANES values below n.
template <typename Work>
inline void over_lanes(int64_t n, const Work& work) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) work(i, LANES);
  if (i < n) work(i, n - i);
}

inline Floats all(float x) { return x - Floats{}; }

// Round to nearest even in the upper half; a NaN stays one.
inline Halves narrowed(Floats x) {
#ifdef __AVX512BF16__
  return (Halves)_mm512_cvtneps_pbh((__m512)x);
#else
  const Words bits = (Words)x;
  const Words up = bits + 0x7fffu + ((bits >> 16) & 1u);
  const Words kept = (x != x) ? (Words{} + 0x7fc00000u) : up;
  return __builtin_convertvector(kept >> 16, Halves);
#endif
}

inline Floats widened(Halves x) { return (Floats)(__builtin_convertvector(x, Words) << 16); }

// Two rows side by side, as one row of a packed operand.
inline Words paired(Halves first, Halves second) {
  return __builtin_convertvector(first, Words) | (__builtin_convertvector(second, Words) << 16);
}

inline float sum_of(Floats x) {
  float sum = 0.0f;
  for (int64_t i = 0; i < LANES; i++) sum += x[i];
  return sum;
}

inline float largest_of(Floats x) {
  float most = x[0];
  for (int64_t i = 1; i < LANES; i++) most = x[i] > most || x[i] != x[i] ? x[i] : most;
  return most;
}

inline void narrow(const float* from, bf16* to, int64_t n) {
  over_lanes(n, [&](int64_t i, int64_t count) {
    store(narrowed(floats(from + i, count)), to + i, count);
  });
}

inline void widen(const bf16* from, float* to, int64_t n) {
  over_lanes(n, [&](int64_t i, int64_t count) {
    store(widened(load<Halves>(from + i, count)), to + i, count);
  });
}

inline void interleave(const float* first, const float* second, uint32_t* to, int64_t n) {
  over_lanes(n, [&](int64_t i, int64_t count) {
    store(paired(narrowed(floats(first + i, count)), narrowed(floats(second + i, count))), to + i,
          count);
  });
}

inline void interleave(const bf16* first, const bf16* second, uint32_t* to, int64_t n) {
  over_lanes(n, [&](int64_t i, int64_t count) {
    store(paired(load<Halves>(first + i, count), load<Halves>(second + i, count)), to + i, count);
  });
}

// e^x, relative error below 3e-7; below -87 zero, above 88 e^88; NaN stays NaN.
inline Floats exponential(Floats x) {
  Floats bounded = x > 88.0f ? all(88.0f) : x;
  bounded = x < -87.0f ? all(-87.0f) : bounded;
  const Floats shifted = bounded * 1.44269504088896341f + 12582912.0f;
  const Floats n = shifted - 12582912.0f;
  const Floats r = bounded - n * 0.693359375f + n * 2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const Floats value = p * (Floats)(((Words)shifted << 23) + 0x3f800000u);
  return x < -87.0f ? Floats{} : value;
}

// Of 32-bit values: to[c, r] = from[r, c].
inline void transpose(const uint32_t* from, int64_t ld_from, int64_t rows, int64_t columns,
                      uint32_t* to, int64_t ld_to) {
  constexpr int64_t SIDE = 16;
  for (int64_t r = 0; r < rows; r += SIDE)
    for (int64_t c = 0; c < columns; c += SIDE) {
      const int64_t height = std::min(SIDE, rows - r), width = std::min(SIDE, columns - c);
      if (height == SIDE && width == SIDE) {
        uint32_t tile[SIDE][SIDE];
        for (int64_t i = 0; i < SIDE; i++)
          std::memcpy(tile[i], from + (r + i) * ld_from + c, sizeof(tile[i]));
        for (int64_t j = 0; j < SIDE; j++) {
          uint32_t line[SIDE];
          for (int64_t i = 0; i < SIDE; i++) line[i] = tile[i][j];
          std::memcpy(to + (c + j) * ld_to + r, line, sizeof(line));
        }
      } else {
        for (int64_t i = 0; i < height; i++)
          for (int64_t j = 0; j < width; j++)
            to[(c + j) * ld_to + r + i] = from[(r + i) * ld_from + c + j];
      }
    }
}

// Packed operand [K/2, N] of a row-major B [K, N]; K even.
inline void pack_rows(const float* from, int64_t k, int64_t n, uint32_t* to) {
  for (int64_t row = 0; row < k; row += 2)
    interleave(from + row * n, from + (row + 1) * n, to + row / 2 * n, n);
}

// Packed operand [K/2, N] of a B that is given transposed, [N, K]; K even. `wide` holds K values.
inline void pack_columns(const float* from, int64_t k, int64_t n, uint32_t* to, uint32_t* wide) {
  constexpr int64_t SIDE = 16;
  for (int64_t row = 0; row < n; row += SIDE) {
    const int64_t height = std::min(SIDE, n - row);
    narrow(from + row * k, reinterpret_cast<bf16*>(wide), height * k);
    transpose(wide, k / 2, height, k / 2, to + row, n);
  }
}

inline const at::BFloat16* operand(const void* pointer) {
  return static_cast<const at::BFloat16*>(pointer);
}

// C [M, N] = (add ? C : 0) + A [M, K] · B [K, N], B packed.
inline void multiply(int64_t m, int64_t n, int64_t k, const bf16* a, int64_t ld_a,
                     const uint32_t* b, int64_t ld_b, float* c, int64_t ld_c, bool add) {
  at::native::cpublas::brgemm(m, n, k, ld_a, ld_b, ld_c, add, operand(a), operand(b), c, true);
}

// Memory of one thread, aligned to a cache line, kept for its next call.
template <typename T, int SLOT>
T* scratch(int64_t n) {
  struct Held {
    void* pointer = nullptr;
    size_t size = 0;
    ~Held() { std::free(pointer); }
  };
  static thread_local Held held;
  const size_t wanted = (static_cast<size_t>(n) * sizeof(T) + 63) / 64 * 64;
  if (held.size < wanted) {
    std::free(held.pointer);
    held.pointer = std::aligned_alloc(64, wanted);
    held.size = held.pointer == nullptr ? 0 : wanted;
    if (held.pointer == nullptr) throw std::bad_alloc();
  }
  return static_cast<T*>(held.pointer);
}

// Call work(i) for every i below n, each by whichever thread is free: no result depends on which.
template <typename Work>
void over_threads(int64_t n, int threads, const Work& work) {
  bool failed = false;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1 && n > 1)
  for (int64_t i = 0; i < n; i++) {
    try {
      work(i);
    } catch (...) {
#pragma omp atomic write
      failed = true;
    }
  }
  if (failed) throw std::runtime_error("a kernel ran out of memory or has no code for its shape");
}

}  // namespace workbench

// The C side of a call: 0 when it is done, 1 when it could not be.
#define WORKBENCH_GUARDED(...) \
  try {                        \
    __VA_ARGS__;               \
    return 0;                  \
  } catch (...) {              \
    return 1;                  \
  }
