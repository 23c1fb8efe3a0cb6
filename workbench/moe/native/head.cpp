// Cross-entropy of the head with its gradients in one pass, a chunk of rows at a time.
//
// N tokens, D model width, V vocabulary, R rows of a chunk. A chunk's gradients of the logits exist
// once, in bf16; the logits of 32 rows exist in fp32.

#include <cmath>

#include "tiles.h"

namespace workbench {
namespace {

constexpr int64_t ROWS = 32;
constexpr int64_t TILE = 256;

float largest(const float* x, int64_t n) {
  Floats most = all(-INFINITY);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const Floats next = floats(x + i, LANES);
    most = next > most ? next : most;
  }
  float found = largest_of(most);
  for (; i < n; i++) found = std::max(found, x[i]);
  return found;
}

// Replace logits by e^(logit - most); return their sum.
float exponentials(float* x, float most, int64_t n) {
  Floats sum{};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const Floats value = exponential(floats(x + i, LANES) - most);
    sum += value;
    store(value, x + i, LANES);
  }
  float total = sum_of(sum);
  for (; i < n; i++) {
    x[i] = exponential(all(x[i] - most))[0];
    total += x[i];
  }
  return total;
}

struct Head {
  int64_t tokens, width, vocabulary;
  const float *hidden, *matrix, *weight;
  const int64_t* target;
};

// What does not count is left out, not multiplied by 0: padding may hold NaN.
bool counts(const Head& head, int64_t n) {
  return head.weight == nullptr || head.weight[n] != 0.0f;
}

// One block of rows: their nats, the gradient of their hidden states, and of their logits.
void rows_of(const Head& head, int64_t first, int64_t rows, const uint32_t* by_columns,
             const uint32_t* by_rows, float* nats, float* d_hidden, uint32_t* d_logits) {
  const int64_t D = head.width, V = head.vocabulary, m = rounded(rows);
  bf16* input = scratch<bf16, 1>(ROWS * D);
  float* logits = scratch<float, 2>(ROWS * V);
  bf16* narrow_logits = scratch<bf16, 4>(ROWS * V);
  float* grad = scratch<float, 5>(ROWS * D);
  for (int64_t i = 0; i < m; i++) {
    if (i < rows && counts(head, first + i))
      narrow(head.hidden + (first + i) * D, input + i * D, D);
    else
      std::memset(input + i * D, 0, D * sizeof(bf16));
  }
  for (int64_t v = 0; v < V; v += TILE)
    multiply(m, std::min(TILE, V - v), D, input, D, by_columns + v, V, logits + v, V, false);
  float scale[ROWS];
  for (int64_t i = 0; i < m; i++) {
    float* row = logits + i * V;
    scale[i] = 0.0f;
    if (i >= rows || !counts(head, first + i)) {
      std::memset(row, 0, V * sizeof(float));
      if (i < rows) nats[first + i] = 0.0f;
      continue;
    }
    const float weight = head.weight == nullptr ? 1.0f : head.weight[first + i];
    const int64_t target = head.target[first + i];
    const float most = largest(row, V), aim = row[target];
    const float sum = exponentials(row, most, V);
    nats[first + i] = (std::log(sum) + most - aim) * weight;
    scale[i] = weight / sum;
    row[target] -= sum;  // scaled below, to the weight
  }
  if (d_hidden == nullptr) return;
  for (int64_t i = 0; i < m; i += 2)
    over_lanes(V, [&](int64_t v, int64_t count) {
      const Halves first = narrowed(floats(logits + i * V + v, count) * scale[i]);
      const Halves second = narrowed(floats(logits + (i + 1) * V + v, count) * scale[i + 1]);
      store(first, narrow_logits + i * V + v, count);
      store(second, narrow_logits + (i + 1) * V + v, count);
      store(paired(first, second), d_logits + i / 2 * V + v, count);
    });
  multiply(m, D, V, narrow_logits, V, by_rows, D, grad, D, false);
  std::memcpy(d_hidden + first * D, grad, rows * D * sizeof(float));
}

