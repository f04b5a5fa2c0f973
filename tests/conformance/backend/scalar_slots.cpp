// The state of the slots: activity, seen tokens, length, next token.
#include <algorithm>
#include <cmath>

#include "runtime/sampling/slot.h"
#include "tests/conformance/backend/scalar_operations.h"

namespace lockstep::conformance::scalar {
namespace {

/// The 64-bit seed of two i32 words, the low word first.
uint64_t seed_of(const Array& words, int64_t slot) {
  const auto word = [&](int64_t i) {
    return static_cast<uint64_t>(static_cast<uint32_t>(static_cast<int32_t>(words.at(slot, i))));
  };
  return word(1) << 32 | word(0);
}

/// The sampling operands of a slot, by their indices in the node.
struct DrawingOperands {
  size_t last_id, output_index, finished, seen;

  size_t numbers() const { return seen + 1; }
  size_t integers() const { return seen + 2; }
  size_t seed() const { return seen + 3; }
  size_t eos() const { return seen + 4; }
};

/// The next token of slot `s` from row `row` of the logits, by sampling::choose; the slot's states follow.
double draw(Rank& rank, const graph::Node& node, const DrawingOperands& at, int64_t s, int64_t row,
            sampling::Scratch& scratch) {
  const auto slot = static_cast<size_t>(s);
  const auto number = [&](int column) { return static_cast<float>(rank.operand(node, at.numbers()).at(s, column)); };
  const auto integer = [&](int column) { return rank.operand(node, at.integers()).at(s, column); };
  const Array& logits = rank.operand(node, 0);
  std::vector<float> scores;
  std::vector<uint8_t> seen;
  for (int64_t i = 0; i < logits.columns(); ++i) {
    scores.push_back(static_cast<float>(logits.at(row, i)));
    seen.push_back(static_cast<uint8_t>(rank.operand(node, at.seen).at(s, i)));
  }
  const sampling::Parameters parameters{.do_sample = integer(sampling::kDoSample) != 0,
                                        .temperature = number(sampling::kTemperature),
                                        .top_k = static_cast<int32_t>(integer(sampling::kTopK)),
                                        .top_p = number(sampling::kTopP),
                                        .min_p = number(sampling::kMinP),
                                        .repetition_penalty = number(sampling::kRepetitionPenalty),
                                        .seed = seed_of(rank.operand(node, at.seed()), s),
                                        .typical_p = number(sampling::kTypicalP),
                                        .epsilon_cutoff = number(sampling::kEpsilonCutoff),
                                        .eta_cutoff = number(sampling::kEtaCutoff)};
  const Array& eos = rank.operand(node, at.eos());
  std::vector<int32_t> ends;
  for (int64_t i = 0; i < eos.columns(); ++i) ends.push_back(static_cast<int32_t>(eos.at(s, i)));
  double& index = rank.operand(node, at.output_index).v[slot];
  const bool may_end = index >= integer(sampling::kMinNewTokens);
  const int32_t token = sampling::choose(scores, seen, parameters, static_cast<uint32_t>(index), scratch,
                                         may_end ? std::span<const int32_t>() : ends);
  rank.operand(node, at.last_id).v[slot] = token;
  index += 1;
  const bool is_over = index >= integer(sampling::kMaxNewTokens) || std::count(ends.begin(), ends.end(), token) > 0;
  rank.operand(node, at.finished).v[slot] = is_over ? 1 : 0;
  return token;
}

}  // namespace

void running_slots(Rank& rank, const graph::Node& node) {
  const Array& active = rank.operand(node, 0);
  const Array& finished = rank.operand(node, 1);
  Array& y = rank.result(node);
  for (size_t s = 0; s < y.v.size(); ++s) {
    y.v[s] = active.v[s] != 0 && finished.v[s] == 0 ? static_cast<double>(s) : -1.0;
  }
}

void own_slots(Rank& rank, const graph::Node& node) {
  Array& y = rank.result(node);
  for (size_t t = 0; t < y.v.size(); ++t) {
    const double own = rank.operand(node, 0).v[t] - static_cast<double>(node.integer("first_slot"));
    y.v[t] = own >= 0 && own < static_cast<double>(node.integer("slots")) ? own : -1;
  }
}

void mark_seen(Rank& rank, const graph::Node& node) {
  for (int64_t t = 0; t < rank.operand(node, 1).columns(); ++t) {
    const int64_t slot = rank.operand(node, 2).integer(t);
    const int64_t id = rank.operand(node, 1).integer(t);
    if (slot >= 0 && id >= 0) rank.operand(node, 0).at(slot, id) = 1;
  }
}

void advance(Rank& rank, const graph::Node& node) {
  for (const double slot : rank.operand(node, 1).v) {
    if (slot >= 0) rank.operand(node, 0).v[static_cast<size_t>(slot)] += 1;
  }
}

void sample(Rank& rank, const graph::Node& node) {
  constexpr DrawingOperands kAt{.last_id = 2, .output_index = 3, .finished = 4, .seen = 5};
  sampling::Scratch scratch(rank.operand(node, 0).columns());
  Numbers& tokens = rank.result(node).v;
  for (size_t s = 0; s < tokens.size(); ++s) {
    const auto slot = static_cast<int64_t>(s);
    if (rank.operand(node, kAt.finished).v[s] != 0) {
      tokens[s] = rank.operand(node, kAt.integers()).at(slot, sampling::kPadId);
    } else {
      tokens[s] = rank.operand(node, 1).v[s] < 0 ? -1.0 : draw(rank, node, kAt, slot, slot, scratch);
    }
  }
}

void accept(Rank& rank, const graph::Node& node) {
  enum : size_t { kIds = 1, kSlot = 2, kLength = 3 };
  constexpr DrawingOperands kAt{.last_id = 4, .output_index = 5, .finished = 6, .seen = 7};
  sampling::Scratch scratch(rank.operand(node, 0).columns());
  Numbers& tokens = rank.result(node).v;
  const Array& row_slot = rank.operand(node, kSlot);
  const int64_t slots = rank.operand(node, kLength).columns();
  const int64_t most = row_slot.columns() / slots;
  std::fill(tokens.begin(), tokens.end(), -1.0);
  for (int64_t s = 0; s < slots; ++s) {
    const double& finished = rank.operand(node, kAt.finished).v[static_cast<size_t>(s)];
    const int64_t end = (s + 1) * most;
    for (int64_t row = s * most; row < end; ++row) {
      const auto t = static_cast<size_t>(row);
      if (row_slot.v[t] < 0) {  // the slot does not run, or has fewer drafts
        const bool is_pad = row == s * most && finished != 0;
        if (is_pad) tokens[t] = rank.operand(node, kAt.integers()).at(s, sampling::kPadId);
        break;
      }
      // One token at a time: the input must be the last step's output, or the rest of the draft is wrong.
      const double fed = rank.operand(node, kIds).v[t];
      if (row > s * most && (fed != tokens[t - 1] || finished != 0)) break;
      rank.operand(node, kAt.seen).at(s, static_cast<int64_t>(fed)) = 1;
      tokens[t] = draw(rank, node, kAt, s, row, scratch);
      rank.operand(node, kLength).v[static_cast<size_t>(s)] += 1;
    }
  }
}

void score(Rank& rank, const graph::Node& node) {
  const Array& logits = rank.operand(node, 0);
  const auto top = static_cast<size_t>(node.integer("top"));
  Array& result = rank.result(node);
  std::fill(result.v.begin(), result.v.end(), 0.0);
  for (int64_t row = 0; row < logits.rows(); ++row) {
    const int64_t target = rank.operand(node, 1).integer(row);
    if (target < 0) continue;
    double sum = 0;
    std::vector<int64_t> ids;
    for (int64_t id = 0; id < logits.columns(); ++id) {
      sum += std::exp(logits.at(row, id));
      ids.push_back(id);
    }
    std::stable_sort(ids.begin(), ids.end(),
                     [&](int64_t a, int64_t b) { return logits.at(row, a) > logits.at(row, b); });
    result.at(row, 0) = logits.at(row, target) - std::log(sum);
    for (size_t i = 0; i < top; ++i) {
      result.at(row, static_cast<int64_t>(1 + i)) = static_cast<double>(ids[i]);
      result.at(row, static_cast<int64_t>(1 + top + i)) = logits.at(row, ids[i]) - std::log(sum);
    }
  }
}

}  // namespace lockstep::conformance::scalar
