// Rotary positions, the KV cache and attention.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/conformance/backend/scalar_operations.h"

namespace lockstep::conformance::scalar {
namespace {

/// Element `i` of the cache [S, G, C, h] at a position. With a window the cache is a ring behind its pinned rows.
double& cache_at(Array& cache, const graph::Node& node, int64_t slot, int64_t head, int64_t position, int64_t i) {
  const int64_t pinned = integer_or(node, "pinned", 0);
  int64_t row = position;
  while (node.has("window") && row >= cache.dim(2)) row -= cache.dim(2) - pinned;
  return cache.at((slot * cache.dim(1) + head) * cache.dim(2) + row, i);
}

double float_of(const double* bytes) {
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  return std::bit_cast<float>(bits);
}

/// The magnitude of a code e4m3 without sign.
double e4m3_magnitude(int code) { return code < 8 ? std::ldexp(code, -9) : std::ldexp(8 + code % 8, code / 8 - 10); }

/// The nearest code e4m3 of x, ties to even.
int nearest_e4m3(double x) {
  int best = 0;
  for (int code = 1; code < 127; ++code) {
    const double error = std::abs(std::abs(x) - e4m3_magnitude(code));
    const double least = std::abs(std::abs(x) - e4m3_magnitude(best));
    if (error < least || (error == least && code % 2 == 0)) best = code;
  }
  return best + (std::signbit(x) ? 128 : 0);
}

/// Columns of a row's values: rows in 8 bits have the four bytes of a scale behind them.
int64_t head_dim(const Array& cache) { return cache.dim(3) - (is_float(cache.type.dtype) ? 0 : 4); }

/// The values of a row; the types are those of runtime/core/cache_rows.h.
Numbers row_at(Array& cache, const graph::Node& node, int64_t slot, int64_t head, int64_t position) {
  const double* const stored = &cache_at(cache, node, slot, head, position, 0);
  Numbers row(stored, stored + head_dim(cache));
  if (is_float(cache.type.dtype)) return row;
  const double scale = float_of(stored + head_dim(cache));
  for (double& value : row) {
    const double sign = value < 128 ? 1 : -1;
    if (cache.type.dtype == DType::kInt8) {
      value = scale * (value < 128 ? value : value - 256);
    } else {
      value = scale * sign * e4m3_magnitude(static_cast<int>(value) % 128);
    }
  }
  return row;
}

/// Writes a row in 8 bits.
void write_codes(DType dtype, const double* values, int64_t count, double* row) {
  const float most_code = dtype == DType::kInt8 ? 127.0f : 448.0f;
  float largest = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < count; ++i) {
    is_finite = is_finite && std::isfinite(values[i]);
    largest = std::max(largest, std::abs(static_cast<float>(values[i])));
  }
  const bool is_zero = largest < 0x1p-100f;
  float scale = is_zero ? 0.0f : largest / most_code;
  if (!is_finite) scale = std::numeric_limits<float>::quiet_NaN();
  for (int64_t i = 0; i < count; ++i) {
    const float x = is_zero || !is_finite ? 0.0f : static_cast<float>(values[i]) * (most_code / largest);
    row[i] = dtype == DType::kInt8 ? static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(x))) : nearest_e4m3(x);
  }
  const auto bits = std::bit_cast<uint32_t>(scale);
  for (int i = 0; i < 4; ++i) row[count + i] = (bits >> (8 * i)) & 0xff;
}

bool is_visible(const graph::Node& node, int64_t key, int64_t position) {
  if (key > position) return false;
  if (node.has("chunked")) return key >= position / node.integer("window") * node.integer("window");
  return !node.has("window") || key > position - node.integer("window") || key < integer_or(node, "pinned", 0);
}

/// One query head of one row.
struct Query {
  int64_t t, slot, position, head;
};

double score_of(Rank& rank, const graph::Node& node, const Query& query, int64_t key) {
  Array& keys = rank.operand(node, 1);
  const int64_t h = head_dim(keys);
  const bool is_pinned = key < integer_or(node, "pinned", 0);
  const Array& q = rank.operand(node, is_pinned ? node.operands.size() - 1 : 0);
  const int64_t cache_head = node.integers("head_map")[static_cast<size_t>(query.head)];
  const Numbers row = row_at(keys, node, query.slot, cache_head, key);
  double score = 0;
  for (int64_t i = 0; i < h; ++i) score += q.at(query.t, query.head * h + i) * row[static_cast<size_t>(i)];
  score *= node.number("scale");
  if (const double cap = number_or(node, "soft_cap", 0.0); cap > 0) score = cap * std::tanh(score / cap);
  if (node.has("per_head", "slopes")) {
    score += rank.operand(node, 5).at(0, query.head) * static_cast<double>(key - query.position);
  }
  return score;
}

