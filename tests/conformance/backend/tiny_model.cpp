#include "tests/conformance/backend/tiny_model.h"

#include <algorithm>
#include <cmath>

#include "runtime/core/hash.h"
#include "tests/conformance/backend/drawing.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;

constexpr int64_t kHidden = 24;
constexpr int64_t kHeadDim = 8;
constexpr int64_t kQueryHeads = 4;
constexpr int64_t kGroup = 2;             // query heads of one key/value head
constexpr int64_t kColumns = 5 * 16 - 6;  // of the MLP: five leaves, the last one narrower
constexpr int64_t kBlock = 16;
constexpr int64_t kLayers = 2;
constexpr int64_t kCapacity = 48;
constexpr int64_t kWindow = 6;  // of a second layer with window and experts, where those prompts are longer
constexpr int64_t kExperts = 4;
constexpr int64_t kChosenExperts = 2;

/// The seed of the weights called `name`.
uint64_t seed_of(const std::string& name) { return Fingerprint().add(name).value(); }

/// Bounds of `total` items over `ranks`, the larger parts last.
std::vector<int64_t> bounds_of(int64_t total, int ranks) {
  std::vector<int64_t> bounds;
  for (int r = 0; r <= ranks; ++r) bounds.push_back(total * r / ranks);
  return bounds;
}

/// Builds both graphs of one rank.
class TinyBuilder {
 public:
  TinyBuilder(const TinyOptions& options, int rank)
      : options_(options),
        rank_(rank),
        heads_{bounds_of(kQueryHeads, options.ranks)},
        leaves_{bounds_of(5, options.ranks)},
        vocabulary_(bounds_of(kTinyVocabulary, options.ranks)),
        own_heads_(heads_.range_of(rank)),
        own_kv_{own_heads_.begin / kGroup, (own_heads_.end + kGroup - 1) / kGroup},
        own_columns_{leaves_.range_of(rank).begin * kBlock, std::min(leaves_.range_of(rank).end * kBlock, kColumns)} {}

  TinyRank build() {
    TinyRank result;
    for (const bool prefill : {true, false}) {
      CaseBuilder b({.name = prefill ? "prefill" : "decode",
                     .ranks = options_.ranks,
                     .rank = rank_,
                     .rows = prefill ? options_.chunk : options_.slots,
                     .slots = options_.slots});
      add_step(b, prefill);
      Case c = std::move(b).finish();
      result.graphs.push_back(std::move(c.graph));
      result.contents.merge(c.contents);
    }
    return result;
  }

 private:
  /// The token rows of a step.
  struct Rows {
    ValueId ids, slot, position, chosen;
  };

  ValueId ints(CaseBuilder& b, const char* name, int32_t value = 0) const {
    return b.state(name, int_tensor({options_.slots}, std::vector<int32_t>(options_.slots, value)));
  }

