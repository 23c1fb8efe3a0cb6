// RMSNorm of rows, and of each head's queries or keys together with their rotary embedding.
//
// N rows, D width; B·T positions, H heads, C width of a head whose two halves are paired.

#include <cmath>

#include "tiles.h"

namespace workbench {
namespace {

constexpr int64_t STRETCH = 256;

int64_t stretches(int64_t rows) { return (rows + STRETCH - 1) / STRETCH; }

float inverse_root(const float* x, int64_t width, float eps) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < width; i++) sum += x[i] * x[i];
  return 1.0f / std::sqrt(sum / static_cast<float>(width) + eps);
}

// dx of one row, and its part of the weight's gradient. x and dx may be the same.
void norm_gradient(const float* x, const float* weight, const float* grad, int64_t width,
                   float eps, float* dx, float* d_weight) {
  const float inverse = inverse_root(x, width, eps);
  float along = 0.0f;
#pragma omp simd reduction(+ : along)
  for (int64_t i = 0; i < width; i++) along += grad[i] * weight[i] * x[i];
  const float pull = along * inverse * inverse / static_cast<float>(width);
#pragma omp simd
  for (int64_t i = 0; i < width; i++) {
    d_weight[i] += grad[i] * x[i] * inverse;
    dx[i] = inverse * (grad[i] * weight[i] - x[i] * pull);
  }
}

// Sum of the stretches' parts [S, width], always in the same order.
void sum_parts(const float* parts, int64_t num_parts, int64_t width, float* to) {
  std::memset(to, 0, width * sizeof(float));
  for (int64_t part = 0; part < num_parts; part++)
    for (int64_t i = 0; i < width; i++) to[i] += parts[part * width + i];
}

struct Rows {
  int64_t count, width;
  float eps;
  const float *x, *weight;
};

template <typename Work>
void over_rows(int64_t rows, int threads, const Work& work) {
  over_threads(stretches(rows), threads, [&](int64_t part) {
    const int64_t end = std::min(rows, (part + 1) * STRETCH);
    for (int64_t n = part * STRETCH; n < end; n++) work(n, part);
  });
}

void norm(const Rows& in, float* y, int threads) {
  over_rows(in.count, threads, [&](int64_t n, int64_t) {
    const float* from = in.x + n * in.width;
    const float inverse = inverse_root(from, in.width, in.eps);
    float* to = y + n * in.width;
#pragma omp simd
    for (int64_t i = 0; i < in.width; i++) to[i] = from[i] * inverse * in.weight[i];
  });
}

void norm_back(const Rows& in, const float* grad, float* dx, float* parts, float* d_weight,
               int threads) {
  const int64_t width = in.width, num_parts = stretches(in.count);
  std::memset(parts, 0, num_parts * width * sizeof(float));
  over_rows(in.count, threads, [&](int64_t n, int64_t part) {
    norm_gradient(in.x + n * width, in.weight, grad + n * width, width, in.eps, dx + n * width,
                  parts + part * width);
  });
  sum_parts(parts, num_parts, width, d_weight);
}

struct Heads {
  int64_t positions, length, heads, width;  // B·T, T, H, C
  float eps;
  const float *weight, *cosine, *sine;  // weight null: rotation alone; tables [T, C]
};

void rotate(const Heads& shape, const bf16* x, bf16* y, int threads) {
  const int64_t C = shape.width, half = C / 2;
  over_rows(shape.positions, threads, [&](int64_t at, int64_t) {
    float* row = scratch<float, 2>(C);
    const float *cosine = shape.cosine + at % shape.length * C,
                *sine = shape.sine + at % shape.length * C;
    for (int64_t h = 0; h < shape.heads; h++) {
      const int64_t begin = (at * shape.heads + h) * C;
      widen(x + begin, row, C);
      if (shape.weight != nullptr) {
        const float inverse = inverse_root(row, C, shape.eps);
#pragma omp simd
        for (int64_t i = 0; i < C; i++) row[i] *= inverse * shape.weight[i];
      }
#pragma omp simd
      for (int64_t i = 0; i < half; i++) {
        y[begin + i] = to_bf16(row[i] * cosine[i] - row[half + i] * sine[i]);
        y[begin + half + i] = to_bf16(row[half + i] * cosine[i] + row[i] * sine[i]);
      }
    }
  });
}

void rotate_back(const Heads& shape, const bf16* x, const bf16* grad, bf16* dx, float* parts,
                 float* d_weight, int threads) {
  const int64_t C = shape.width, half = C / 2, num_parts = stretches(shape.positions);
  if (parts != nullptr) std::memset(parts, 0, num_parts * C * sizeof(float));
  over_rows(shape.positions, threads, [&](int64_t at, int64_t part) {
    float* row = scratch<float, 2>(C);
    float* turned = scratch<float, 3>(C);
    const float *cosine = shape.cosine + at % shape.length * C,
                *sine = shape.sine + at % shape.length * C;
    for (int64_t h = 0; h < shape.heads; h++) {
      const int64_t begin = (at * shape.heads + h) * C;
      const bf16* from = grad + begin;
#pragma omp simd
      for (int64_t i = 0; i < half; i++) {
        const float first = from_bf16(from[i]), second = from_bf16(from[half + i]);
        turned[i] = first * cosine[i] + second * sine[i];
        turned[half + i] = second * cosine[i] - first * sine[i];
      }
      if (parts != nullptr) {
        widen(x + begin, row, C);
        norm_gradient(row, shape.weight, turned, C, shape.eps, turned, parts + part * C);
      }
      narrow(turned, dx + begin, C);
    }
  });
  if (parts != nullptr) sum_parts(parts, num_parts, C, d_weight);
}

}  // namespace
}  // namespace workbench

using workbench::bf16;

extern "C" {

int64_t workbench_norm_parts(int64_t rows) { return workbench::stretches(rows); }

int workbench_rms_norm(int64_t rows, int64_t width, float eps, const float* x, const float* weight,
                       float* y, int threads) {
  WORKBENCH_GUARDED(workbench::norm({rows, width, eps, x, weight}, y, threads))
}

// parts [workbench_norm_parts(rows), D].
int workbench_rms_norm_back(int64_t rows, int64_t width, float eps, const float* x,
                            const float* weight, const float* grad, float* dx, float* parts,
                            float* d_weight, int threads) {
  WORKBENCH_GUARDED(
      workbench::norm_back({rows, width, eps, x, weight}, grad, dx, parts, d_weight, threads))
}

int workbench_rotate(int64_t positions, int64_t length, int64_t heads, int64_t width, float eps,
                     const float* weight, const float* cosine, const float* sine, const bf16* x,
                     bf16* y, int threads) {
  WORKBENCH_GUARDED(workbench::rotate({positions, length, heads, width, eps, weight, cosine, sine},
                                      x, y, threads))
}

// parts [S, C] and d_weight are null where weight is.
int workbench_rotate_back(int64_t positions, int64_t length, int64_t heads, int64_t width,
                          float eps, const float* weight, const float* cosine, const float* sine,
                          const bf16* x, const bf16* grad, bf16* dx, float* parts, float* d_weight,
                          int threads) {
  WORKBENCH_GUARDED(
      workbench::rotate_back({positions, length, heads, width, eps, weight, cosine, sine}, x, grad,
                             dx, parts, d_weight, threads))
}
}
