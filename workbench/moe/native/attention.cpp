// Causal attention, forward and backward, 64 queries at a time: what a position cannot see is
// never computed, and no softmax is kept.
//
// B sequences, T positions, H query heads, G key heads, C width of queries and keys, W width of
// values; all [B, T, heads, width] in bf16. Products and softmax accumulate in fp32.

#include <cmath>

#include "tiles.h"

namespace workbench {
namespace {

struct Shape {
  int64_t sequences, length, heads, key_heads, width, value_width;
  float scale;
  const int64_t* segment;  // [B, T]: documents, attention stays within one; null is one a sequence
};

struct Inputs {
  const bf16 *query, *key, *value;
};

// Keys of one head as packed operands, zeros behind the last position.
struct Keys {
  uint32_t* key_columns;   // [C/2, P]: for query · key
  uint32_t* value_rows;    // [P/2, W]: for softmax · value
};

// Rows of one head, `rows` of them from position `first`; zeros up to `padded`.
void copy_rows(const bf16* from, int64_t stride, int64_t rows, int64_t padded, int64_t width,
               bf16* to) {
  for (int64_t i = 0; i < rows; i++)
    std::memcpy(to + i * width, from + i * stride, width * sizeof(bf16));
  std::memset(to + rows * width, 0, (padded - rows) * width * sizeof(bf16));
}

void pack_pairs(const bf16* rows, int64_t num_rows, int64_t width, uint32_t* to) {
  for (int64_t i = 0; i < num_rows; i += 2)
    interleave(rows + i * width, rows + (i + 1) * width, to + i / 2 * width, width);
}

// Of row-major rows [n, width]: the packed operand of their transpose, [width/2, n].
void pack_transposed(const bf16* rows, int64_t num_rows, int64_t width, uint32_t* to, int64_t ld) {
  transpose(reinterpret_cast<const uint32_t*>(rows), width / 2, num_rows, width / 2, to, ld);
}

// Scores that are not to be seen become minus infinity.
void hide(const Shape& shape, int64_t b, int64_t query, int64_t key, float* scores, int64_t rows,
          int64_t columns, int64_t ld) {
  for (int64_t i = 0; i < rows; i++) {
    const int64_t t = query + i;
    for (int64_t j = std::max<int64_t>(0, t - key + 1); j < columns; j++)
      scores[i * ld + j] = -INFINITY;
    if (shape.segment == nullptr || t >= shape.length) continue;
    const int64_t* segment = shape.segment + b * shape.length;
    const int64_t real = std::min(columns, shape.length - key);
    for (int64_t j = 0; j < real; j++)
      if (segment[key + j] != segment[t]) scores[i * ld + j] = -INFINITY;
  }
}

// The same of scores [keys, queries], 64 of each.
void hide_transposed(const Shape& shape, int64_t b, int64_t query, int64_t key, float* scores) {
  const int64_t T = shape.length;
  for (int64_t i = 0; i < BLOCK; i++) {
    const int64_t at = key + i, unseen = std::clamp<int64_t>(at - query, 0, BLOCK);
    for (int64_t j = 0; j < unseen; j++) scores[i * BLOCK + j] = -INFINITY;
    if (shape.segment == nullptr || at >= T) continue;
    const int64_t* segment = shape.segment + b * T;
    for (int64_t j = 0; j < std::min(BLOCK, T - query); j++)
      if (segment[query + j] != segment[at]) scores[i * BLOCK + j] = -INFINITY;
  }
}

bool needs_hiding(const Shape& shape, int64_t query, int64_t key) {
  return shape.segment != nullptr || key + BLOCK > query;
}

void forward_head(const Shape& shape, const Inputs& in, int64_t b, int64_t h, bf16* out,
                  float* log_sum) {
  const int64_t T = shape.length, C = shape.width, W = shape.value_width;
  const int64_t P = blocks_of(T) * BLOCK, g = h / (shape.heads / shape.key_heads);
  const int64_t key_stride = shape.key_heads * C, value_stride = shape.key_heads * W;
  const int64_t query_stride = shape.heads * C, out_stride = shape.heads * W;
  bf16* rows = scratch<bf16, 1>(P * std::max(C, W));
  uint32_t* key_columns = scratch<uint32_t, 3>(P * C / 2);
  uint32_t* value_rows = scratch<uint32_t, 4>(P * W / 2);
  copy_rows(in.key + b * T * key_stride + g * C, key_stride, T, P, C, rows);
  for (int64_t block = 0; block < P; block += BLOCK)
    pack_transposed(rows + block * C, BLOCK, C, key_columns + block * C / 2, BLOCK);
  copy_rows(in.value + b * T * value_stride + g * W, value_stride, T, P, W, rows);
  pack_pairs(rows, P, W, value_rows);
  bf16* query = scratch<bf16, 5>(BLOCK * C);
  float* scores = scratch<float, 6>(BLOCK * P);
  bf16* probs = scratch<bf16, 7>(BLOCK * P);
  float* mixed = scratch<float, 8>(BLOCK * W);
  for (int64_t first = 0; first < T; first += BLOCK) {
    const int64_t real = std::min(BLOCK, T - first), seen = first + BLOCK;
    copy_rows(in.query + (b * T + first) * query_stride + h * C, query_stride, real, BLOCK, C,
              query);
    for (int64_t key = 0; key < seen; key += BLOCK) {
      multiply(BLOCK, BLOCK, C, query, C, key_columns + key * C / 2, BLOCK, scores + key, P,
               false);
      if (needs_hiding(shape, first, key))
        hide(shape, b, first, key, scores + key, BLOCK, BLOCK, P);
    }
    float inverse[BLOCK];
    for (int64_t i = 0; i < BLOCK; i++) {
      float* row = scores + i * P;
      const float scale = shape.scale;
      Floats peak = all(-INFINITY), sums{};  // `seen` is a multiple of LANES
      over_lanes(seen, [&](int64_t j, int64_t count) {
        const Floats next = floats(row + j, count);
        peak = next > peak ? next : peak;
      });
      const float most = largest_of(peak);
      over_lanes(seen, [&](int64_t j, int64_t count) {
        const Floats value = exponential((floats(row + j, count) - most) * scale);
        sums += value;
        store(narrowed(value), probs + i * P + j, count);
      });
      const float sum = sum_of(sums);
      inverse[i] = 1.0f / sum;
      if (i < real) log_sum[(b * shape.heads + h) * T + first + i] = most * scale + std::log(sum);
    }
    for (int64_t key = 0; key < seen; key += BLOCK)
      multiply(BLOCK, W, BLOCK, probs + key, P, value_rows + key / 2 * W, W, mixed, W, key > 0);
    for (int64_t i = 0; i < real; i++) {
      bf16* to = out + (b * T + first + i) * out_stride + h * W;
      over_lanes(W, [&](int64_t c, int64_t count) {
        store(narrowed(floats(mixed + i * W + c, count) * inverse[i]), to + c, count);
      });
    }
  }
}

struct Gradients {
  bf16 *query, *key, *value;
};

// What the backward pass needs of one head's queries and output gradients, per block of 64.
struct QuerySide {
  uint32_t *query_columns, *query_rows;  // [C/2, 64] and [32, C]
  uint32_t *grad_columns, *grad_rows;    // [W/2, 64] and [32, W]
  float *log_sum, *delta;                // of each position
};

void prepare_queries(const Shape& shape, const Inputs& in, const bf16* out, const bf16* grad,
                     const float* log_sum, int64_t b, int64_t h, const QuerySide& side) {
  const int64_t T = shape.length, C = shape.width, W = shape.value_width;
  const int64_t P = blocks_of(T) * BLOCK;
  const int64_t query_stride = shape.heads * C, out_stride = shape.heads * W;
  bf16* rows = scratch<bf16, 1>(P * std::max(C, W));
  copy_rows(in.query + b * T * query_stride + h * C, query_stride, T, P, C, rows);
  for (int64_t block = 0; block < P; block += BLOCK)
    pack_transposed(rows + block * C, BLOCK, C, side.query_columns + block * C / 2, BLOCK);
  pack_pairs(rows, P, C, side.query_rows);
  copy_rows(grad + b * T * out_stride + h * W, out_stride, T, P, W, rows);
  for (int64_t block = 0; block < P; block += BLOCK)
    pack_transposed(rows + block * W, BLOCK, W, side.grad_columns + block * W / 2, BLOCK);
  pack_pairs(rows, P, W, side.grad_rows);
  for (int64_t t = 0; t < T; t++) {
    const bf16* value = out + (b * T + t) * out_stride + h * W;
    Floats sum{};
    over_lanes(W, [&](int64_t c, int64_t count) {
      sum += widened(load<Halves>(value + c, count)) *
             widened(load<Halves>(rows + t * W + c, count));
    });
    side.delta[t] = sum_of(sum);
    side.log_sum[t] = log_sum[(b * shape.heads + h) * T + t];
  }
  // Behind the last position every probability is e^-inf.
  for (int64_t t = T; t < P; t++) side.delta[t] = 0.0f, side.log_sum[t] = INFINITY;
}

void add_rows(const float* from, int64_t rows, int64_t width, bf16* to, int64_t stride) {
  for (int64_t i = 0; i < rows; i++) narrow(from + i * width, to + i * stride, width);
}

// One key head with all query heads that share it.
void backward_head(const Shape& shape, const Inputs& in, const bf16* out, const bf16* grad,
                   const float* log_sum, int64_t b, int64_t g, const Gradients& to) {
  const int64_t T = shape.length, C = shape.width, W = shape.value_width;
  const int64_t P = blocks_of(T) * BLOCK, sharing = shape.heads / shape.key_heads;
  const int64_t key_stride = shape.key_heads * C, value_stride = shape.key_heads * W;
  const int64_t query_stride = shape.heads * C;
  bf16* keys = scratch<bf16, 2>(P * C);
  bf16* values = scratch<bf16, 3>(P * W);
  uint32_t* key_rows = scratch<uint32_t, 4>(P * C / 2);
  copy_rows(in.key + b * T * key_stride + g * C, key_stride, T, P, C, keys);
  copy_rows(in.value + b * T * value_stride + g * W, value_stride, T, P, W, values);
  pack_pairs(keys, P, C, key_rows);
  float* d_key = scratch<float, 5>(P * C);
  float* d_value = scratch<float, 6>(P * W);
  float* d_query = scratch<float, 7>(P * C);
  std::memset(d_key, 0, P * C * sizeof(float));
  std::memset(d_value, 0, P * W * sizeof(float));
  const QuerySide side{scratch<uint32_t, 8>(P * C / 2), scratch<uint32_t, 9>(P * C / 2),
                       scratch<uint32_t, 10>(P * W / 2), scratch<uint32_t, 11>(P * W / 2),
                       scratch<float, 12>(P), scratch<float, 13>(P)};
  float* scores = scratch<float, 14>(BLOCK * BLOCK);
  float* d_probs = scratch<float, 15>(BLOCK * BLOCK);
  bf16* probs = scratch<bf16, 16>(BLOCK * BLOCK);
  bf16* d_scores = scratch<bf16, 17>(BLOCK * BLOCK);
  bf16* turned = scratch<bf16, 18>(BLOCK * BLOCK);
  uint32_t* pairs = scratch<uint32_t, 19>(BLOCK * BLOCK / 2);
  for (int64_t h = g * sharing; h < (g + 1) * sharing; h++) {
    prepare_queries(shape, in, out, grad, log_sum, b, h, side);
    std::memset(d_query, 0, P * C * sizeof(float));
    for (int64_t key = 0; key < P; key += BLOCK)
      for (int64_t query = key; query < P; query += BLOCK) {
        // Transposed, [keys, queries]: as such they are the left operands of two products.
        multiply(BLOCK, BLOCK, C, keys + key * C, C, side.query_columns + query * C / 2, BLOCK,
                 scores, BLOCK, false);
        multiply(BLOCK, BLOCK, W, values + key * W, W, side.grad_columns + query * W / 2, BLOCK,
                 d_probs, BLOCK, false);
        const float *sums = side.log_sum + query, *delta = side.delta + query;
        const float scale = shape.scale;
        if (needs_hiding(shape, query, key)) hide_transposed(shape, b, query, key, scores);
        for (int64_t i = 0; i < BLOCK * BLOCK; i += LANES) {
          const int64_t j = i % BLOCK;
          const Floats p = exponential(floats(scores + i, LANES) * scale - floats(sums + j, LANES));
          const Floats d = p * (floats(d_probs + i, LANES) - floats(delta + j, LANES)) * scale;
          store(narrowed(p), probs + i, LANES);
          store(narrowed(d), d_scores + i, LANES);
        }
        multiply(BLOCK, W, BLOCK, probs, BLOCK, side.grad_rows + query / 2 * W, W,
                 d_value + key * W, W, true);
        multiply(BLOCK, C, BLOCK, d_scores, BLOCK, side.query_rows + query / 2 * C, C,
                 d_key + key * C, C, true);
        pack_pairs(d_scores, BLOCK, BLOCK, pairs);
        transpose(pairs, BLOCK, BLOCK / 2, BLOCK, reinterpret_cast<uint32_t*>(turned), BLOCK / 2);
        multiply(BLOCK, C, BLOCK, turned, BLOCK, key_rows + key / 2 * C, C, d_query + query * C,
                 C, true);
      }
    add_rows(d_query, T, C, to.query + b * T * query_stride + h * C, query_stride);
  }
  add_rows(d_key, T, C, to.key + b * T * key_stride + g * C, key_stride);
  add_rows(d_value, T, W, to.value + b * T * value_stride + g * W, value_stride);
}

}  // namespace
}  // namespace workbench

