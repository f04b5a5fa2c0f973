// Tables, products, norms, activations and copies.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "runtime/core/int8_groups.h"
#include "runtime/graph/coded_weights.h"
#include "tests/conformance/backend/scalar_operations.h"

namespace lockstep::conformance::scalar {
namespace {

/// Row `index + offset` of a table; zeros outside it.
void look_up(const Array& index, const Array& table, int64_t offset, Array& y, int64_t otherwise = -1) {
  for (int64_t t = 0; t < y.rows(); ++t) {
    int64_t row = index.integer(t) + offset;
    if (row < 0 || row >= table.rows()) row = otherwise;
    for (int64_t i = 0; i < y.columns(); ++i) y.at(t, i) = row >= 0 && row < table.rows() ? table.at(row, i) : 0.0;
  }
}

/// Σ x[t, k] · w[n, k] over k in [begin, end).
double dot(const Array& x, int64_t t, const Array& w, int64_t n, int64_t begin, int64_t end) {
  double sum = 0;
  for (int64_t k = begin; k < end; ++k) sum += x.at(t, k) * w.at(n, k);
  return sum;
}

/// Rounds each row by groups of columns: `round(values, rounded)` reads the elements of a group and writes as many.
template <typename Round>
void round_groups(Array& a, const ColumnGroups& groups, const Round& round) {
  std::vector<float> values;
  for (int64_t row = 0; row < a.rows(); ++row) {
    for (int64_t g = 0; g < groups.count(); ++g) {
      const Range columns = groups.of(g);
      values.clear();
      for (int64_t k = columns.begin; k < columns.end; ++k) values.push_back(static_cast<float>(a.at(row, k)));
      round(values, &a.at(row, columns.begin));
    }
  }
}

/// A weight as its codes give it.
Array through_codes(Array weight, const WeightFormat& format, const ColumnGroups& groups) {
  std::vector<uint8_t> codes(static_cast<size_t>(format.group));
  round_groups(weight, groups, [&](const std::vector<float>& values, double* rounded) {
    const auto count = static_cast<int64_t>(values.size());
    const GroupScale made = quantise_group(format, values.data(), count, codes.data());
    for (size_t i = 0; i < values.size(); ++i) rounded[i] = decode(format, codes[i], made.scale, made.offset);
  });
  return weight;
}

/// Rounded to 8-bit integers times a scale (runtime/core/int8_groups.h).
Array through_int8(Array x, const ColumnGroups& groups) {
  std::vector<int8_t> integers(static_cast<size_t>(groups.width));
  round_groups(x, groups, [&](const std::vector<float>& values, double* rounded) {
    const double scale = to_int8(values.data(), static_cast<int64_t>(values.size()), integers.data());
    for (size_t i = 0; i < values.size(); ++i) rounded[i] = integers[i] * scale;
  });
  return x;
}

struct Factors {
  Array x, w;
};

/// What a product multiplies: rounded where the weight is in codes. Cuts groups without graph::column_groups, which
/// backends use.
Factors factors_of(Rank& rank, const graph::Node& node) {
  Factors f{rank.operand(node, 0), rank.operand(node, 1)};
  const std::optional<WeightFormat> format = graph::format_of(*rank.graph, node, 1);
  if (!format) return f;
  const int64_t columns = f.x.columns();
  const ColumnGroups groups{
      .columns = columns, .leaf = integer_or(node, "block", std::max<int64_t>(columns, 1)), .width = format->group};
  f.w = through_codes(std::move(f.w), *format, groups);
  if (graph::has_int8_activations(node)) f.x = through_int8(std::move(f.x), groups);
  return f;
}

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments_of_row(const Array& x, int64_t row) {
  const auto width = static_cast<double>(x.columns());
  Moments moments;
  for (int64_t i = 0; i < x.columns(); ++i) moments.mean += x.at(row, i) / width;
  for (int64_t i = 0; i < x.columns(); ++i) moments.variance += std::pow(x.at(row, i) - moments.mean, 2) / width;
  return moments;
}

}  // namespace

void embedding(Rank& rank, const graph::Node& node) {
  const std::optional<WeightFormat> format = graph::format_of(*rank.graph, node, 1);
  if (!format) {
    return look_up(rank.operand(node, 0), rank.operand(node, 1), -node.integer("first_row"), rank.result(node));
  }
  const Array table = through_codes(rank.operand(node, 1), *format, graph::column_groups(*rank.graph, node, 1));
  look_up(rank.operand(node, 0), table, -node.integer("first_row"), rank.result(node));
}

void lookup(Rank& rank, const graph::Node& node) {
  look_up(rank.operand(node, 0), rank.operand(node, 1), node.integer("offset"), rank.result(node),
          integer_or(node, "otherwise", -1));
}

void linear(Rank& rank, const graph::Node& node) {
  const auto [x, w] = factors_of(rank, node);
  Array& y = rank.result(node);
  for (int64_t t = 0; t < y.dim(0); ++t) {
    for (int64_t n = 0; n < y.dim(1); ++n) {
      const double bias = node.operands.size() > 2 ? rank.operand(node, 2).at(0, n) : 0.0;
      y.at(t, n) = dot(x, t, w, n, 0, x.columns()) + bias;
    }
  }
}

void linear_blocks(Rank& rank, const graph::Node& node) {
  const auto [x, w] = factors_of(rank, node);
  Array& y = rank.result(node);
  const BlockSplit split{node.integers("blocks")};
  const int64_t first = split.range_of(rank.graph->rank).begin;
  const int64_t block = node.integer("block");
  const std::vector<Range> roots = split.roots_of(rank.graph->rank);
  for (size_t r = 0; r < roots.size(); ++r) {
    const int64_t begin = (roots[r].begin - first) * block;
    const int64_t end = std::min((roots[r].end - first) * block, x.columns());
    for (int64_t t = 0; t < y.dim(1); ++t) {
      for (int64_t n = 0; n < y.dim(2); ++n) {
        y.at(static_cast<int64_t>(r) * y.dim(1) + t, n) = dot(x, t, w, n, begin, end);
      }
    }
  }
}

void head_linear(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Array& w = rank.operand(node, 1);
  Array& y = rank.result(node);
  const int64_t outputs = w.rows() / node.integer("heads"), inputs = w.columns();
  for (int64_t t = 0; t < y.rows(); ++t) {
    for (int64_t n = 0; n < w.rows(); ++n) {
      const int64_t first = n / outputs * inputs;  // column of the head's part of x
      for (int64_t k = 0; k < inputs; ++k) y.at(t, n) += x.at(t, first + k) * w.at(n, k);
    }
  }
}

void add(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Array& y = rank.operand(node, 1);
  Array& z = rank.result(node);
  for (int64_t r = 0; r < z.rows(); ++r) {
    for (int64_t i = 0; i < z.columns(); ++i) z.at(r, i) = x.at(r, i) + y.at(y.rows() == 1 ? 0 : r, i);
  }
}

void multiply(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Array& y = rank.operand(node, 1);
  Array& z = rank.result(node);
  for (int64_t r = 0; r < z.rows(); ++r) {
    for (int64_t i = 0; i < z.columns(); ++i) {
      z.at(r, i) = x.at(r, i) * y.at(y.rows() == 1 ? 0 : r, y.columns() == 1 ? 0 : i);
    }
  }
}

void join_partials(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Array& y = rank.operand(node, 1);
  Array& z = rank.result(node);
  for (int64_t r = 0; r < z.rows(); ++r) {
    for (int64_t i = 0; i < z.columns(); ++i) z.at(r, i) = i < x.columns() ? x.at(r, i) : y.at(r, i - x.columns());
  }
}

void join_heads(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Array& y = rank.operand(node, 1);
  Array& z = rank.result(node);
  const int64_t heads = node.integer("heads"), first = x.columns() / heads, width = z.columns() / heads;
  for (int64_t r = 0; r < z.rows(); ++r) {
    for (int64_t i = 0; i < z.columns(); ++i) {
      const int64_t head = i / width, column = i % width;
      z.at(r, i) = column < first ? x.at(r, head * first + column) : y.at(r, head * (width - first) + column - first);
    }
  }
}

void scale(Rank& rank, const graph::Node& node) {
  const Numbers& x = rank.operand(node, 0).v;
  for (size_t i = 0; i < x.size(); ++i) rank.result(node).v[i] = x[i] * node.number("factor");
}

void scale_rows(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t i = 0; i < x.columns(); ++i) rank.result(node).at(r, i) = x.at(r, i) * rank.operand(node, 1).at(r, 0);
  }
}

