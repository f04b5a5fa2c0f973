#include "launcher/generate/generate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/report/rank_json.h"

namespace lockstep::launcher {
namespace {

using Json = nlohmann::ordered_json;
using Answers = std::span<const Answer>;

Json optional_number(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

/// [rows][tokens] seconds: the first since the submission, the others since the previous token.
Json latencies_of(Answers answers) {
  Json rows = Json::array();
  for (const Answer& answer : answers) {
    Json& row = rows.emplace_back(Json::array());
    for (const Duration latency : answer.times.latencies()) row.push_back(to_seconds(latency));
  }
  return rows;
}

Json timings_of(Answers answers, const EngineFacts& facts) {
  Json timings = Json::object();
  for (const auto& [phase, seconds] : facts.startup) timings[phase] = seconds;
  timings["ttft_s"] = optional_number(ttft_s(answers));
  timings["tpot_s"] = optional_number(tpot_s(answers));
  timings["token_latencies_s"] = latencies_of(answers);
  return timings;
}

/// {"ranks": [...]}, of what each rank has.
template <typename T>
Json by_rank(const std::vector<T>& values) {
  Json ranks = Json::array();
  for (const T& value : values) ranks.push_back(to_json(value));
  return {{"ranks", ranks}};
}

/// JSON has no −inf, the log-probability of an excluded token: null.
Json logprob_of(float logprob) { return std::isfinite(logprob) ? Json(logprob) : Json(nullptr); }

/// [rows][tokens] of the chosen tokens, and [rows][tokens][n] of the likeliest.
void add_logprobs(Answers answers, Json& json) {
  Json chosen = Json::array(), likeliest = Json::array();
  for (const Answer& answer : answers) {
    Json& row = chosen.emplace_back(Json::array());
    Json& top_row = likeliest.emplace_back(Json::array());
    for (const auto& record : answer.records) {
      row.push_back(logprob_of(record->logprob));
      Json& top = top_row.emplace_back(Json::array());
      for (const generation::TokenLogprob& token : record->top) {
        top.push_back({{"id", token.id}, {"logprob", logprob_of(token.logprob)}});
      }
    }
  }
  json["logprobs"] = std::move(chosen);
  json["top_logprobs"] = std::move(likeliest);
}

/// Adds the fields that only some runs have.
void add_extras(Answers answers, const EngineFacts& facts, const EngineCounters& counters, Json& json) {
  if (std::ranges::any_of(answers, [](const Answer& answer) { return answer.score.has_value(); })) {
    Json scores = Json::array();
    for (const Answer& answer : answers) scores.push_back(optional_number(answer.score));
    json["sequences_scores"] = std::move(scores);
  }
  if (std::ranges::any_of(answers, [](const Answer& answer) { return !answer.records.empty(); })) {
    add_logprobs(answers, json);
  }
  if (facts.drafts > 0) {
    json["speculation"] = {
        {"steps", counters.draft_steps}, {"drafted", counters.drafted}, {"accepted", counters.accepted}};
  }
}

}  // namespace

int64_t tokens_of(Answers answers) {
  int64_t count = 0;
  for (const Answer& answer : answers) count += std::ssize(answer.ids);
  return count;
}

std::optional<double> ttft_s(Answers answers) {
  const auto first = answers.empty() ? std::nullopt : answers.front().times.time_to_first_token();
  return first ? std::optional(to_seconds(*first)) : std::nullopt;
}

std::optional<double> tpot_s(Answers answers) {
  std::vector<TokenTimes> times;
  for (const Answer& answer : answers) times.push_back(answer.times);
  const auto mean = generation::time_per_output_token(times);
  return mean ? std::optional(to_seconds(*mean)) : std::nullopt;
}

std::string to_json(Answers answers, const EngineFacts& facts, const EngineCounters& counters) {
  Json json;
  Json sequences = Json::array(), texts = Json::array(), reasons = Json::array();
  for (const Answer& answer : answers) {
    sequences.push_back(answer.ids);
    texts.push_back(answer.text);
    reasons.push_back(std::string(generation::to_string(answer.reason)));
  }
  json["sequences"] = std::move(sequences);
  json["texts"] = std::move(texts);
  json["finish_reasons"] = std::move(reasons);
  add_extras(answers, facts, counters, json);
  json["world_size"] = facts.ranks;
  Json list = facts.graphs;
  for (const std::string& graph : facts.graphs_after_start) list.push_back(graph);
  json["graphs"] = {{"expected", facts.graphs_expected},
                    {"compiled", facts.graphs.size()},
                    {"after_warmup", facts.graphs_after_start.size()},
                    {"list", std::move(list)}};
  json["timings"] = timings_of(answers, facts);
  json["memory"] = by_rank(facts.memory);
  json["cores"] = by_rank(facts.cores);
  if (facts.report) {
    json["ranks"] = to_json(facts.report->ranks);
    json["stragglers"] = facts.report->stragglers;
  }
  json["backend"] = facts.backend;
  json["communicator"] = facts.communicator;
  json["threads"] = facts.threads;
  json["batch_sizes"] = facts.batch_sizes;
  json["context_buckets"] = facts.context_buckets;
  json["token_buckets"] = facts.token_buckets;
  json["dtype"] = facts.dtype;
  json["weights"] = facts.weights;
  json["kv_dtype"] = facts.kv_dtype;
  json["batch_size"] = facts.slots;
  json["prefill_chunk"] = facts.prefill_chunk;
  json["max_seq_len"] = facts.capacity;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string summary(Answers answers, const EngineFacts& facts, const EngineCounters& counters) {
  std::string line = fmt::format("{} tokens", tokens_of(answers));
  if (const auto ttft = ttft_s(answers)) line += fmt::format(", first after {:.3f} s", *ttft);
  if (const auto tpot = tpot_s(answers)) line += fmt::format(", then one each {:.2f} ms", *tpot * 1e3);
  if (facts.drafts > 0) {
    line += fmt::format("; {} of {} drafted tokens accepted", counters.accepted, counters.drafted);
  }
  RankMemory most;
  for (const RankMemory& memory : facts.memory) {
    most.weights = std::max(most.weights, memory.weights);
    most.states_resident = std::max(most.states_resident, memory.states_resident);
    most.peak_loading = std::max(most.peak_loading, memory.peak_loading);
    most.peak = std::max(most.peak, memory.peak);
  }
  line += fmt::format("; at most {} of weights and {} of states on a rank, {} in its process ({} while loading)",
                      to_string(most.weights), to_string(most.states_resident), to_string(most.peak),
                      to_string(most.peak_loading));
  return line;
}

}  // namespace lockstep::launcher
