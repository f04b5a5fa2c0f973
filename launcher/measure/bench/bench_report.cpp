#include "launcher/measure/bench/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

#include "engine/inspect/machine_description.h"
#include "engine/inspect/prediction_json.h"
#include "launcher/report/rank_json.h"
#include "runtime/core/short_number.h"

namespace lockstep::launcher {
namespace {

using trace::PhaseSplit;
using Json = nlohmann::ordered_json;
using Quantity = double (BenchReport::*)(const Repetition&) const;

/// The ratios to measured limits.
constexpr std::array<std::pair<std::string_view, Quantity>, 3> kRatios = {
    {{"of_bandwidth", &BenchReport::of_bandwidth},
     {"of_peak", &BenchReport::of_peak},
     {"decode_of_limit", &BenchReport::decode_of_limit}}};

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0.0; }

/// The mean over the repetitions.
double mean(const BenchReport& report, const std::function<double(const Repetition&)>& value) {
  double sum = 0;
  for (const Repetition& repetition : report.repetitions) sum += value(repetition);
  return sum / static_cast<double>(report.repetitions.size());
}

double median(const BenchReport& report, const std::function<double(const Repetition&)>& value) {
  std::vector<double> values;
  for (const Repetition& repetition : report.repetitions) values.push_back(value(repetition));
  return spread_of(std::move(values)).median;
}

PhaseSplit mean_split(const BenchReport& report, size_t rank, PhaseSplit RankSplit::*phase) {
  const auto of = [&](double PhaseSplit::*part) {
    return mean(report, [&](const Repetition& r) { return r.ranks.at(rank).*phase.*part; });
  };
  return {of(&PhaseSplit::compute_s), of(&PhaseSplit::communication_s), of(&PhaseSplit::waiting_s)};
}

Json spread_json(const Spread& spread) { return {{"min", spread.min}, {"median", spread.median}, {"max", spread.max}}; }

/// Times of the ranks, as means over the repetitions, in total and by phase.
Json ranks_of(const BenchReport& report) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < static_cast<size_t>(report.world_size); ++rank) {
    const PhaseSplit prefill = mean_split(report, rank, &RankSplit::prefill);
    const PhaseSplit decode = mean_split(report, rank, &RankSplit::decode);
    Json json = to_json(prefill + decode);
    json["prefill"] = to_json(prefill);
    json["decode"] = to_json(decode);
    json["memory"] = to_json(report.memory.at(rank));
    json["cores"] = to_json(report.cores.at(rank));
    ranks.push_back(std::move(json));
  }
  return ranks;
}

Json repetitions_of(const BenchReport& report) {
  Json list = Json::array();
  for (const Repetition& r : report.repetitions) {
    list.push_back({{"decode_tokens_per_s", report.decode_tokens_per_s(r)},
                    {"decode_tokens", r.decode_tokens},
                    {"prefill_tokens_per_s", report.prefill_tokens_per_s(r)},
                    {"ttft_s", r.ttft_s},
                    {"tpot_s", r.tpot_s},
                    {"begin_s", r.begin_s},
                    {"end_s", r.end_s},
                    {"of_bandwidth", report.of_bandwidth(r)},
                    {"of_peak", report.of_peak(r)},
                    {"decode_of_limit", report.decode_of_limit(r)},
                    {"read_bytes_per_s", r.limits.read_bytes_per_s},
                    {"read_kernel", r.limits.read_kernel},
                    {"flops_per_s", r.limits.flops_per_s},
                    {"flops_kernel", r.limits.flops_kernel},
                    {"void", report.void_ratios(r)}});
    if (const auto pair = report.numerics_pair(r)) {
      const InvarianceCost cost = invariance_cost({*pair});
      list.back()["invariance_cost"] = {{"prefill", cost.prefill.median}, {"decode", cost.decode.median}};
    }
    if (r.replay) list.back()["replay"] = {{"prefill_s", r.replay->prefill}, {"decode_s", r.replay->decode}};
  }
  return list;
}