void scale_by_position(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Numbers& factors = rank.operand(node, 2).v;
  const int64_t offset = node.integer_or("offset", 0);
  for (int64_t r = 0; r < x.rows(); ++r) {
    const auto place = static_cast<size_t>((rank.operand(node, 1).integer(r) + offset) / node.integer("every"));
    const double factor = factors[std::min(place, factors.size() - 1)];
    for (int64_t i = 0; i < x.columns(); ++i) rank.result(node).at(r, i) = x.at(r, i) * factor;
  }
}

void soft_cap(Rank& rank, const graph::Node& node) {
  const double cap = node.number("cap");
  const Numbers& x = rank.operand(node, 0).v;
  for (size_t i = 0; i < x.size(); ++i) rank.result(node).v[i] = cap * std::tanh(x[i] / cap);
}

void cut_off(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  Array& y = rank.result(node);
  for (int64_t r = 0; r < x.rows(); ++r) {
    const auto [mean, variance] = moments_of_row(x, r);
    const double cut = mean + node.number("deviations") * std::sqrt(variance);
    for (int64_t i = 0; i < x.columns(); ++i) y.at(r, i) = std::max(x.at(r, i) - cut, 0.0);
  }
}

/// The number e4m3 next to `value`, of two as near the even one.
double nearest_e4m3(double value) {
  double nearest = 0;
  for (int code = 0; code < 256; ++code) {
    const double candidate = e4m3_value(static_cast<uint8_t>(code));
    const double closer = std::abs(value - nearest) - std::abs(value - candidate);
    if (closer > 0 || (closer == 0 && code % 2 == 0)) nearest = candidate;
  }
  return nearest;
}