using workbench::bf16;

extern "C" {

int workbench_attention_forward(int64_t sequences, int64_t length, int64_t heads,
                                int64_t key_heads, int64_t width, int64_t value_width,
                                float scale, const int64_t* segment, const bf16* query,
                                const bf16* key, const bf16* value, bf16* out, float* log_sum,
                                int threads) {
  const workbench::Shape shape{sequences, length,      heads, key_heads,
                               width,     value_width, scale, segment};
  WORKBENCH_GUARDED(workbench::over_threads(sequences * heads, threads, [&](int64_t i) {
    workbench::forward_head(shape, {query, key, value}, i / heads, i % heads, out, log_sum);
  }))
}

int workbench_attention_backward(int64_t sequences, int64_t length, int64_t heads,
                                 int64_t key_heads, int64_t width, int64_t value_width,
                                 float scale, const int64_t* segment, const bf16* query,
                                 const bf16* key, const bf16* value, const bf16* out,
                                 const float* log_sum, const bf16* grad, bf16* d_query,
                                 bf16* d_key, bf16* d_value, int threads) {
  const workbench::Shape shape{sequences, length,      heads, key_heads,
                               width,     value_width, scale, segment};
  WORKBENCH_GUARDED(workbench::over_threads(sequences * key_heads, threads, [&](int64_t i) {
    workbench::backward_head(shape, {query, key, value}, out, grad, log_sum, i / key_heads,
                             i % key_heads, {d_query, d_key, d_value});
  }))
}
}