/// Adds the settings of the run.
void add_settings(const BenchReport& report, Json& json) {
  json["world_size"] = report.world_size;
  json["threads"] = report.threads;
  json["model"] = report.model;
  json["backend"] = report.backend;
  json["communicator"] = report.communicator;
  json["dtype"] = report.dtype;
  json["batch_size"] = report.shape.batch;
  json["prompt_tokens"] = report.shape.prompt_tokens;
  json["new_tokens"] = report.shape.new_tokens;
  json["prefill_chunk"] = report.prefill_chunk;
  json["max_seq_len"] = report.max_seq_len;
  json["kv"] = report.kv;
  json["one_clock"] = report.one_clock;
  json["clock_error_s"] = report.repetitions.back().clock_error_s;
  json["stragglers"] = report.repetitions.back().stragglers;
  json["dropped_collectives"] = report.dropped_collectives;
}

/// One line of the table of speeds.
std::string speed_row(std::string_view name, const Spread& spread, double scale, std::string_view unit) {
  return fmt::format("  {:<22}{:>12.4g}{:>12.4g}{:>12.4g}  {}\n", name, spread.median * scale, spread.min * scale,
                     spread.max * scale, unit);
}

std::string ratio_row(std::string_view name, const Spread& spread) {
  return speed_row(name, spread, 1, spread.median > kMostRatio ? "void" : spread.max > kMostRatio ? "(some void)" : "");
}

std::string speed_table(const BenchReport& report) {
  const auto over = [&](const std::function<double(const Repetition&)>& value) {
    std::vector<double> values;
    for (const Repetition& r : report.repetitions) values.push_back(value(r));
    return spread_of(std::move(values));
  };
  std::string text = fmt::format("  {:<22}{:>12}{:>12}{:>12}\n", "", "median", "min", "max");
  text += speed_row("prefill", report.spread(&BenchReport::prefill_tokens_per_s), 1, "tokens/s");
  text += ratio_row("  of peak", report.spread(&BenchReport::of_peak));
  text += speed_row("first token", over([](const Repetition& r) { return r.ttft_s; }), 1e3, "ms (TTFT)");
  text += speed_row("decode", report.spread(&BenchReport::decode_tokens_per_s), 1, "tokens/s");
  text += ratio_row("  of bandwidth", report.spread(&BenchReport::of_bandwidth));
  if (report.shape.batch > 1) text += ratio_row("  of limit", report.spread(&BenchReport::decode_of_limit));
  if (report.has_replay()) {
    text += speed_row("  served over replay", report.spread(&BenchReport::decode_over_replay), 1, "");
    text += speed_row("  (prefill)", report.spread(&BenchReport::prefill_over_replay), 1, "");
  }
  if (report.repetitions.front().lacks_full_steps && report.shape.new_tokens > 1) {
    text += fmt::format(
        "    no decode step had all {} sequences, so it is slower than its limits allow for: the first ones ended "
        "while others' prompts were read; more --new-tokens, or a larger --prefill-chunk\n",
        report.shape.batch);
  }
  text += speed_row("next token", over([](const Repetition& r) { return r.tpot_s; }), 1e3, "ms (TPOT)");
  text += speed_row("read probe", over([](const Repetition& r) { return r.limits.read_bytes_per_s; }), 1e-9, "GB/s");
  text += speed_row("dot probe", over([](const Repetition& r) { return r.limits.flops_per_s; }), 1e-9,
                    fmt::format("GFLOP/s ({})", report.flops_precision));
  return text;
}

std::string first_token_line(const FirstToken& first) {
  const auto ms = [](double seconds) { return short_number(seconds * 1e3, 4); };
  std::string text =
      fmt::format("  first token after {} ms cold (start-up included), {} ms warm", ms(first.cold), ms(first.warm));
  if (first.steady) text += fmt::format(", {} ms steady", ms(*first.steady));
  return text + "\n";
}