void round_to_codes(Numbers& row, bool is_e4m3, int64_t group, std::optional<float> given) {
  const double most = is_e4m3 ? 448 : 127;
  for (int64_t begin = 0, end = 0; begin < std::ssize(row); begin = end) {
    end = std::min(begin + group, std::ssize(row));
    double largest = 0;
    for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(row[static_cast<size_t>(i)]));
    // In float32, so that rounding meets the same ties.
    const float scale = given.value_or(static_cast<float>(largest) / static_cast<float>(most));
    for (int64_t i = begin; i < end; ++i) {
      double& value = row[static_cast<size_t>(i)];
      const double code = std::clamp<double>(static_cast<float>(value) / scale, -most, most);
      value = scale == 0 ? 0 : (is_e4m3 ? nearest_e4m3(code) : std::nearbyint(code)) * scale;
    }
  }
}

void fake_quantise(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  Array& y = rank.result(node);
  std::optional<float> scale;
  if (node.operands.size() > 1) scale = static_cast<float>(rank.operand(node, 1).v[0]);
  for (int64_t r = 0; r < x.rows(); ++r) {
    Numbers row;
    for (int64_t i = 0; i < x.columns(); ++i) row.push_back(x.at(r, i));
    round_to_codes(row, node.has("codes", "e4m3"), node.integer_or("group", x.columns()), scale);
    for (int64_t i = 0; i < x.columns(); ++i) y.at(r, i) = row[static_cast<size_t>(i)];
  }
}

void take_columns(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Array& order = rank.operand(node, 1);
  Array& y = rank.result(node);
  for (int64_t r = 0; r < y.rows(); ++r) {
    for (int64_t i = 0; i < y.columns(); ++i)
      y.at(r, i) = x.at(r, static_cast<int64_t>(order.v[static_cast<size_t>(i)]));
  }
}

void match_magnitude(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  Array& y = rank.result(node);
  const auto mean_square = [](const Array& a, int64_t r) {
    double sum = 0;
    for (int64_t i = 0; i < a.columns(); ++i) sum += a.at(r, i) * a.at(r, i);
    return sum / static_cast<double>(a.columns());
  };
  for (int64_t r = 0; r < x.rows(); ++r) {
    const double target = std::sqrt(mean_square(rank.operand(node, 1), r));
    const double own = std::sqrt(std::max(mean_square(x, r), node.number("least")));
    for (int64_t i = 0; i < x.columns(); ++i) y.at(r, i) = x.at(r, i) * (target / own);
  }
}