void attend(Rank& rank, const graph::Node& node, const Query& query) {
  Array& values = rank.operand(node, 2);
  const int64_t h = integer_or(node, "value_columns", head_dim(values));
  const int64_t cache_head = node.integers("head_map")[static_cast<size_t>(query.head)];
  std::vector<int64_t> visible;
  Numbers weights;
  for (int64_t key = 0; key <= query.position; ++key) {
    if (!is_visible(node, key, query.position)) continue;
    visible.push_back(key);
    weights.push_back(score_of(rank, node, query, key));
  }
  if (node.has("per_head", "sinks")) {
    weights.push_back(rank.operand(node, 5).at(0, query.head));  // a share that no value gets
  }
  const double best = *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - best);
  Numbers sums(static_cast<size_t>(h));
  for (size_t p = 0; p < visible.size(); ++p) {
    const Numbers row = row_at(values, node, query.slot, cache_head, visible[p]);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += weights[p] / total * row[i];
  }
  for (int64_t i = 0; i < h; ++i) rank.result(node).at(query.t, query.head * h + i) = sums[static_cast<size_t>(i)];
}

}  // namespace

void rope(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  Array& y = rank.result(node);
  y.v = x.v;
  const bool neighbours = node.has("pairs", "neighbours");
  const int64_t half = rank.operand(node, 2).columns();
  const int64_t head_dim = x.columns() / node.integer("heads");
  for (int64_t t = 0; t < x.rows(); ++t) {
    const int64_t slot = node.operands.size() > 3 ? rank.operand(node, 5).integer(t) : -1;
    const bool is_long = slot >= 0 && rank.operand(node, 4).integer(slot) != 0;
    for (int64_t head = 0; head < x.columns(); head += head_dim) {
      for (int64_t i = 0; i < half; ++i) {
        const double frequency = rank.operand(node, is_long ? 3 : 2).at(0, i);
        const double angle = static_cast<double>(rank.operand(node, 1).integer(t)) * frequency;
        const double c = std::cos(angle) * node.number("scale");
        const double s = std::sin(angle) * node.number("scale");
        const int64_t a = head + (neighbours ? 2 * i : i);
        const int64_t b = head + (neighbours ? 2 * i + 1 : i + half);
        y.at(t, a) = x.at(t, a) * c - x.at(t, b) * s;
        y.at(t, b) = x.at(t, b) * c + x.at(t, a) * s;
      }
    }
  }
}

void clamp_positions(Rank& rank, const graph::Node& node) {
  const Numbers& position = rank.operand(node, 0).v;
  for (size_t t = 0; t < position.size(); ++t) {
    rank.result(node).v[t] = std::min(position[t], static_cast<double>(node.integer("most")));
  }
}

void kv_append(Rank& rank, const graph::Node& node) {
  const Array& rows = rank.operand(node, 0);
  Array& cache = rank.operand(node, 1);
  for (int64_t t = 0; t < rows.rows(); ++t) {
    const int64_t slot = rank.operand(node, 2).integer(t);
    if (slot < 0) continue;
    const int64_t position = rank.operand(node, 3).integer(t);
    const int64_t h = head_dim(cache);
    for (int64_t head = 0; head < cache.dim(1); ++head) {
      double* const row = &cache_at(cache, node, slot, head, position, 0);
      const double* const values = &rows.v[static_cast<size_t>(t * rows.columns() + head * h)];
      if (is_float(cache.type.dtype)) {
        std::copy_n(values, h, row);
      } else {
        write_codes(cache.type.dtype, values, h, row);
      }
    }
  }
}

void attention(Rank& rank, const graph::Node& node) {
  const auto heads = static_cast<int64_t>(node.integers("head_map").size());
  for (int64_t t = 0; t < rank.result(node).rows(); ++t) {
    const int64_t slot = rank.operand(node, 3).integer(t);
    if (slot < 0) continue;  // zeros
    for (int64_t head = 0; head < heads; ++head) {
      attend(rank, node, {t, slot, rank.operand(node, 4).integer(t), head});
    }
  }
}

}  // namespace lockstep::conformance::scalar
