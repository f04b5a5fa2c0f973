#include "runtime/checkpoint/output_rows.h"

namespace lockstep::checkpoint {
namespace {

/// The same for the parts of linear attention.
std::optional<OutputRows> choose_delta_rows(Outputs outputs, int64_t total, const DeltaRuleSpec& rule) {
  if (rule.key_heads == 0) return std::nullopt;
  const int64_t keys = rule.key_heads * rule.key_dim, values = rule.value_heads * rule.value_dim;
  const int64_t shared = rule.value_heads / rule.key_heads, own = shared * rule.value_dim;  // of a key head
  const int64_t head = 2 * (rule.key_dim + own);
  const auto rows_if = [](bool right, OutputRows rows) { return right ? std::optional(rows) : std::nullopt; };
  const auto of_all = [&](int64_t first, int64_t rows) {
    return rows_if(total == 2 * keys + values, {.first = first, .count = rows});
  };
  const auto of_heads = [&](int64_t first, int64_t rows, int64_t group) {
    return rows_if(total == rule.key_heads * group, {first, rule.key_heads * rows, 1, rows, group});
  };
  const auto tiled = [&](int64_t first, int64_t width) {
    return OutputRows{first, rule.value_heads * width, 1, width, rule.key_heads * width, shared, width};
  };
  switch (outputs) {
    case Outputs::kTiledValues:
      if (total != rule.value_heads && total != values) return std::nullopt;
      return tiled(0, total / rule.value_heads);
    case Outputs::kDeltaTiledValues: return rows_if(total == 2 * keys + values, tiled(2 * keys, rule.value_dim));
    case Outputs::kDeltaQuery: return of_all(0, keys);
    case Outputs::kDeltaKey: return of_all(keys, keys);
    case Outputs::kDeltaValue: return of_all(2 * keys, values);
    case Outputs::kDeltaQueryByHead: return of_heads(0, rule.key_dim, head);
    case Outputs::kDeltaKeyByHead: return of_heads(rule.key_dim, rule.key_dim, head);
    case Outputs::kDeltaValueByHead: return of_heads(2 * rule.key_dim, own, head);
    case Outputs::kDeltaGateByHead: return of_heads(2 * rule.key_dim + own, own, head);
    case Outputs::kDeltaFirstByHead: return of_heads(0, shared, 2 * shared);
    case Outputs::kDeltaSecondByHead: return of_heads(shared, shared, 2 * shared);
    default: return std::nullopt;
  }
}

/// The same for the two parts of a head of latent attention.
std::optional<OutputRows> choose_latent_rows(Outputs outputs, int64_t total, const ModelSpec& spec) {
  if (!spec.latent || total != spec.query_heads * (spec.latent->plain_dim + spec.latent->value_dim))
    return std::nullopt;
  const int64_t head = spec.latent->plain_dim + spec.latent->value_dim;
  const bool is_key = outputs == Outputs::kLatentKey;
  const int64_t rows = is_key ? spec.latent->plain_dim : spec.latent->value_dim;
  return OutputRows{is_key ? 0 : spec.latent->plain_dim, spec.query_heads * rows, 1, rows, head};
}

}  // namespace

std::optional<OutputRows> choose_rows(Outputs outputs, int64_t total, const ModelSpec& spec) {
  const int64_t head = spec.head_dim, query = spec.query_heads * head, key = spec.key_value_heads * head;
  const bool fused = total == query + 2 * key, even = total % 2 == 0;
  const int64_t group = spec.query_heads / spec.key_value_heads * head;  // the queries of a key/value head
  const auto rows_if = [](bool right, OutputRows rows) { return right ? std::optional(rows) : std::nullopt; };
  switch (outputs) {
    case Outputs::kOnlyRow:
    case Outputs::kAsRow:
    case Outputs::kAll: return OutputRows{0, total};
    case Outputs::kQuery: return rows_if(fused, {0, query});
    case Outputs::kKey: return rows_if(fused, {query, key});
    case Outputs::kValue: return rows_if(fused, {query + key, key});
    case Outputs::kQueryByHead: return rows_if(fused, {0, query, 1, group, group + 2 * head});
    case Outputs::kKeyByHead: return rows_if(fused, {group, key, 1, head, group + 2 * head});
    case Outputs::kValueByHead: return rows_if(fused, {group + head, key, 1, head, group + 2 * head});
    case Outputs::kGatedQuery: return rows_if(total == 2 * query, {0, query, 1, head, 2 * head});
    case Outputs::kGateOfQuery: return rows_if(total == 2 * query, {head, query, 1, head, 2 * head});
    case Outputs::kDeltaQuery:
    case Outputs::kDeltaKey:
    case Outputs::kDeltaValue:
    case Outputs::kDeltaQueryByHead:
    case Outputs::kDeltaKeyByHead:
    case Outputs::kDeltaValueByHead:
    case Outputs::kDeltaGateByHead:
    case Outputs::kDeltaFirstByHead:
    case Outputs::kDeltaSecondByHead:
    case Outputs::kTiledValues:
    case Outputs::kDeltaTiledValues: return choose_delta_rows(outputs, total, spec.delta_rule);
    case Outputs::kLatentKey:
    case Outputs::kLatentValue: return choose_latent_rows(outputs, total, spec);
    case Outputs::kFirstHalf: return rows_if(even, {0, total / 2});
    case Outputs::kSecondHalf: return rows_if(even, {total / 2, total / 2});
    case Outputs::kEven: return rows_if(even, {0, total / 2, 2});
    case Outputs::kOdd: return rows_if(even, {1, total / 2, 2});
  }
  return std::nullopt;
}

std::optional<OutputRows> halves_of_heads(int64_t total, int64_t head) {
  if (head < 2 || head % 2 != 0 || total % head != 0) return std::nullopt;
  return OutputRows{
      .first = 0, .count = total, .step = 2, .group = head / 2, .group_step = 1, .set = 2, .set_step = head};
}

}  // namespace lockstep::checkpoint
