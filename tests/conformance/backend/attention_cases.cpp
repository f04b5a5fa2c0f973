#include "tests/conformance/backend/attention_cases.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/core/cache_rows.h"

namespace lockstep::conformance {
namespace {

using graph::ValueId;

/// Values per head: half of them negative, as learned ones are.
TensorData per_head_values(int64_t heads) { return random_tensor({DType::kFloat32, {heads}}, 77, 1.5); }

graph::AttentionOptions options_of(CaseBuilder& b, const AttentionStep& step, int64_t rows) {
  graph::AttentionOptions options;
  options.head_map = step.heads.map;
  options.scale = 1 / std::sqrt(static_cast<double>(step.heads.dim));
  options.kernel = step.kernel;
  options.window = step.window;
  options.chunked = step.chunked;
  options.pinned = step.pinned;
  options.soft_cap = step.soft_cap;
  options.bound = step.bound;
  options.value_columns = step.value_columns;
  if (step.per_head == "sinks") options.sinks = b.weight("sinks", per_head_values(step.heads.query()));
  if (step.per_head == "slopes") options.slopes = b.weight("slopes", per_head_values(step.heads.query()));
  if (step.pinned > 0) {
    const TensorType type{step.dtype, {rows, step.heads.query() * step.heads.dim}};
    options.pinned_q = b.input("pinned_q", random_tensor(type, 10 * step.seed + 4, 2));
  }
  return options;
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const CacheElements& elements) {
  return stream << ", rows " << to_string(elements.dtype) << " in caches "
                << to_string(elements.cache.value_or(elements.dtype));
}

std::vector<CacheElements> elements_of_caches(const BackendUnderTest& backend) {
  std::vector<CacheElements> all{{DType::kFloat32, std::nullopt}};
  if (!backend.make(/*threads=*/1).value()->capabilities().coded_caches) return all;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const DType cache : {DType::kInt8, DType::kUInt8}) all.push_back({dtype, cache});
  }
  return all;
}

Rows interleaved(const std::vector<int32_t>& lengths) {
  Rows rows;
  const int32_t longest = *std::max_element(lengths.begin(), lengths.end());
  for (int32_t position = 0; position < longest; ++position) {
    for (size_t s = 0; s < lengths.size(); ++s) {
      if (position >= lengths[s]) continue;
      rows.add(static_cast<int32_t>(s), position);
      if (rows.size() % 6 == 5) rows.add_padding();
    }
  }
  return rows;
}

Case append_and_attend(const AttentionStep& step, const Rows& rows) {
  const Heads& heads = step.heads;
  CaseBuilder b({.name = step.kernel, .ranks = 1, .rank = 0, .rows = rows.size(), .slots = step.slots});
  const DType elements = step.cache.value_or(step.dtype);
  const TensorType cache{elements, {step.slots, heads.cache, step.capacity, row_elements(elements, heads.dim)}};
  const auto random_rows = [&](const char* name, int64_t columns, uint64_t part) {
    return b.input(name, random_tensor({step.dtype, {rows.size(), columns}}, 10 * step.seed + part, 2));
  };
  const ValueId slot = b.input("slot", int_tensor({rows.size()}, rows.slot));
  const ValueId position = b.input("position", int_tensor({rows.size()}, rows.position));
  const ValueId q = random_rows("q", heads.query() * heads.dim, 1);
  const ValueId k = random_rows("k", heads.cache * heads.dim, 2);
  const ValueId keys = b.cache("kv.0.k", cache);
  ValueId values = keys;
  b.builder.kv_append(k, keys, slot, position, step.window, step.pinned);
  if (step.value_columns == 0) {
    const ValueId v = random_rows("v", heads.cache * heads.dim, 3);
    values = b.cache("kv.0.v", cache);
    b.builder.kv_append(v, values, slot, position, step.window, step.pinned);
  }
  const graph::AttentionOptions options = options_of(b, step, rows.size());
  b.builder.output("y", b.builder.attention(q, keys, values, slot, position, options));
  return std::move(b).finish();
}

void expect_sequence_conforms(const BackendUnderTest& backend, const std::vector<Case>& cases, double tolerance) {
  std::vector<graph::Graph> graphs;
  Contents contents;
  for (const Case& c : cases) {
    graphs.push_back(c.graph);
    for (const auto& [name, data] : c.contents) contents.insert_or_assign(name, data);
  }
  Session session(backend, graphs);
  std::optional<Session> oracle;
  if (compares_with_reference()) oracle.emplace(reference_backend(), graphs);
  ScalarModel model;
  session.set(contents);
  if (oracle) oracle->set(contents);
  model.set(0, contents);
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string step = " in step " + std::to_string(i);
    session.run(i, cases[i].inputs).value();
    const Outcome expected = model.run({&cases[i].graph, 1}, {&cases[i].inputs, 1}).front();
    expect_near(session.outcome(i), expected, tolerance, "against the scalar model" + step);
    if (!oracle) continue;
    oracle->run(i, cases[i].inputs).value();
    expect_near(session.outcome(i), oracle->outcome(i), tolerance, "against the reference backend" + step);
  }
}

}  // namespace lockstep::conformance