std::string predicted_line(const cost::Prediction& p) {
  return fmt::format(
      "  predicted: prefill {} tokens/s, first token {} ms, decode {} tokens/s, next token {} ms; collectives {:.3g} % "
      "of prefill, {:.3g} % of decode (docs/planning.md)\n",
      short_number(p.prefill_tokens_per_s, 4), short_number(p.ttft_s * 1e3, 4), short_number(p.decode_tokens_per_s, 4),
      short_number(p.tpot_s * 1e3, 4), 100 * p.prefill.communication_share(), 100 * p.decode.communication_share());
}

std::string rank_table(const BenchReport& report) {
  std::string text = fmt::format("  {:<6}{:<9}{:>12}{:>15}{:>12}   {}\n", "rank", "phase", "compute", "communication",
                                 "waiting", "seconds a repetition");
  for (size_t rank = 0; rank < static_cast<size_t>(report.world_size); ++rank) {
    for (const auto& [name, phase] : {std::pair{"prefill", &RankSplit::prefill}, {"decode", &RankSplit::decode}}) {
      const PhaseSplit split = mean_split(report, rank, phase);
      text += fmt::format("  {:<6}{:<9}{:>12.4f}{:>15.4f}{:>12.4f}\n", rank, name, split.compute_s,
                          split.communication_s, split.waiting_s);
    }
  }
  const Repetition& last = report.repetitions.back();
  if (!report.one_clock) {
    text += fmt::format("  the hosts' clocks were compared to within {:.0f} us: waiting is as certain as that\n",
                        last.clock_error_s * 1e6);
  }
  for (const std::string& sentence : last.stragglers) text += "  " + sentence + "\n";
  if (report.dropped_collectives > 0) {
    text += fmt::format("  {} collectives found no room in the record and count as communication\n",
                        report.dropped_collectives);
  }
  return text;
}

std::string memory_table(const BenchReport& report) {
  std::string text =
      "  memory of a rank: weights, states in use (reserved), workspace; peak of its process (loading)\n";
  for (size_t rank = 0; rank < report.memory.size(); ++rank) {
    const RankMemory& memory = report.memory[rank];
    text += fmt::format("  {:<6}{}, {} ({}), {}; {} ({})\n", rank, to_string(memory.weights),
                        to_string(memory.states_resident), to_string(memory.states_reserved),
                        to_string(memory.workspace), to_string(memory.peak), to_string(memory.peak_loading));
  }
  return text;
}

/// The file bytes of the rank that reads most; nothing if weights are random.
std::string files_line(const BenchReport& report) {
  RankMemory most;
  for (const RankMemory& memory : report.memory) {
    if (memory.read_loading > most.read_loading) most = memory;
  }
  if (most.files.value == 0) return "";
  const double share = static_cast<double>(most.read_loading.value) / static_cast<double>(most.files.value);
  return fmt::format("  read from the files: at most {} a rank, {:.3f} of their {}\n", to_string(most.read_loading),
                     share, to_string(most.files));
}

}  // namespace

double BenchReport::prefill_tokens_per_s(const Repetition& r) const {
  return per_second(static_cast<double>(shape.batch * shape.prompt_tokens), r.prefill_s);
}
double BenchReport::decode_tokens_per_s(const Repetition& r) const {
  return per_second(static_cast<double>(r.decode_tokens), r.decode_s);
}
double BenchReport::of_peak(const Repetition& r) const {
  return per_second(flops_per_token * prefill_tokens_per_s(r), r.limits.flops_per_s);
}
double BenchReport::of_bandwidth(const Repetition& r) const {
  return per_second(bytes_per_token * decode_tokens_per_s(r), r.limits.read_bytes_per_s);
}

