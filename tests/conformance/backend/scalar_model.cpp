// A little over 400 lines: every operation in one place, in the order of OPERATIONS.md.
#include "tests/conformance/backend/scalar_model.h"

#include <algorithm>
#include <cmath>

#include "runtime/sampling/sampling.h"

namespace lockstep::conformance {
namespace {

using Numbers = std::vector<double>;

/// A tensor as numbers.
struct Array {
  TensorType type;
  Numbers v;

  int64_t dim(size_t axis) const { return type.shape[axis]; }
  int64_t columns() const { return dim(type.shape.rank() - 1); }
  int64_t rows() const {
    int64_t product = 1;
    for (size_t axis = 0; axis + 1 < type.shape.rank(); ++axis) product *= dim(axis);
    return product;
  }
  double& at(int64_t row, int64_t column) { return v[static_cast<size_t>(row * columns() + column)]; }
  double at(int64_t row, int64_t column) const { return v[static_cast<size_t>(row * columns() + column)]; }
  int64_t integer(int64_t i) const { return static_cast<int64_t>(v[static_cast<size_t>(i)]); }
};

/// The values of one rank during a step.
struct Rank {
  const graph::Graph* graph = nullptr;
  std::vector<Array> values;

  Array& operand(const graph::Node& node, size_t i) { return values[static_cast<size_t>(node.operands[i].value)]; }
  Array& result(const graph::Node& node) { return values[static_cast<size_t>(node.result->value)]; }
};

void embedding(Rank& rank, const graph::Node& node) {
  const Array& ids = rank.operand(node, 0);
  const Array& table = rank.operand(node, 1);
  Array& y = rank.result(node);
  for (int64_t t = 0; t < y.rows(); ++t) {
    const int64_t row = ids.integer(t) - node.integer("first_row");
    for (int64_t i = 0; i < y.columns(); ++i) y.at(t, i) = row >= 0 && row < table.rows() ? table.at(row, i) : 0.0;
  }
}

/// Σ x[t, k] · w[n, k] over k in [begin, end).
double dot(const Array& x, int64_t t, const Array& w, int64_t n, int64_t begin, int64_t end) {
  double sum = 0;
  for (int64_t k = begin; k < end; ++k) sum += x.at(t, k) * w.at(n, k);
  return sum;
}

void linear(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Array& w = rank.operand(node, 1);
  Array& y = rank.result(node);
  for (int64_t t = 0; t < y.dim(0); ++t) {
    for (int64_t n = 0; n < y.dim(1); ++n) {
      const double bias = node.operands.size() > 2 ? rank.operand(node, 2).at(0, n) : 0.0;
      y.at(t, n) = dot(x, t, w, n, 0, x.columns()) + bias;
    }
  }
}

void linear_blocks(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Array& w = rank.operand(node, 1);
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

void all_reduce(std::vector<Rank>& ranks, size_t index) {
  Numbers sum;
  for (Rank& rank : ranks) {
    const graph::Node& node = rank.graph->nodes[index];
    const Array& partial = rank.operand(node, 0);
    sum.resize(static_cast<size_t>(rank.result(node).type.shape.elements()));
    for (size_t i = 0; i < partial.v.size(); ++i) sum[i % sum.size()] += partial.v[i];
  }
  for (Rank& rank : ranks) rank.result(rank.graph->nodes[index]).v = sum;
}

void all_gather(std::vector<Rank>& ranks, size_t index) {
  for (Rank& receiver : ranks) {
    Array& y = receiver.result(receiver.graph->nodes[index]);
    for (int64_t r = 0; r < y.rows(); ++r) {
      int64_t column = 0;
      for (Rank& sender : ranks) {
        const Array& x = sender.operand(sender.graph->nodes[index], 0);
        for (int64_t i = 0; i < x.columns(); ++i) y.at(r, column++) = x.at(r, i);
      }
    }
  }
}

void agree(std::vector<Rank>& ranks, size_t index) {
  const Numbers requests = ranks[0].operand(ranks[0].graph->nodes[index], 6).v;  // rank 0's word
  for (Rank& rank : ranks) {
    Array& finished = rank.operand(rank.graph->nodes[index], 7);
    for (size_t s = 0; s < requests.size(); ++s) finished.v[s] = requests[s] != 0 ? 1 : finished.v[s];
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

void rms_norm(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Array& w = rank.operand(node, 1);
  Array& y = rank.result(node);
  for (int64_t r = 0; r < x.rows(); ++r) {
    double squares = 0;
    for (int64_t i = 0; i < x.columns(); ++i) squares += x.at(r, i) * x.at(r, i);
    const double root = std::sqrt(squares / static_cast<double>(x.columns()) + node.number("epsilon"));
    for (int64_t i = 0; i < x.columns(); ++i) {
      y.at(r, i) = w.at(0, i) * round_to(x.type.dtype, x.at(r, i) / root);
    }
  }
}

void rope(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  const Array& position = rank.operand(node, 1);
  const Array& frequencies = rank.operand(node, 2);
  Array& y = rank.result(node);
  y.v = x.v;
  const int64_t half = frequencies.columns();
  const int64_t head_dim = x.columns() / node.integer("heads");
  for (int64_t t = 0; t < x.rows(); ++t) {
    for (int64_t first = 0; first < x.columns(); first += head_dim) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position.integer(t)) * frequencies.at(0, i);
        const double c = std::cos(angle) * node.number("scale");
        const double s = std::sin(angle) * node.number("scale");
        y.at(t, first + i) = x.at(t, first + i) * c - x.at(t, first + i + half) * s;
        y.at(t, first + i + half) = x.at(t, first + i + half) * c + x.at(t, first + i) * s;
      }
    }
  }
}

/// Element `i` of a cache [S, G, C, h].
double& cache_at(Array& cache, int64_t slot, int64_t head, int64_t position, int64_t i) {
  return cache.at((slot * cache.dim(1) + head) * cache.dim(2) + position, i);
}

void kv_append(Rank& rank, const graph::Node& node) {
  const Array& rows = rank.operand(node, 0);
  Array& cache = rank.operand(node, 1);
  for (int64_t t = 0; t < rows.rows(); ++t) {
    const int64_t slot = rank.operand(node, 2).integer(t);
    if (slot < 0) continue;
    for (int64_t c = 0; c < rows.columns(); ++c) {
      cache_at(cache, slot, c / cache.dim(3), rank.operand(node, 3).integer(t), c % cache.dim(3)) = rows.at(t, c);
    }
  }
}

void attention(Rank& rank, const graph::Node& node) {
  const Array& q = rank.operand(node, 0);
  Array& keys = rank.operand(node, 1);
  Array& values = rank.operand(node, 2);
  Array& y = rank.result(node);
  const std::vector<int64_t>& head_map = node.integers("head_map");
  const int64_t h = keys.dim(3);
  for (int64_t t = 0; t < q.rows(); ++t) {
    const int64_t slot = rank.operand(node, 3).integer(t);
    if (slot < 0) continue;  // zeros
    const int64_t length = rank.operand(node, 4).integer(t) + 1;
    for (size_t head = 0; head < head_map.size(); ++head) {
      const int64_t first = static_cast<int64_t>(head) * h;
      Numbers scores(static_cast<size_t>(length));
      for (int64_t p = 0; p < length; ++p) {
        double& score = scores[static_cast<size_t>(p)];
        for (int64_t i = 0; i < h; ++i) score += q.at(t, first + i) * cache_at(keys, slot, head_map[head], p, i);
        score *= node.number("scale");
      }
      const double best = *std::max_element(scores.begin(), scores.end());
      double total = 0;
      for (double& score : scores) total += score = std::exp(score - best);
      for (int64_t i = 0; i < h; ++i) {
        double sum = 0;
        for (int64_t p = 0; p < length; ++p) {
          sum += scores[static_cast<size_t>(p)] / total * cache_at(values, slot, head_map[head], p, i);
        }
        y.at(t, first + i) = sum;
      }
    }
  }
}

void gated_activation(Rank& rank, const graph::Node& node) {
  const Array& gate = rank.operand(node, 0);
  Array& y = rank.result(node);
  const bool packed = node.operands.size() == 1;
  for (int64_t t = 0; t < y.rows(); ++t) {
    for (int64_t i = 0; i < y.columns(); ++i) {
      const double up = packed ? gate.at(t, y.columns() + i) : rank.operand(node, 1).at(t, i);
      y.at(t, i) = gate.at(t, i) / (1.0 + std::exp(-gate.at(t, i))) * up;
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

void select_rows(Rank& rank, const graph::Node& node) {
  const Array& x = rank.operand(node, 0);
  Array& y = rank.result(node);
  for (int64_t s = 0; s < y.rows(); ++s) {
    const int64_t row = rank.operand(node, 1).integer(s);
    for (int64_t i = 0; i < y.columns(); ++i) y.at(s, i) = row < 0 ? 0.0 : x.at(row, i);
  }
}

void running_slots(Rank& rank, const graph::Node& node) {
  const Array& active = rank.operand(node, 0);
  const Array& finished = rank.operand(node, 1);
  Array& y = rank.result(node);
  for (size_t s = 0; s < y.v.size(); ++s) {
    y.v[s] = active.v[s] != 0 && finished.v[s] == 0 ? static_cast<double>(s) : -1.0;
  }
}

void mark_seen(Rank& rank, const graph::Node& node) {
  for (int64_t t = 0; t < rank.operand(node, 1).columns(); ++t) {
    const int64_t slot = rank.operand(node, 2).integer(t);
    if (slot >= 0) rank.operand(node, 0).at(slot, rank.operand(node, 1).integer(t)) = 1;
  }
}

void advance(Rank& rank, const graph::Node& node) {
  for (const double slot : rank.operand(node, 1).v) {
    if (slot >= 0) rank.operand(node, 0).v[static_cast<size_t>(slot)] += 1;
  }
}

/// What the 64-bit seed of two i32 words is: the low word comes first.
uint64_t seed_of(const Array& words, int64_t slot) {
  const auto word = [&](int64_t i) {
    return static_cast<uint64_t>(static_cast<uint32_t>(static_cast<int32_t>(words.at(slot, i))));
  };
  return word(1) << 32 | word(0);
}

void sample(Rank& rank, const graph::Node& node) {
  enum {
    kLogits,
    kRows,
    kLastId,
    kOutputIndex,
    kFinished,
    kSeen,
    kTemperature,
    kTopP,
    kMinP,
    kPenalty,
    kTopK,
    kDoSample,
    kMaxNewTokens,
    kPadId,
    kSeed,
    kEos
  };
  const Array& logits = rank.operand(node, kLogits);
  const auto of_slot = [&](size_t i, int64_t s) { return rank.operand(node, i).v[static_cast<size_t>(s)]; };
  sampling::Scratch scratch(logits.columns());
  for (int64_t s = 0; s < logits.rows(); ++s) {
    const auto slot = static_cast<size_t>(s);
    double& token = rank.result(node).v[slot];
    token = of_slot(kFinished, s) != 0 ? of_slot(kPadId, s) : -1.0;
    if (of_slot(kRows, s) < 0 || of_slot(kFinished, s) != 0) continue;
    std::vector<float> row;
    std::vector<uint8_t> seen;
    for (int64_t i = 0; i < logits.columns(); ++i) {
      row.push_back(static_cast<float>(logits.at(s, i)));
      seen.push_back(static_cast<uint8_t>(rank.operand(node, kSeen).at(s, i)));
    }
    const sampling::Parameters parameters{.do_sample = of_slot(kDoSample, s) != 0,
                                          .temperature = static_cast<float>(of_slot(kTemperature, s)),
                                          .top_k = static_cast<int32_t>(of_slot(kTopK, s)),
                                          .top_p = static_cast<float>(of_slot(kTopP, s)),
                                          .min_p = static_cast<float>(of_slot(kMinP, s)),
                                          .repetition_penalty = static_cast<float>(of_slot(kPenalty, s)),
                                          .seed = seed_of(rank.operand(node, kSeed), s)};
    double& index = rank.operand(node, kOutputIndex).v[slot];
    token = sampling::choose(row, seen, parameters, static_cast<uint32_t>(index), scratch);
    rank.operand(node, kLastId).v[slot] = token;
    index += 1;
    const Array& eos = rank.operand(node, kEos);
    bool ends = index >= of_slot(kMaxNewTokens, s);
    for (int64_t i = 0; i < eos.columns(); ++i) ends = ends || eos.at(s, i) == token;
    rank.operand(node, kFinished).v[slot] = ends ? 1 : 0;
  }
}

/// Runs an operation that looks at its own rank only.
void run_local(Rank& rank, const graph::Node& node) {
  switch (node.op) {
    case graph::Op::kEmbedding: return embedding(rank, node);
    case graph::Op::kLinear: return linear(rank, node);
    case graph::Op::kLinearBlocks: return linear_blocks(rank, node);
    case graph::Op::kAdd: return add(rank, node);
    case graph::Op::kRmsNorm: return rms_norm(rank, node);
    case graph::Op::kRope: return rope(rank, node);
    case graph::Op::kKvAppend: return kv_append(rank, node);
    case graph::Op::kAttention: return attention(rank, node);
    case graph::Op::kGatedActivation: return gated_activation(rank, node);
    case graph::Op::kColumns: return columns(rank, node);
    case graph::Op::kSelectRows: return select_rows(rank, node);
    case graph::Op::kRunningSlots: return running_slots(rank, node);
    case graph::Op::kMarkSeen: return mark_seen(rank, node);
    case graph::Op::kAdvance: return advance(rank, node);
    case graph::Op::kSample: return sample(rank, node);
    case graph::Op::kAllReduce:
    case graph::Op::kAllGather:
    case graph::Op::kAgree: break;
  }
  LOCKSTEP_CHECK(false, to_string(node.op));
}

void run_node(std::vector<Rank>& ranks, size_t index) {
  const graph::Op op = ranks[0].graph->nodes[index].op;
  if (op == graph::Op::kAllReduce) return all_reduce(ranks, index);
  if (op == graph::Op::kAllGather) return all_gather(ranks, index);
  if (op == graph::Op::kAgree) return agree(ranks, index);
  for (Rank& rank : ranks) run_local(rank, rank.graph->nodes[index]);
}

TensorData data_of(const Array& array) {
  if (is_float(array.type.dtype)) return tensor(array.type.dtype, array.type.shape, array.v);
  if (array.type.dtype == DType::kInt32) return int_tensor(array.type.shape, {array.v.begin(), array.v.end()});
  TensorData data = zeros(array.type);
  for (size_t i = 0; i < array.v.size(); ++i) data.bytes[i] = static_cast<std::byte>(array.v[i]);
  return data;
}

/// The values of `graph` before its first node.
Rank start(const graph::Graph& graph, const Contents& contents, const Contents& inputs) {
  Rank rank{&graph, {}};
  for (const graph::Value& value : graph.values) {
    const Contents& source = value.kind == graph::ValueKind::kInput ? inputs : contents;
    const auto found = source.find(value.name);
    Numbers numbers(static_cast<size_t>(value.type.shape.elements()));
    if (value.kind == graph::ValueKind::kConstant) {
      numbers.assign(value.constant.begin(), value.constant.end());
    } else if (value.kind != graph::ValueKind::kResult && found != source.end()) {
      numbers = numbers_of(found->second);
    } else {
      LOCKSTEP_CHECK(value.kind == graph::ValueKind::kResult || value.kind == graph::ValueKind::kState, value.name);
    }
    rank.values.push_back({value.type, std::move(numbers)});
  }
  return rank;
}

}  // namespace

void ScalarModel::set(int rank, const Contents& contents) {
  for (const auto& [name, data] : contents) contents_[static_cast<size_t>(rank)].insert_or_assign(name, data);
}

std::vector<Outcome> ScalarModel::run(std::span<const graph::Graph> graphs, std::span<const Contents> inputs) {
  std::vector<Rank> ranks;
  for (size_t r = 0; r < graphs.size(); ++r) ranks.push_back(start(graphs[r], contents_[r], inputs[r]));
  for (size_t n = 0; n < graphs[0].nodes.size(); ++n) {
    run_node(ranks, n);
    for (Rank& rank : ranks) {
      const graph::Node& node = rank.graph->nodes[n];
      if (!node.result || !is_float(rank.result(node).type.dtype)) continue;
      for (double& v : rank.result(node).v) v = round_to(rank.result(node).type.dtype, v);
    }
  }
  std::vector<Outcome> outcomes(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const graph::Output& output : graphs[r].outputs) {
      outcomes[r].outputs.emplace(output.name, data_of(ranks[r].values[static_cast<size_t>(output.value.value)]));
    }
    for (const graph::ValueId id : graphs[r].values_of(graph::ValueKind::kState)) {
      outcomes[r].states.emplace(graphs[r].value(id).name, data_of(ranks[r].values[static_cast<size_t>(id.value)]));
    }
    set(static_cast<int>(r), outcomes[r].states);
  }
  return outcomes;
}

}  // namespace lockstep::conformance