  /// Rows and columns of the whole model's matrix `name`.
  ValueId matrix(CaseBuilder& b, const std::string& name, Shape whole, Range rows, Range columns) const {
    const double scale = 1.5 / std::sqrt(static_cast<double>(whole[1]));
    const std::vector<double> all = numbers_of(random_tensor({options_.dtype, whole}, seed_of(name), scale));
    std::vector<double> own;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      own.insert(own.end(), all.begin() + r * whole[1] + columns.begin, all.begin() + r * whole[1] + columns.end);
    }
    return b.weight(name, tensor(options_.dtype, {rows.size(), columns.size()}, own));
  }
  ValueId by_rows(CaseBuilder& b, const std::string& name, Shape whole, Range rows) const {
    return matrix(b, name, whole, rows, {0, whole[1]});
  }
  ValueId norm(CaseBuilder& b, const std::string& name, ValueId x) const {
    const ValueId w = b.weight(name, random_tensor({options_.dtype, {kHidden}}, seed_of(name), 2));
    return b.builder.rms_norm(x, w, 1e-5);
  }

  static Range elements(Range heads) { return {heads.begin * kHeadDim, heads.end * kHeadDim}; }

  Rows rows_of(CaseBuilder& b, bool prefill) const {
    if (prefill) {
      const int64_t t = options_.chunk;
      const auto row = [&](const char* name) { return b.input(name, zeros({DType::kInt32, {t}})); };
      const ValueId ids = row("ids"), slot = row("slot"), position = row("position");
      return {ids, slot, position, b.input("logit_rows", zeros({DType::kInt32, {options_.slots}}))};
    }
    const ValueId last_id = ints(b, "last_id"), length = ints(b, "length");
    const ValueId slot = b.builder.running_slots(ints(b, "active"), ints(b, "finished"));
    return {last_id, slot, length, slot};
  }

  ValueId attention_block(CaseBuilder& b, const Rows& rows, ValueId x, int64_t layer, bool prefill) const {
    const std::string name = "layers." + std::to_string(layer) + ".";
    const Range q_rows = elements(own_heads_), kv_rows = elements(own_kv_);
    const ValueId frequencies = b.builder.constant("frequencies" + std::to_string(layer), {1.0f, 0.3f, 0.1f, 0.03f});
    const Shape kv_shape{kQueryHeads / kGroup * kHeadDim, kHidden};
    ValueId q = b.builder.linear(x, by_rows(b, name + "q", {kQueryHeads * kHeadDim, kHidden}, q_rows));
    ValueId k = b.builder.linear(x, by_rows(b, name + "k", kv_shape, kv_rows));
    const ValueId v = b.builder.linear(x, by_rows(b, name + "v", kv_shape, kv_rows));
    q = b.builder.rope({q, rows.position, frequencies}, own_heads_.size(), 1.0);
    k = b.builder.rope({k, rows.position, frequencies}, own_kv_.size(), 1.0);
    const int64_t window = has_window_and_experts(layer) ? kWindow : 0;
    const int64_t capacity = window > 0 ? kWindow - 1 + options_.chunk : kCapacity;
    const TensorType cache{options_.dtype, {options_.slots, own_kv_.size(), capacity, kHeadDim}};
    const ValueId keys = b.cache("kv." + std::to_string(layer) + ".k", cache);
    const ValueId values = b.cache("kv." + std::to_string(layer) + ".v", cache);
    b.builder.kv_append(k, keys, rows.slot, rows.position, window);
    b.builder.kv_append(v, values, rows.slot, rows.position, window);
    graph::AttentionOptions attention{.scale = 0.35, .kernel = prefill ? "prefill" : "decode", .window = window};
    for (int64_t h = own_heads_.begin; h < own_heads_.end; ++h) {
      attention.head_map.push_back(h / kGroup - own_kv_.begin);
    }
    if (window > 0) attention.sinks = sinks(b, name);
    const ValueId y = b.builder.attention(q, keys, values, rows.slot, rows.position, std::move(attention));
    const ValueId o = matrix(b, name + "o", {kHidden, kQueryHeads * kHeadDim}, {0, kHidden}, q_rows);
    return b.builder.all_reduce(b.builder.linear_blocks(y, o, heads_, kHeadDim), heads_, options_.dtype);
  }

  bool has_window_and_experts(int64_t layer) const {
    return layer == 1 && options_.second_layer == SecondLayer::kWindowAndExperts;
  }

  /// A number for each of the rank's heads.
  ValueId sinks(CaseBuilder& b, const std::string& name) const {
    const std::vector<double> all = numbers_of(random_tensor({options_.dtype, {kQueryHeads}}, seed_of(name), 2));
    return b.weight(name + "sinks", tensor(options_.dtype, {own_heads_.size()},
                                           {all.begin() + own_heads_.begin, all.begin() + own_heads_.end}));
  }

  /// The rank's columns of every expert's gate or up, one expert after the other.
  ValueId stacked(CaseBuilder& b, const std::string& name) const {
    const std::vector<double> all =
        numbers_of(random_tensor({options_.dtype, {kExperts * kColumns, kHidden}}, seed_of(name), 0.3));
    std::vector<double> own;
    for (int64_t e = 0; e < kExperts; ++e) {
      const auto first = all.begin() + e * kColumns * kHidden;
      own.insert(own.end(), first + own_columns_.begin * kHidden, first + own_columns_.end * kHidden);
    }
    return b.weight(name, tensor(options_.dtype, {kExperts * own_columns_.size(), kHidden}, own));
  }

  ValueId expert_block(CaseBuilder& b, ValueId x, const std::string& name) const {
    const ValueId router = by_rows(b, name + "router", {kExperts, kHidden}, {0, kExperts});
    const ValueId logits = b.builder.linear(x, router, std::nullopt, DType::kFloat32);
    const ValueId down =
        matrix(b, name + "experts.down", {kExperts * kHidden, kColumns}, {0, kExperts * kHidden}, own_columns_);
    return b.builder.moe_experts({x, b.builder.moe_route(logits, {.chosen = kChosenExperts}),
                                  stacked(b, name + "experts.gate"), stacked(b, name + "experts.up"), down},
                                 {.experts = {0, kExperts}, .split = leaves_, .block = kBlock, .activation = "gelu"});
  }

  ValueId mlp_block(CaseBuilder& b, ValueId x, int64_t layer) const {
    const std::string name = "layers." + std::to_string(layer) + ".";
    if (has_window_and_experts(layer)) {
      return b.builder.all_reduce(expert_block(b, x, name), leaves_, options_.dtype);
    }
    const ValueId gate = b.builder.linear(x, by_rows(b, name + "gate", {kColumns, kHidden}, own_columns_));
    const ValueId up = b.builder.linear(x, by_rows(b, name + "up", {kColumns, kHidden}, own_columns_));
    const ValueId down = matrix(b, name + "down", {kHidden, kColumns}, {0, kHidden}, own_columns_);
    const ValueId partial =
        b.builder.linear_blocks(b.builder.gated_activation(gate, up, "silu"), down, leaves_, kBlock);
    return b.builder.all_reduce(partial, leaves_, options_.dtype);
  }

  ValueId logits_of(CaseBuilder& b, ValueId chosen) const {
    const Range own = vocabulary_range();
    const ValueId head = by_rows(b, "head", {kTinyVocabulary, kHidden}, own);
    std::vector<int64_t> parts;
    for (size_t r = 0; r + 1 < vocabulary_.size(); ++r) parts.push_back(vocabulary_[r + 1] - vocabulary_[r]);
    const ValueId part = b.builder.linear(norm(b, "final_norm", chosen), head, std::nullopt, DType::kFloat32);
    return b.builder.all_gather(part, parts);
  }

  Range vocabulary_range() const {
    return {vocabulary_[static_cast<size_t>(rank_)], vocabulary_[static_cast<size_t>(rank_) + 1]};
  }

  void add_step(CaseBuilder& b, bool prefill) const {
    const Rows rows = rows_of(b, prefill);
    const ValueId step = b.input("step", zeros({DType::kInt32, {2}}));
    const ValueId stop = b.input("stop_request", zeros({DType::kInt32, {options_.slots}}));
    const Range own = vocabulary_range();
    const ValueId table = by_rows(b, "embedding", {kTinyVocabulary, kHidden}, own);
    const BlockSplit one_leaf_each{bounds_of(options_.ranks, options_.ranks)};
    const ValueId embedded = b.builder.embedding(rows.ids, table, own.begin);
    ValueId x = b.builder.all_reduce(embedded, one_leaf_each, options_.dtype);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string name = "layers." + std::to_string(layer);
      x = b.builder.add(x, attention_block(b, rows, norm(b, name + ".norm1", x), layer, prefill));
      x = b.builder.add(x, mlp_block(b, norm(b, name + ".norm2", x), layer));
    }
    const ValueId chosen = b.builder.select_rows(x, rows.chosen);
    const ValueId logits = logits_of(b, chosen);
    add_sampling(b, rows, chosen, logits, step, stop);
  }

  void add_sampling(CaseBuilder& b, const Rows& rows, ValueId chosen, ValueId logits, ValueId step,
                    ValueId stop) const {
    const int64_t slots = options_.slots;
    const ValueId seen = b.state("seen", zeros({DType::kUInt8, {slots, kTinyVocabulary}}));
    const ValueId last_id = ints(b, "last_id"), length = ints(b, "length"), index = ints(b, "output_index");
    const ValueId finished = ints(b, "finished"), hash = ints(b, "parameter_hash", 1);
    b.builder.mark_seen(seen, rows.ids, rows.slot);
    b.builder.agree({chosen, step, last_id, length, index, hash, stop, finished});
    b.builder.advance(length, rows.slot);
    sampling::SlotRule rule = plain_rule();
    rule.parameters.repetition_penalty = 1.1f;
    rule.max_new_tokens = 1000;
    std::vector<ValueId> operands{logits, rows.chosen, last_id, index, finished, seen};
    for (const ValueId id : add_drawing_states(b, std::vector(static_cast<size_t>(slots), rule)))
      operands.push_back(id);
    b.builder.output("tokens", b.builder.sample(std::move(operands)));
    b.builder.output("logits", logits);
  }

  const TinyOptions options_;
  const int rank_;
  const BlockSplit heads_;
  const BlockSplit leaves_;
  const std::vector<int64_t> vocabulary_;
  const Range own_heads_;
  const Range own_kv_;
  const Range own_columns_;
};