void weighted_sum(Rank& rank, const graph::Node& node) {
  const Array& factors = rank.operand(node, 0);
  Array& y = rank.result(node);
  for (int64_t r = 0; r < y.rows(); ++r) {
    for (int64_t i = 0; i < y.columns(); ++i) {
      y.at(r, i) = 0;
      for (size_t term = 1; term < node.operands.size(); ++term) {
        const auto column = node.integer("first") + static_cast<int64_t>(term) - 1;
        y.at(r, i) += (factors.at(r, column) + number_or(node, "offset", 0.0)) * rank.operand(node, term).at(r, i);
      }
    }
  }
}

void rms_norm(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  Array& y = rank.result(node);
  const int64_t width = x.columns() / node.integer_or("heads", 1);
  const double offset = number_or(node, "offset", 0.0);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t first = 0; first < x.columns(); first += width) {
      double squares = 0;
      for (int64_t i = first; i < first + width; ++i) squares += x.at(r, i) * x.at(r, i);
      const double root = std::sqrt(squares / static_cast<double>(width) + node.number("epsilon"));
      for (int64_t i = first; i < first + width; ++i) {
        const double inner = x.at(r, i) / root;
        const double weight = node.operands.size() > 1 ? rank.operand(node, 1).at(0, i - first) : 1.0;
        y.at(r, i) = (weight + offset) * (node.has("offset") ? inner : round_to(x.type.dtype, inner));
      }
    }
  }
}

void layer_norm(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  Array& y = rank.result(node);
  for (int64_t r = 0; r < x.rows(); ++r) {
    const auto [mean, variance] = moments_of_row(x, r);
    for (int64_t i = 0; i < x.columns(); ++i) {
      const double factor = rank.operand(node, 1).at(0, i) + node.number_or("offset", 0.0);
      const double bias = node.operands.size() > 2 ? rank.operand(node, 2).at(0, i) : 0.0;
      y.at(r, i) = factor * (x.at(r, i) - mean) / std::sqrt(variance + node.number("epsilon")) + bias;
    }
  }
}

double activated(const std::string& name, double v) {
  if (name == "sigmoid") return 1.0 / (1.0 + std::exp(-v));
  if (name == "silu") return v / (1.0 + std::exp(-v));
  if (name == "gelu") return v * 0.5 * std::erfc(-v / std::numbers::sqrt2);
  if (name == "gelu_tanh") {
    const double inner = std::sqrt(2.0 / std::numbers::pi) * (v + 0.044715 * v * v * v);
    return 0.5 * v * (1.0 + std::tanh(inner));
  }
  const double part = std::isnan(v) ? v : std::max(v, 0.0);
  if (name == "squared_relu") return part * part;
  LOCKSTEP_CHECK(name == "relu", name);
  return part;
}

void activation(Rank& rank, const graph::Node& node) {
  const Numbers& x = rank.operand(node, 0).v;
  for (size_t i = 0; i < x.size(); ++i) rank.result(node).v[i] = activated(node.text("activation"), x[i]);
}

void gated_activation(Rank& rank, const graph::Node& node) {
  const Array& gate = rank.operand(node, 0);
  Array& y = rank.result(node);
  const bool packed = node.operands.size() == 1;
  for (int64_t t = 0; t < y.rows(); ++t) {
    for (int64_t i = 0; i < y.columns(); ++i) {
      const double up = packed ? gate.at(t, y.columns() + i) : rank.operand(node, 1).at(t, i);
      y.at(t, i) = activated(node.text("activation"), gate.at(t, i)) * up;
    }
  }
}

void columns(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  Array& y = rank.result(node);
  for (int64_t r = 0; r < y.rows(); ++r) {
    for (int64_t i = 0; i < y.columns(); ++i) y.at(r, i) = x.at(r, node.integer("begin") + i);
  }
}

void first_rows(Rank& rank, const graph::Node& node) {
  Numbers& y = rank.result(node).v;
  std::copy_n(rank.operand(node, 0).v.begin(), y.size(), y.begin());
}

void select_rows(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  Array& y = rank.result(node);
  for (int64_t s = 0; s < y.rows(); ++s) {
    const int64_t row = rank.operand(node, 1).integer(s);
    for (int64_t i = 0; i < y.columns(); ++i) y.at(s, i) = row < 0 ? 0.0 : x.at(row, i);
  }
}

}  // namespace lockstep::conformance::scalar
