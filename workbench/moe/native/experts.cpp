// SwiGLU experts on the rows that chose them, forward and backward.
//
// N tokens, K choices of a token, A kept assignments in order of their expert, E experts, D model
// width, F expert width. Each expert's rows stand in blocks of 64, the last one filled with zeros.

#include "tiles.h"

namespace workbench {
namespace {

struct Block {
  int64_t expert;
  int64_t first;  // place of its first row among the assignments
  int64_t rows;   // real ones
};

std::vector<Block> blocks_by_expert(const int64_t* ends, int64_t num_experts) {
  std::vector<Block> blocks;
  int64_t begin = 0;
  for (int64_t e = 0; e < num_experts; e++) {
    for (int64_t first = begin; first < ends[e]; first += BLOCK)
      blocks.push_back({e, first, std::min(BLOCK, ends[e] - first)});
    begin = ends[e];
  }
  return blocks;
}

struct Shape {
  int64_t tokens, choices, experts, width, inner;  // N, K, E, D, F
};

// Rows of the block's tokens in bf16, zeros behind the last.
void gather(const float* from, const int64_t* order, const Block& block, const Shape& shape,
            bf16* to) {
  const int64_t width = shape.width;
  for (int64_t i = 0; i < block.rows; i++)
    narrow(from + order[block.first + i] / shape.choices * width, to + i * width, width);
  const int64_t filled = rounded(block.rows);
  std::memset(to + block.rows * width, 0, (filled - block.rows) * width * sizeof(bf16));
}

// to[n] = sum over the token's kept choices, in their order.
void sum_choices(const float* rows, const int64_t* place, const Shape& shape, float* to,
                 int threads) {
  const int64_t width = shape.width;
  constexpr int64_t STRETCH = 128;
  over_threads((shape.tokens + STRETCH - 1) / STRETCH, threads, [&](int64_t part) {
    const int64_t end = std::min(shape.tokens, (part + 1) * STRETCH);
    for (int64_t n = part * STRETCH; n < end; n++) {
      float* sum = to + n * width;
      std::memset(sum, 0, width * sizeof(float));
      for (int64_t k = 0; k < shape.choices; k++) {
        const int64_t at = place[n * shape.choices + k];
        if (at < 0) continue;
        const float* row = rows + at * width;
        over_lanes(width, [&](int64_t d, int64_t count) {
          store(floats(sum + d, count) + floats(row + d, count), sum + d, count);
        });
      }
    }
  });
}

void forward(const Shape& shape, const int64_t* order, const int64_t* place, const int64_t* ends,
             const float* x, const float* weight, const float* gate, const float* up,
             const float* down, float* out, bf16* kept_gate, bf16* kept_up, float* rows,
             uint32_t* packed, int threads) {
  const int64_t D = shape.width, F = shape.inner, matrix = D * F / 2;
  uint32_t *packed_gate = packed, *packed_up = packed + shape.experts * matrix,
           *packed_down = packed + 2 * shape.experts * matrix;
  over_threads(3 * shape.experts, threads, [&](int64_t i) {
    const int64_t e = i / 3;
    uint32_t* wide = scratch<uint32_t, 0>(16 * std::max(D, F));
    if (i % 3 == 0) pack_columns(gate + e * D * F, D, F, packed_gate + e * matrix, wide);
    if (i % 3 == 1) pack_columns(up + e * D * F, D, F, packed_up + e * matrix, wide);
    if (i % 3 == 2) pack_columns(down + e * D * F, F, D, packed_down + e * matrix, wide);
  });
  const std::vector<Block> blocks = blocks_by_expert(ends, shape.experts);
  over_threads(static_cast<int64_t>(blocks.size()), threads, [&](int64_t b) {
    const Block& block = blocks[b];
    const int64_t m = rounded(block.rows), e = block.expert;
    bf16* input = scratch<bf16, 1>(BLOCK * D);
    float* g = scratch<float, 2>(BLOCK * F);
    float* u = scratch<float, 3>(BLOCK * F);
    bf16* h = scratch<bf16, 4>(BLOCK * F);
    float* y = scratch<float, 5>(BLOCK * D);
    gather(x, order, block, shape, input);
    multiply(m, F, D, input, D, packed_gate + e * matrix, F, g, F, false);
    multiply(m, F, D, input, D, packed_up + e * matrix, F, u, F, false);
    for (int64_t i = 0; i < m; i++) {
      const float w = i < block.rows ? weight[order[block.first + i]] : 0.0f;
      const int64_t kept = (block.first + i) * F;
      over_lanes(F, [&](int64_t f, int64_t count) {
        const Floats gated = floats(g + i * F + f, count), upper = floats(u + i * F + f, count);
        const Floats silu = gated / (1.0f + exponential(-gated));
        store(narrowed(silu * upper * w), h + i * F + f, count);
        if (i >= block.rows) return;
        store(narrowed(gated), kept_gate + kept + f, count);
        store(narrowed(upper), kept_up + kept + f, count);
      });
    }
    multiply(m, D, F, h, F, packed_down + e * matrix, D, y, D, false);
    std::memcpy(rows + block.first * D, y, block.rows * D * sizeof(float));
  });
  sum_choices(rows, place, shape, out, threads);
}

// What the gradients of the matrices are made of, a block after the other.
struct Kept {
  uint32_t *gate, *up, *hidden;  // gradients of gate and up, and the weighted hidden rows: packed
  bf16 *input, *output;          // input rows and output gradients, transposed: [D, 64]
};

// Of 16 hidden values: what the kept rows and the gradient of the weighted hidden row say.
struct Stretch {
  Halves d_gate, d_up, hidden;  // gradients of gate and up, the weighted hidden row
  Floats d_weight;              // to be summed over the row
};

Stretch gradients(Floats d, Floats g, Floats u, float weight) {
  const Floats sigmoid = 1.0f / (1.0f + exponential(-g));
  const Floats silu = g * sigmoid, h = silu * u, weighted = d * weight;
  return {narrowed(weighted * u * sigmoid * (1.0f + g * (1.0f - sigmoid))),
          narrowed(weighted * silu), narrowed(h * weight), d * h};
}

void transposed(const bf16* rows, int64_t width, bf16* to, uint32_t* pairs) {
  for (int64_t i = 0; i < BLOCK; i += 2)
    interleave(rows + i * width, rows + (i + 1) * width, pairs + i / 2 * width, width);
  transpose(pairs, width, BLOCK / 2, width, reinterpret_cast<uint32_t*>(to), BLOCK / 2);
}

void backward_block(const Shape& shape, const Block& block, int64_t number, const int64_t* order,
                    const float* x, const float* grad, const float* weight, const bf16* kept_gate,
                    const bf16* kept_up, const uint32_t* packed, const Kept& kept, float* rows,
                    float* d_weight) {
  const int64_t D = shape.width, F = shape.inner, matrix = D * F / 2, e = block.expert;
  const uint32_t *packed_gate = packed + e * matrix,
                 *packed_up = packed + (shape.experts + e) * matrix,
                 *packed_down = packed + (2 * shape.experts + e) * matrix;
  const int64_t m = rounded(block.rows);
  bf16* input = scratch<bf16, 1>(BLOCK * D);
  bf16* output = scratch<bf16, 6>(BLOCK * D);
  float* dh = scratch<float, 2>(BLOCK * F);
  bf16* narrow_gate = scratch<bf16, 4>(BLOCK * F);
  bf16* narrow_up = scratch<bf16, 9>(BLOCK * F);
  uint32_t* pairs = scratch<uint32_t, 10>(BLOCK / 2 * D);
  float* dx = scratch<float, 5>(BLOCK * D);
  gather(x, order, block, shape, input);
  gather(grad, order, block, shape, output);
  std::memset(input + m * D, 0, (BLOCK - m) * D * sizeof(bf16));
  std::memset(output + m * D, 0, (BLOCK - m) * D * sizeof(bf16));
  transposed(input, D, kept.input + number * BLOCK * D, pairs);
  transposed(output, D, kept.output + number * BLOCK * D, pairs);
  multiply(m, F, D, output, D, packed_down, F, dh, F, false);
  uint32_t *gate_pairs = kept.gate + number * BLOCK / 2 * F,
           *up_pairs = kept.up + number * BLOCK / 2 * F,
           *hidden_pairs = kept.hidden + number * BLOCK / 2 * F;
  for (int64_t i = 0; i < m; i += 2) {
    Floats d_weights[2] = {Floats{}, Floats{}};
    over_lanes(F, [&](int64_t f, int64_t count) {
      Stretch of[2] = {};
      for (int64_t half = 0; half < 2; half++) {
        const int64_t row = i + half, at = (block.first + row) * F + f;
        if (row >= block.rows) break;
        of[half] = gradients(floats(dh + row * F + f, count),
                             widened(load<Halves>(kept_gate + at, count)),
                             widened(load<Halves>(kept_up + at, count)),
                             weight[order[block.first + row]]);
        d_weights[half] += of[half].d_weight;
      }
      for (int64_t half = 0; half < 2; half++) {
        store(of[half].d_gate, narrow_gate + (i + half) * F + f, count);
        store(of[half].d_up, narrow_up + (i + half) * F + f, count);
      }
      store(paired(of[0].d_gate, of[1].d_gate), gate_pairs + i / 2 * F + f, count);
      store(paired(of[0].d_up, of[1].d_up), up_pairs + i / 2 * F + f, count);
      store(paired(of[0].hidden, of[1].hidden), hidden_pairs + i / 2 * F + f, count);
    });
    for (int64_t row = i; row < std::min(i + 2, block.rows); row++)
      d_weight[order[block.first + row]] = sum_of(d_weights[row - i]);
  }
  multiply(m, D, F, narrow_gate, F, packed_gate, D, dx, D, false);
  multiply(m, D, F, narrow_up, F, packed_up, D, dx, D, true);
  std::memcpy(rows + block.first * D, dx, block.rows * D * sizeof(float));
}

// Sum over the blocks of one expert of A [D, rows] · B [rows, F].
void sum_products(const std::vector<Block>& blocks, int64_t begin, int64_t end, const Shape& shape,
                  const bf16* a, const uint32_t* b, float* c) {
  const int64_t D = shape.width, F = shape.inner;
  for (int64_t i = begin; i < end; i++)
    multiply(D, F, rounded(blocks[i].rows), a + i * BLOCK * D, BLOCK, b + i * BLOCK / 2 * F, F, c,
             F, i > begin);
}

void matrix_gradients(const Shape& shape, const std::vector<Block>& blocks, const Kept& kept,
                      float* d_gate, float* d_up, float* d_down, int threads) {
  const int64_t D = shape.width, F = shape.inner;
  over_threads(3 * shape.experts, threads, [&](int64_t i) {
    const int64_t e = i / 3, which = i % 3;
    float* to = (which == 0 ? d_down : which == 1 ? d_gate : d_up) + e * D * F;
    int64_t begin = 0;
    while (begin < static_cast<int64_t>(blocks.size()) && blocks[begin].expert < e) begin++;
    int64_t end = begin;
    while (end < static_cast<int64_t>(blocks.size()) && blocks[end].expert == e) end++;
    if (begin == end) {
      std::memset(to, 0, D * F * sizeof(float));
    } else if (which == 0) {
      sum_products(blocks, begin, end, shape, kept.output, kept.hidden, to);
    } else {
      float* turned = scratch<float, 11>(D * F);
      sum_products(blocks, begin, end, shape, kept.input, which == 1 ? kept.gate : kept.up,
                   turned);
      transpose(reinterpret_cast<uint32_t*>(turned), F, D, F, reinterpret_cast<uint32_t*>(to), D);
    }
  });
}

void backward(const Shape& shape, const int64_t* order, const int64_t* place, const int64_t* ends,
              const float* x, const float* weight, const float* gate, const float* up,
              const float* down, const bf16* kept_gate, const bf16* kept_up, const float* grad,
              float* dx, float* d_weight, float* d_gate, float* d_up, float* d_down, float* rows,
              uint32_t* packed, const Kept& kept, int threads) {
  const int64_t D = shape.width, F = shape.inner, matrix = D * F / 2;
  over_threads(3 * shape.experts, threads, [&](int64_t i) {
    const int64_t e = i / 3, which = i % 3;
    uint32_t* to = packed + (which * shape.experts + e) * matrix;
    if (which == 0) pack_rows(gate + e * D * F, F, D, to);
    if (which == 1) pack_rows(up + e * D * F, F, D, to);
    if (which == 2) pack_rows(down + e * D * F, D, F, to);
  });
  const std::vector<Block> blocks = blocks_by_expert(ends, shape.experts);
  std::memset(d_weight, 0, shape.tokens * shape.choices * sizeof(float));
  over_threads(static_cast<int64_t>(blocks.size()), threads, [&](int64_t b) {
    backward_block(shape, blocks[b], b, order, x, grad, weight, kept_gate, kept_up, packed, kept,
                   rows, d_weight);
  });
  matrix_gradients(shape, blocks, kept, d_gate, d_up, d_down, threads);
  sum_choices(rows, place, shape, dx, threads);
}

}  // namespace
}  // namespace workbench