/// The rows of one prefill step.
struct Chunk {
  std::vector<int32_t> ids, slot, position, logit_rows;
};

std::vector<Chunk> chunks_of(const TinyOptions& options, const std::vector<std::vector<int32_t>>& prompts) {
  const auto rows = static_cast<size_t>(options.chunk);
  std::vector<Chunk> chunks;
  size_t next = rows;  // row of the last chunk that is free
  for (size_t s = 0; s < prompts.size(); ++s) {
    for (size_t p = 0; p < prompts[s].size(); ++p, ++next) {
      if (next == rows) {
        next = 0;
        chunks.push_back({std::vector<int32_t>(rows, 0), std::vector<int32_t>(rows, -1), std::vector<int32_t>(rows, 0),
                          std::vector<int32_t>(static_cast<size_t>(options.slots), -1)});
      }
      Chunk& chunk = chunks.back();
      chunk.ids[next] = prompts[s][p];
      chunk.slot[next] = static_cast<int32_t>(s);
      chunk.position[next] = static_cast<int32_t>(p);
      if (p + 1 == prompts[s].size()) chunk.logit_rows[s] = static_cast<int32_t>(next);
    }
  }
  return chunks;
}

/// Adds the tokens that a step chose and the logits that they were chosen from.
void record(const Outcome& outcome, Transcript& transcript) {
  const std::vector<int32_t> tokens = ints_of(outcome.outputs.at("tokens"));
  const std::vector<double> logits = numbers_of(outcome.outputs.at("logits"));
  for (size_t s = 0; s < transcript.tokens.size(); ++s) {
    if (tokens[s] < 0) continue;
    transcript.tokens[s].push_back(tokens[s]);
    const auto begin = logits.begin() + static_cast<int64_t>(s) * kTinyVocabulary;
    transcript.logits[s].push_back(tensor(DType::kFloat32, {kTinyVocabulary}, {begin, begin + kTinyVocabulary}));
  }
}

}  // namespace