std::optional<NumericsPair> BenchReport::numerics_pair(const Repetition& r) const {
  if (!r.fast) return std::nullopt;
  return NumericsPair{{r.prefill_s, r.decode_s}, *r.fast};
}

std::optional<InvarianceCost> BenchReport::cost_of_invariance() const {
  std::vector<NumericsPair> pairs;
  for (const Repetition& r : repetitions) {
    if (const auto pair = numerics_pair(r)) pairs.push_back(*pair);
  }
  if (pairs.empty()) return std::nullopt;
  return invariance_cost(pairs);
}

double BenchReport::decode_of_limit(const Repetition& r) const {
  const double by_bytes = per_second(r.limits.read_bytes_per_s, bytes_per_token);
  const double by_flops = per_second(r.limits.flops_per_s, decode_flops_per_token);
  return per_second(decode_tokens_per_s(r), std::min(by_bytes, by_flops));
}

double BenchReport::prefill_over_replay(const Repetition& r) const {
  return r.replay ? per_second(r.replay->prefill, r.prefill_s) : 0.0;
}
double BenchReport::decode_over_replay(const Repetition& r) const {
  return r.replay ? per_second(r.replay->decode, r.decode_s) : 0.0;
}

FirstToken BenchReport::first_token() const {
  FirstToken first{.cold = very_first_ttft_s, .warm = repetitions.front().ttft_s, .steady = std::nullopt};
  for (const auto& [phase, seconds] : startup) first.cold += seconds;
  std::vector<double> rest;
  for (const Repetition& r : std::span(repetitions).subspan(1)) rest.push_back(r.ttft_s);
  if (!rest.empty()) first.steady = spread_of(std::move(rest)).median;
  return first;
}

Spread BenchReport::spread(Quantity quantity) const {
  std::vector<double> values;
  for (const Repetition& r : repetitions) values.push_back((this->*quantity)(r));
  return spread_of(std::move(values));
}

