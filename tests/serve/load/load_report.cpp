#include "tests/serve/load/load_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace lockstep::load {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Spread& spread) {
  return {{"count", spread.count}, {"mean", spread.mean}, {"p50", spread.p50},
          {"p90", spread.p90},     {"p99", spread.p99},   {"max", spread.max}};
}

Json json_of(const TurnRecord& turn) {
  const Spread gaps = spread_of(turn.gaps_s);
  return {{"group", turn.group},
          {"conversation", turn.conversation},
          {"turn", turn.turn},
          {"started_s", turn.started_s},
          {"ttft_s", turn.ttft_s},
          {"wall_s", turn.wall_s},
          {"status", turn.status},
          {"prompt_tokens", turn.prompt_tokens},
          {"cached_tokens", turn.cached_tokens},
          {"tokens", turn.tokens},
          {"events", turn.events},
          {"gap_s", {{"p50", gaps.p50}, {"p99", gaps.p99}, {"max", gaps.max}}},
          {"error", turn.error.empty() ? Json() : Json(turn.error)}};
}

/// The turns of a group: speeds are over the time from its first begin to its last end.
Json group_json(const std::vector<const TurnRecord*>& turns) {
  std::vector<double> first, gaps, walls;
  double begin = INFINITY, end = 0.0;
  int64_t tokens = 0, prompt_tokens = 0;
  int errors = 0;
  for (const TurnRecord* turn : turns) {
    errors += turn->error.empty() ? 0 : 1;
    tokens += turn->tokens;
    prompt_tokens += turn->prompt_tokens;
    if (turn->ttft_s >= 0) first.push_back(turn->ttft_s);
    gaps.insert(gaps.end(), turn->gaps_s.begin(), turn->gaps_s.end());
    if (turn->wall_s < 0) continue;
    walls.push_back(turn->wall_s);
    begin = std::min(begin, turn->started_s);
    end = std::max(end, turn->started_s + turn->wall_s);
  }
  const double span = std::max(0.0, end - begin);
  return {{"turns", turns.size()},
          {"errors", errors},
          {"tokens", tokens},
          {"prompt_tokens", prompt_tokens},
          {"span_s", span},
          {"tokens_per_s", span > 0 ? static_cast<double>(tokens) / span : 0.0},
          {"ttft_s", json_of(spread_of(first))},
          {"gap_s", json_of(spread_of(gaps))},
          {"turn_s", json_of(spread_of(walls))}};
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  Spread spread{.count = values.size()};
  if (values.empty()) return spread;
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<size_t>(rank, 1) - 1];
  };
  for (const double value : values) spread.mean += value / static_cast<double>(values.size());
  spread.p50 = at(0.50);
  spread.p90 = at(0.90);
  spread.p99 = at(0.99);
  spread.max = values.back();
  return spread;
}

std::string report_json(const std::vector<TurnRecord>& turns, double wall_s, double cpu_s) {
  std::map<std::string, std::vector<const TurnRecord*>> groups;
  std::vector<const TurnRecord*> all;
  Json list = Json::array();
  for (const TurnRecord& turn : turns) {
    groups[turn.group].push_back(&turn);
    all.push_back(&turn);
    list.push_back(json_of(turn));
  }
  Json report = {{"wall_s", wall_s}, {"client_cpu_s", cpu_s}, {"all", group_json(all)}};
  report["groups"] = Json::object();
  for (const auto& [name, members] : groups) report["groups"][name] = group_json(members);
  report["turns"] = std::move(list);
  return report.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::load