// The chunk's hidden states transposed, [D, R], zeros behind its last row.
void turn(const Head& head, int64_t first, int64_t rows, int64_t padded, bf16* to, int threads) {
  const int64_t D = head.width;
  over_threads(padded / ROWS, threads, [&](int64_t part) {
    uint32_t* pairs = scratch<uint32_t, 10>(ROWS / 2 * D);
    float* zeros = scratch<float, 5>(ROWS * D);
    std::memset(zeros, 0, D * sizeof(float));
    for (int64_t i = 0; i < ROWS; i += 2) {
      const auto row_of = [&](int64_t at) -> const float* {
        return at < rows && counts(head, first + at) ? head.hidden + (first + at) * D : zeros;
      };
      const int64_t at = part * ROWS + i;
      interleave(row_of(at), row_of(at + 1), pairs + i / 2 * D, D);
    }
    transpose(pairs, D, ROWS / 2, D, reinterpret_cast<uint32_t*>(to) + part * ROWS / 2,
              padded / 2);
  });
}

void cross_entropy(const Head& head, int64_t chunk, float* nats, float* d_hidden, float* d_matrix,
                   uint32_t* packed, uint32_t* d_logits, bf16* turned, float* d_turned,
                   int threads) {
  const int64_t D = head.width, V = head.vocabulary;
  uint32_t *by_columns = packed, *by_rows = packed + D * V / 2;
  const int64_t tiles = (V + TILE - 1) / TILE;
  over_threads(tiles, threads, [&](int64_t t) {
    const int64_t v = t * TILE, width = std::min(TILE, V - v);
    uint32_t* wide = scratch<uint32_t, 0>(16 * D);
    for (int64_t row = v; row < v + width; row += 16) {
      const int64_t height = std::min<int64_t>(16, v + width - row);
      narrow(head.matrix + row * D, reinterpret_cast<bf16*>(wide), height * D);
      transpose(wide, D / 2, height, D / 2, by_columns + row, V);
    }
    if (d_hidden != nullptr)
      pack_rows(head.matrix + v * D, width / 2 * 2, D, by_rows + v / 2 * D);
  });
  for (int64_t first = 0; first < head.tokens; first += chunk) {
    const int64_t rows = std::min(chunk, head.tokens - first);
    const int64_t padded = (rows + ROWS - 1) / ROWS * ROWS;
    over_threads(padded / ROWS, threads, [&](int64_t part) {
      const int64_t from = part * ROWS;
      rows_of(head, first + from, std::min(ROWS, rows - from), by_columns, by_rows, nats,
              d_hidden, d_logits + from / 2 * V);
    });
    if (d_hidden == nullptr) continue;
    turn(head, first, rows, padded, turned, threads);
    const bool is_last = first + chunk >= head.tokens;
    // Only the padding of the last block of rows to 16 was written.
    const int64_t depth = padded - ROWS + rounded(rows - (padded - ROWS));
    over_threads(tiles, threads, [&](int64_t t) {
      const int64_t v = t * TILE, width = std::min(TILE, V - v);
      multiply(D, width, depth, turned, padded, d_logits + v, V, d_turned + v, V, first > 0);
      if (is_last)
        transpose(reinterpret_cast<uint32_t*>(d_turned) + v, V, D, width,
                  reinterpret_cast<uint32_t*>(d_matrix) + v * D, D);
    });
  }
}

}  // namespace
}  // namespace workbench

extern "C" {

// V even. d_hidden null leaves the gradients out.
int workbench_cross_entropy(int64_t tokens, int64_t width, int64_t vocabulary, int64_t chunk,
                            const float* hidden, const float* matrix, const int64_t* target,
                            const float* weight, float* nats, float* d_hidden, float* d_matrix,
                            uint32_t* packed, uint32_t* d_logits, workbench::bf16* turned,
                            float* d_turned, int threads) {
  WORKBENCH_GUARDED(workbench::cross_entropy(
      {tokens, width, vocabulary, hidden, matrix, weight, target}, chunk, nats, d_hidden,
      d_matrix, packed, d_logits, turned, d_turned, threads))
}
}
