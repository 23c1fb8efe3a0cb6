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
  Floats sum{};
  over_lanes(width, [&](int64_t i, int64_t count) {
    const Floats v = floats(x + i, count);
    sum += v * v;
  });
  return 1.0f / std::sqrt(sum_of(sum) / static_cast<float>(width) + eps);
}

// dx of one row, and its part of the weight's gradient. x and dx may be the same.
void norm_gradient(const float* x, const float* weight, const float* grad, int64_t width,
                   float eps, float* dx, float* d_weight) {
  const float inverse = inverse_root(x, width, eps);
  Floats sum{};
  over_lanes(width, [&](int64_t i, int64_t count) {
    sum += floats(grad + i, count) * floats(weight + i, count) * floats(x + i, count);
  });
  const float pull = sum_of(sum) * inverse * inverse / static_cast<float>(width);
  over_lanes(width, [&](int64_t i, int64_t count) {
    const Floats of = floats(grad + i, count), from = floats(x + i, count);
    store(floats(d_weight + i, count) + of * from * inverse, d_weight + i, count);
    store(inverse * (of * floats(weight + i, count) - from * pull), dx + i, count);
  });
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
    over_lanes(in.width, [&](int64_t i, int64_t count) {
      store(floats(from + i, count) * inverse * floats(in.weight + i, count), to + i, count);
    });
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
        over_lanes(C, [&](int64_t i, int64_t count) {
          store(floats(row + i, count) * inverse * floats(shape.weight + i, count), row + i, count);
        });
      }
      over_lanes(half, [&](int64_t i, int64_t count) {
        const Floats c = floats(cosine + i, count), s = floats(sine + i, count);
        const Floats first = floats(row + i, count), second = floats(row + half + i, count);
        store(narrowed(first * c - second * s), y + begin + i, count);
        store(narrowed(second * c + first * s), y + begin + half + i, count);
      });
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
      over_lanes(half, [&](int64_t i, int64_t count) {
        const Floats c = floats(cosine + i, count), s = floats(sine + i, count);
        const Floats first = widened(load<Halves>(from + i, count));
        const Floats second = widened(load<Halves>(from + half + i, count));
        store(first * c + second * s, turned + i, count);
        store(second * c - first * s, turned + half + i, count);
      });
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