TinyRank make_tiny_rank(const TinyOptions& options, int rank) { return TinyBuilder(options, rank).build(); }

Transcript generate(const Driver& driver, const TinyOptions& options, const std::vector<std::vector<int32_t>>& prompts,
                    int steps) {
  Transcript transcript{std::vector<std::vector<int32_t>>(prompts.size()),
                        std::vector<std::vector<TensorData>>(prompts.size())};
  const int64_t t = options.chunk;
  int32_t step = 0;
  Contents common{{"stop_request", zeros({DType::kInt32, {options.slots}})}};
  const auto run = [&](size_t graph, Contents inputs) {
    inputs.insert(common.begin(), common.end());
    inputs.emplace("step", int_tensor({2}, {0, step++}));
    record(driver.run(graph, inputs), transcript);
  };
  for (const Chunk& chunk : chunks_of(options, prompts)) {
    run(0, {{"ids", int_tensor({t}, chunk.ids)},
            {"slot", int_tensor({t}, chunk.slot)},
            {"position", int_tensor({t}, chunk.position)},
            {"logit_rows", int_tensor({options.slots}, chunk.logit_rows)}});
  }
  std::vector<int32_t> active(static_cast<size_t>(options.slots), 0);
  std::fill_n(active.begin(), prompts.size(), 1);
  driver.set({{"active", int_tensor({options.slots}, active)}});
  for (int i = 1; i < steps; ++i) run(1, {});
  return transcript;
}

Transcript generate_on(const BackendUnderTest& backend, const TinyOptions& options,
                       const std::vector<std::vector<int32_t>>& prompts, int steps, int threads) {
  Transcript transcript;
  run_ranks(options.ranks, [&](int rank, device::Communicator& communicator) {
    const TinyRank tiny = make_tiny_rank(options, rank);
    Session session(backend, tiny.graphs, &communicator, threads);
    session.set(tiny.contents);
    const Driver driver{[&](size_t graph, const Contents& inputs) {
                          session.run(graph, inputs).value();
                          return session.outcome(graph);
                        },
                        [&](const Contents& states) { session.set(states); }};
    Transcript own = generate(driver, options, prompts, steps);
    if (rank == 0) transcript = std::move(own);
  });
  return transcript;
}

Transcript generate_on_scalar_model(const TinyOptions& options, const std::vector<std::vector<int32_t>>& prompts,
                                    int steps) {
  LOCKSTEP_CHECK(options.ranks == 1, options.ranks);
  const TinyRank tiny = make_tiny_rank(options, 0);
  ScalarModel model;
  model.set(0, tiny.contents);
  const Driver driver{[&](size_t graph, const Contents& inputs) {
                        return model.run({&tiny.graphs[graph], 1}, {&inputs, 1}).front();
                      },
                      [&](const Contents& states) { model.set(0, states); }};
  return generate(driver, options, prompts, steps);
}

}  // namespace lockstep::conformance
