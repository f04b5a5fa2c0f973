#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/drivers.h"
#include "engine/inspect/plan.h"
#include "engine/inspect/prediction_json.h"
#include "engine/model/served_spec.h"

namespace lockstep::inspect {
namespace {

using Json = nlohmann::ordered_json;
using partition::RankPart;

/// An infinite rate, which means no limit, becomes null.
Json rate(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json rates(const cost::Rates& r) {
  return {{"read_bytes_per_s", rate(r.read_bytes_per_s)}, {"flops_per_s", rate(r.flops_per_s)}};
}

Json link_of(const cost::Link& link) {
  Json rows = Json::array();
  for (const cost::LinkRow& row : link.rows) {
    const bool is_last = &row == &link.rows.back();
    rows.push_back({{"bytes", is_last ? Json(nullptr) : Json(row.bytes)},
                    {"latency_s", row.latency_s},
                    {"bytes_per_s", rate(row.bytes_per_s)}});
  }
  return rows;
}

Json machine_of(const PlanReport& report) {
  const cost::MachineLimits& machine = report.setting.machine;
  return {{"rank", rates(machine.rank)},
          {"host", rates(machine.host)},
          {"ranks_per_host", machine.ranks_per_host == 0 ? Json(nullptr) : Json(machine.ranks_per_host)},
          {"link", link_of(machine.link)},
          {"between_hosts", link_of(machine.between_hosts)},
          {"assumptions", report.assumptions}};
}

Json memory_of(const cost::RankMemory& memory) {
  return {{"weights", memory.weights.value},         {"cache", memory.cache.value},
          {"recurrences", memory.recurrences.value}, {"slots", memory.slots.value},
          {"workspace", memory.workspace.value},     {"total", memory.total().value}};
}

Json range(const Range& r) { return {r.begin, r.end}; }

Json ranks_of(const WorkingDegree& degree) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < degree.memory.size(); ++rank) {
    const RankPart& part = degree.partition.parts[rank];
    ranks.push_back({{"query_heads", range(part.heads.query)},
                     {"key_value_heads", range(part.heads.key_value)},
                     {"global_key_value_heads", range(part.global.heads)},
                     {"mlp_columns", range(part.mlp_columns)},
                     {"vocabulary", range(part.vocabulary)},
                     {"experts", range(part.experts)},
                     {"memory", memory_of(degree.memory[rank])}});
  }
  return ranks;
}

/// Heads that the model has in some layers only are null without such layers.
void add_parts(const checkpoint::ModelSpec& spec, const partition::Partition& partition, Json& json) {
  const auto extent = [&](int64_t (*size)(const RankPart&)) -> Json {
    const Extent e = extent_of(partition, size);
    return {{"least", e.least}, {"most", e.most}};
  };
  json["query_heads"] = extent([](const RankPart& p) { return p.heads.query.size(); });
  json["key_value_heads"] = extent([](const RankPart& p) { return p.heads.key_value.size(); });
  json["shared_key_value_heads"] = shared_heads(partition);
  json["global_key_value_heads"] = json["shared_global_key_value_heads"] = json["delta_heads"] = nullptr;
  if (spec.global_heads) {
    json["global_key_value_heads"] = extent([](const RankPart& p) { return p.global.heads.size(); });
    json["shared_global_key_value_heads"] = shared_global_heads(partition);
  }
  if (!spec.delta_layers.empty())
    json["delta_heads"] = extent([](const RankPart& p) { return p.delta_heads.query.size(); });
  json["gqa"] = std::string(partition::name_of(partition.gqa));
  json["mlp_columns"] = extent([](const RankPart& p) { return p.mlp_columns.size(); });
  json["vocabulary"] = extent([](const RankPart& p) { return p.vocabulary.size(); });
  json["experts"] = extent([](const RankPart& p) { return p.experts.size(); });
}

Json degree_of(const PlanReport& report, const Degree& degree) {
  Json json = {{"degree", degree.ranks}, {"works", degree.working.has_value()}};
  if (!degree.working) {
    json["reason"] = degree.refusal;
    return json;
  }
  const WorkingDegree& working = *degree.working;
  add_parts(report.setting.spec, working.partition, json);
  json["memory"] = memory_of(working.of_fullest());
  json["memory"]["fullest_rank"] = working.fullest;
  if (report.setting.devices) json["memory"]["padding"] = working.padding;
  if (!working.gqa_fallback.empty()) json["gqa_fallback"] = working.gqa_fallback;
  const bool fitting = fits(report.setting, working);
  json["fits"] = report.setting.budget ? Json(fitting) : Json(nullptr);
  if (!fitting) json["how_to_fit"] = how_to_fit(report.setting, working);
  const cost::Prediction& predicted = working.predicted;
  json["predicted"] = to_json(predicted);
  json["predicted"]["decode_step"] = to_json(predicted.decode);
  json["predicted"]["prefill_steps"] = to_json(predicted.prefill);
  const cost::Prediction& one = report.degrees.front().working->predicted;
  const double decode = predicted.decode_tokens_per_s / one.decode_tokens_per_s;
  const double prefill = predicted.prefill_tokens_per_s / one.prefill_tokens_per_s;
  json["speed_up"] = {{"decode", decode}, {"prefill", prefill}};
  json["efficiency"] = {{"decode", decode / degree.ranks}, {"prefill", prefill / degree.ranks}};
  json["ranks"] = ranks_of(working);
  return json;
}

Json gqa_modes_of(const PlanReport& report) {
  Json modes = Json::array();
  for (const cost::GqaCost& cost : report.gqa) {
    modes.push_back({{"gqa", std::string(partition::name_of(cost.wanted))},
                     {"runs_as", std::string(partition::name_of(cost.mode))},
                     {"why_not", cost.why_not},
                     {"weights", cost.weights.value},
                     {"cache", cost.cache.value},
                     {"slots", cost.slots},
                     {"slot_cache", cost.slot_cache.value},
                     {"decode_collectives", cost.collectives},
                     {"decode_sent", cost.decode_sent.value},
                     {"prefill_sent", cost.prefill_sent.value}});
  }
  return modes;
}

/// The device, and the options that name one: "neuron_target", null without it.
void add_devices(const PlanSetting& setting, Json& json) {
  json["device"] = setting.devices ? Json(setting.device) : Json(nullptr);
  for (const device::BackendDriver* driver : engine::drivers()) {
    for (const device::OptionRow& row : driver->options()) {
      if (!belongs_to(row.use, device::OptionUse::kPlanning)) continue;
      std::string key(row.name);
      std::ranges::replace(key, '-', '_');
      json[key] = nullptr;
      if (!setting.devices || &setting.devices->driver != driver) continue;
      const std::string value = device::OptionReader(driver->options(), setting.devices->values).text(row.name);
      if (!value.empty()) json[key] = value;
    }
  }
}

}  // namespace