using workbench::bf16;

extern "C" {

// Stable order of the kept assignments by expert. chosen [N*K]: E stands for none; keep may be
// null. Returns how many are kept.
int64_t workbench_plan(int64_t assignments, int64_t experts, const int64_t* chosen,
                       const uint8_t* keep, int64_t* order, int64_t* place, int64_t* ends) {
  std::fill(ends, ends + experts, 0);
  const auto is_kept = [&](int64_t i) {
    return chosen[i] < experts && (keep == nullptr || keep[i] != 0);
  };
  for (int64_t i = 0; i < assignments; i++)
    if (is_kept(i)) ends[chosen[i]]++;
  std::vector<int64_t> next(experts);
  int64_t sum = 0;
  for (int64_t e = 0; e < experts; e++) {
    next[e] = sum;
    sum += ends[e];
    ends[e] = sum;
  }
  for (int64_t i = 0; i < assignments; i++) {
    place[i] = is_kept(i) ? next[chosen[i]]++ : -1;
    if (place[i] >= 0) order[place[i]] = i;
  }
  return sum;
}

int workbench_experts_forward(int64_t tokens, int64_t choices, int64_t experts, int64_t width,
                              int64_t inner, const int64_t* order, const int64_t* place,
                              const int64_t* ends, const float* x, const float* weight,
                              const float* gate, const float* up, const float* down, float* out,
                              bf16* kept_gate, bf16* kept_up, float* rows, uint32_t* packed,
                              int threads) {
  WORKBENCH_GUARDED(workbench::forward({tokens, choices, experts, width, inner}, order, place,
                                       ends, x, weight, gate, up, down, out, kept_gate, kept_up,
                                       rows, packed, threads))
}

int workbench_experts_backward(int64_t tokens, int64_t choices, int64_t experts, int64_t width,
                               int64_t inner, const int64_t* order, const int64_t* place,
                               const int64_t* ends, const float* x, const float* weight,
                               const float* gate, const float* up, const float* down,
                               const bf16* kept_gate, const bf16* kept_up, const float* grad,
                               float* dx, float* d_weight, float* d_gate, float* d_up,
                               float* d_down, float* rows, uint32_t* packed,
                               uint32_t* gate_pairs, uint32_t* up_pairs, uint32_t* hidden_pairs,
                               bf16* input_turned, bf16* output_turned, int threads) {
  WORKBENCH_GUARDED(workbench::backward(
      {tokens, choices, experts, width, inner}, order, place, ends, x, weight, gate, up, down,
      kept_gate, kept_up, grad, dx, d_weight, d_gate, d_up, d_down, rows, packed,
      {gate_pairs, up_pairs, hidden_pairs, input_turned, output_turned}, threads))
}
}
