#include "tests/serve/load/load_plan.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace lockstep::load {
namespace {

using Json = nlohmann::ordered_json;

Json first_body(const Json& group, LoadApi api, const std::string& model, const Json& prompt) {
  Json body = {{"model", model},   {"max_tokens", group.value("max_tokens", 16)},
               {"temperature", 0}, {"ignore_eos", group.value("ignore_eos", false)},
               {"stream", true},   {"stream_options", {{"include_usage", true}}}};
  if (api == LoadApi::kChat) {
    body["messages"] = Json::array({{{"role", "user"}, {"content", prompt}}});
  } else {
    body["prompt"] = prompt;
  }
  body.merge_patch(group.value("fields", Json::object()));  // null removes a field
  return body;
}

std::vector<double> starts_of(const Json& group, int requests, uint64_t seed) {
  const double first = group.value("start_s", 0.0);
  if (group.contains("poisson_s")) return poisson_starts(requests, group.at("poisson_s"), first, seed);
  std::vector<double> starts;
  if (!group.contains("interval_s")) return starts;
  for (int i = 0; i < requests; ++i) starts.push_back(first + i * group.at("interval_s").get<double>());
  return starts;
}

LoadGroup group_of(const Json& from, const std::string& model, uint64_t seed) {
  LoadGroup group;
  group.name = from.at("name");
  group.api = from.value("api", "completions") == "chat" ? LoadApi::kChat : LoadApi::kCompletions;
  group.streams = from.value("streams", 1);
  group.requests = from.value("requests", 1);
  group.start_s = from.value("start_s", 0.0);
  group.starts_s = starts_of(from, group.requests, seed);
  group.turns = from.value("turns", std::vector<std::string>());
  for (const Json& prompt : from.at("prompts")) {
    group.bodies.push_back(first_body(from, group.api, model, prompt).dump());
  }
  if (group.bodies.empty()) throw std::invalid_argument(group.name + ": found no prompts, expected at least one");
  return group;
}

}  // namespace

Result<LoadPlan> LoadPlan::parse(std::string_view text) {
  try {
    const Json from = Json::parse(text);
    LoadPlan plan{.host = from.value("host", "127.0.0.1"),
                  .port = from.at("port"),
                  .deadline_s = from.value("deadline_s", 120.0),
                  .groups = {}};
    uint64_t seed = from.value("seed", 1);
    for (const Json& group : from.at("groups")) {
      plan.groups.push_back(group_of(group, from.value("model", ""), seed++));
    }
    return plan;
  } catch (const std::exception& failure) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[load] cannot read the plan: found '{}', expected what load_plan.h describes; correct it",
                             failure.what())};
  }
}

std::vector<double> poisson_starts(int count, double mean_gap_s, double first_s, uint64_t seed) {
  std::mt19937_64 random(seed);  // the standard fixes its numbers, but not those of its distributions
  std::vector<double> starts;
  double next = first_s;
  for (int i = 0; i < count; ++i) {
    starts.push_back(next);
    const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
    next -= mean_gap_s * std::log1p(-uniform);
  }
  return starts;
}

std::string next_body(LoadApi api, const std::string& body, const std::string& answer, const std::string& text) {
  Json next = Json::parse(body);
  if (api == LoadApi::kChat) {
    next["messages"].push_back({{"role", "assistant"}, {"content", answer}});
    next["messages"].push_back({{"role", "user"}, {"content", text}});
  } else if (next["prompt"].is_string()) {
    next["prompt"] = next["prompt"].get<std::string>() + answer + text;
  }
  return next.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::load