std::string to_json(const PlanReport& report) {
  const PlanSetting& setting = report.setting;
  Json json = {{"model", report.model},
               {"model_type", setting.spec.model_type},
               {"dtype", std::string(to_string(setting.shard.dtype))},
               {"weights", model::weights_in_words(setting.spec)},
               {"kv_dtype", std::string(to_string(setting.spec.cache_type))},
               {"batch_size", setting.load.batch},
               {"max_seq_len", setting.shard.capacity},
               {"prefill_chunk", setting.shard.chunk},
               {"prompt_tokens", setting.load.prompt_tokens},
               {"new_tokens", setting.load.new_tokens},
               {"memory_budget", setting.budget ? Json(*setting.budget) : Json(nullptr)},
               {"machine", machine_of(report)},
               {"largest_degree", partition::largest_degree(setting.spec, setting.partition.experts)},
               {"degrees", Json::array()},
               {"best", nullptr}};
  add_devices(setting, json);
  for (const Degree& degree : report.degrees) {
    if (report.reports(degree)) json["degrees"].push_back(degree_of(report, degree));
  }
  if (!report.gqa.empty()) json["gqa_modes"] = gqa_modes_of(report);
  if (report.best.ranks > 0) json["best"] = {{"degree", report.best.ranks}, {"why", report.best.why}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::inspect
