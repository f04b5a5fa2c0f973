#include "launcher/commands/generate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/ranks/report_json.h"

namespace lockstep::launcher {
namespace {

using Json = nlohmann::ordered_json;

Json optional_number(std::optional<double> value) { return value ? Json(*value) : Json(nullptr); }

/// [rows][tokens] seconds: the first since the submission, the others since the token before.
Json latencies_of(const Answers& answers) {
  Json rows = Json::array();
  for (const Answer& answer : answers.rows()) {
    Json& row = rows.emplace_back(Json::array());
    for (const Duration latency : answer.times.latencies()) row.push_back(to_seconds(latency));
  }
  return rows;
}

Json timings_of(const Answers& answers, const RunFacts& facts) {
  Json timings = Json::object();
  for (const auto& [phase, seconds] : facts.startup) timings[phase] = seconds;
  timings["ttft_s"] = optional_number(answers.ttft_s());
  timings["tpot_s"] = optional_number(answers.tpot_s());
  timings["token_latencies_s"] = latencies_of(answers);
  return timings;
}

Json memory_of(const RunFacts& facts) {
  Json ranks = Json::array();
  for (const RankMemory& memory : facts.memory) ranks.push_back(to_json(memory));
  return {{"ranks", ranks}};
}

/// −inf, of an excluded token, has no number in JSON: null.
Json logprob_of(float logprob) { return std::isfinite(logprob) ? Json(logprob) : Json(nullptr); }

/// [rows][tokens] of the chosen tokens, and [rows][tokens][n] of the likeliest.
void add_logprobs(const Answers& answers, Json& json) {
  Json chosen = Json::array(), likeliest = Json::array();
  for (const Answer& answer : answers.rows()) {
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

/// What only some runs have.
void add_extras(const Answers& answers, const RunFacts& facts, Json& json) {
  const auto& rows = answers.rows();
  if (std::ranges::any_of(rows, [](const Answer& answer) { return answer.score.has_value(); })) {
    Json scores = Json::array();
    for (const Answer& answer : rows) scores.push_back(optional_number(answer.score));
    json["sequences_scores"] = std::move(scores);
  }
  if (std::ranges::any_of(rows, [](const Answer& answer) { return !answer.records.empty(); })) {
    add_logprobs(answers, json);
  }
  if (facts.drafts) {
    json["speculation"] = {
        {"steps", facts.drafts->steps}, {"drafted", facts.drafts->drafted}, {"accepted", facts.drafts->accepted}};
  }
}

}  // namespace

std::string to_json(const Answers& answers, const RunFacts& facts) {
  Json json;
  Json sequences = Json::array(), texts = Json::array(), reasons = Json::array();
  for (const Answer& answer : answers.rows()) {
    sequences.push_back(answer.tokens);
    texts.push_back(answer.text);
    reasons.push_back(std::string(generation::to_string(answer.reason)));
  }
  json["sequences"] = std::move(sequences);
  json["texts"] = std::move(texts);
  json["finish_reasons"] = std::move(reasons);
  add_extras(answers, facts, json);
  json["world_size"] = facts.world_size;
  Json list = facts.graphs;
  for (const std::string& graph : facts.graphs_after_warmup) list.push_back(graph);
  json["graphs"] = {{"expected", facts.graphs_expected},
                    {"compiled", facts.graphs.size()},
                    {"after_warmup", facts.graphs_after_warmup.size()},
                    {"list", std::move(list)}};
  json["timings"] = timings_of(answers, facts);
  json["memory"] = memory_of(facts);
  if (facts.group) {
    json["ranks"] = to_json(facts.group->ranks);
    json["stragglers"] = facts.group->stragglers;
  }
  json["backend"] = facts.backend;
  json["communicator"] = facts.communicator;
  json["threads"] = facts.threads;
  const auto or_one = [](const std::vector<int64_t>& sizes, int64_t one) {
    return sizes.empty() ? std::vector<int64_t>{one} : sizes;
  };
  json["batch_sizes"] = or_one(facts.batch_sizes, facts.slots);
  json["context_buckets"] = or_one(facts.context_buckets, facts.chunk);
  json["token_buckets"] = or_one(facts.token_buckets, facts.capacity);
  json["dtype"] = facts.dtype;
  json["weights"] = facts.weights;
  json["batch_size"] = facts.slots;
  json["prefill_chunk"] = facts.chunk;
  json["max_seq_len"] = facts.capacity;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string summary(const Answers& answers, const RunFacts& facts) {
  std::string line = fmt::format("{} tokens", answers.tokens());
  if (const auto ttft = answers.ttft_s()) line += fmt::format(", first after {:.3f} s", *ttft);
  if (const auto tpot = answers.tpot_s()) line += fmt::format(", then one each {:.2f} ms", *tpot * 1e3);
  if (facts.drafts) {
    line += fmt::format("; {} of {} drafts came true", facts.drafts->accepted, facts.drafts->drafted);
  }
  RankMemory most;
  for (const RankMemory& memory : facts.memory) {
    most.store.weights = std::max(most.store.weights, memory.store.weights);
    most.store.states_resident = std::max(most.store.states_resident, memory.store.states_resident);
    most.loading.peak = std::max(most.loading.peak, memory.loading.peak);
    most.peak = std::max(most.peak, memory.peak);
  }
  line += fmt::format("; at most {} of weights and {} of states on a rank, {} in its process ({} while loading)",
                      to_string(most.store.weights), to_string(most.store.states_resident), to_string(most.peak),
                      to_string(most.loading.peak));
  return line;
}

}  // namespace lockstep::launcher