std::vector<std::string> BenchReport::void_ratios(const Repetition& r) const {
  std::vector<std::string> names;
  for (const auto& [name, ratio] : kRatios) {
    if ((this->*ratio)(r) > kMostRatio) names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> BenchReport::void_ratios() const {
  std::vector<std::string> names;
  for (const auto& [name, ratio] : kRatios) {
    if (spread(ratio).median > kMostRatio) names.emplace_back(name);
  }
  return names;
}

cost::MachineLimits measured_machine(const BenchReport& report) {
  const auto ranks = static_cast<double>(report.world_size);
  cost::MachineLimits machine;
  machine.rank = {median(report, [](const Repetition& r) { return r.limits.read_bytes_per_s; }) / ranks,
                  median(report, [](const Repetition& r) { return r.limits.flops_per_s; }) / ranks};
  // Devices exchange by their own links, not by what was timed between the hosts' ranks.
  const bool is_timed = report.world_size > 1 && !report.collectives.empty() && !report.probes_devices;
  machine.link = is_timed ? cost::link_from(report.collectives, report.world_size) : inspect::assumed_link();
  return machine;
}

std::string to_json(const BenchReport& report) {
  const auto spread = [&](Quantity quantity) { return report.spread(quantity); };
  const Spread decode = spread(&BenchReport::decode_tokens_per_s), prefill = spread(&BenchReport::prefill_tokens_per_s);
  const Spread of_bandwidth = spread(&BenchReport::of_bandwidth), of_peak = spread(&BenchReport::of_peak);
  Json json;
  json["decode"] = {{"tokens_per_s", decode.median},
                    {"bytes_per_token", report.bytes_per_token},
                    {"flops_per_token", report.decode_flops_per_token},
                    {"of_bandwidth", of_bandwidth.median},
                    {"of_limit", spread(&BenchReport::decode_of_limit).median}};
  json["prefill"] = {
      {"tokens_per_s", prefill.median}, {"flops_per_token", report.flops_per_token}, {"of_peak", of_peak.median}};
  json["ttft_s"] = median(report, [](const Repetition& r) { return r.ttft_s; });
  json["tpot_s"] = median(report, [](const Repetition& r) { return r.tpot_s; });
  const FirstToken first = report.first_token();
  json["first_token"] = {{"cold_s", first.cold}, {"warm_s", first.warm}, {"steady_s", nullptr}};
  if (first.steady) json["first_token"]["steady_s"] = *first.steady;
  json["probe"] = {{"read_bytes_per_s", median(report, [](const Repetition& r) { return r.limits.read_bytes_per_s; })},
                   {"flops_per_s", median(report, [](const Repetition& r) { return r.limits.flops_per_s; })},
                   {"flops_precision", report.flops_precision},
                   {"of_devices", report.probes_devices}};
  for (const cost::LinkMeasurement& measured : report.collectives) {
    json["probe"]["collectives"].push_back({{"bytes", measured.bytes}, {"seconds", measured.seconds}});
  }
  json["predicted"] = inspect::to_json(report.predicted);
  json["void"] = report.void_ratios();
  json["bad_probe"] = !report.void_ratios().empty();
  json["ranks"] = ranks_of(report);
  json["graphs"] = to_json(report.graphs);
  json["startup"] = Json::object();
  for (const auto& [phase, seconds] : report.startup) json["startup"][phase] = seconds;
  json["spread"] = {{"decode_tokens_per_s", spread_json(decode)},
                    {"prefill_tokens_per_s", spread_json(prefill)},
                    {"of_bandwidth", spread_json(of_bandwidth)},
                    {"of_peak", spread_json(of_peak)}};
  if (const auto cost = report.cost_of_invariance()) {
    json["invariance_cost"] = {{"prefill", spread_json(cost->prefill)}, {"decode", spread_json(cost->decode)}};
  }
  if (report.has_replay()) {
    json["served_over_replay"] = {{"decode", spread_json(spread(&BenchReport::decode_over_replay))},
                                  {"prefill", spread_json(spread(&BenchReport::prefill_over_replay))}};
  }
  add_settings(report, json);
  json["repetitions"] = repetitions_of(report);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string to_table(const BenchReport& report) {
  const BenchShape& shape = report.shape;
  std::string text = fmt::format("{}, {}: {} rank(s) of {} thread(s), {} backend, communicator {}\n", report.model,
                                 report.dtype, report.world_size, report.threads, report.backend, report.communicator);
  text += fmt::format("{} sequence(s) of {} prompt and {} new tokens, chunks of {}, {} repetition(s)\n\n", shape.batch,
                      shape.prompt_tokens, shape.new_tokens, report.prefill_chunk, report.repetitions.size());
  text += speed_table(report) + predicted_line(report.predicted) + first_token_line(report.first_token());
  if (const auto cost = report.cost_of_invariance()) text += to_line(*cost);
  const Limits& limits = report.repetitions.back().limits;
  text += fmt::format("  best kernels at the end: {}; {}\n", limits.read_kernel, limits.flops_kernel);
  if (!report.void_ratios().empty()) {
    text += fmt::format("  WARNING: void ratios are above {}: the probe is bad, or other work slowed it\n", kMostRatio);
  }
  if (const std::string lost = words_of_losses(report.cores); !lost.empty()) text += "  WARNING: " + lost + "\n";
  text += fmt::format("  {} MB read and made into one token; {} MFLOP for one prompt token\n\n",
                      short_number(report.bytes_per_token * 1e-6, 4), short_number(report.flops_per_token * 1e-6, 4));
  text += to_table(report.graphs) + "\n" + rank_table(report) + "\n" + memory_table(report) + "\n  start-up:";
  for (const auto& [phase, seconds] : report.startup) text += fmt::format(" {} {:.2f} s,", phase, seconds);
  text.back() = '\n';
  text += files_line(report);
  return text + "\n" + std::string(formulas());
}

}  // namespace lockstep::launcher
