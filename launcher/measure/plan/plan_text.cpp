#include "launcher/measure/plan/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "engine/model/served_spec.h"
#include "runtime/core/ids.h"
#include "runtime/core/short_number.h"

namespace lockstep::launcher {
namespace {

using inspect::Degree;
using inspect::Extent;
using inspect::extent_of;
using inspect::PlanReport;
using inspect::PlanSetting;
using inspect::shared_global_heads;
using inspect::shared_heads;
using inspect::WorkingDegree;
using partition::RankPart;

std::string to_string(const Extent& extent) {
  return extent.least == extent.most ? fmt::format("{}", extent.most) : fmt::format("{}-{}", extent.least, extent.most);
}

/// "0-2,5".
std::string ranges_of(const std::vector<int64_t>& rising) {
  std::string text;
  for (size_t i = 0; i < rising.size(); ++i) {
    const size_t first = i;
    while (i + 1 < rising.size() && rising[i + 1] == rising[i] + 1) ++i;
    text += text.empty() ? "" : ",";
    text += first == i ? fmt::format("{}", rising[i]) : fmt::format("{}-{}", rising[first], rising[i]);
  }
  return text.empty() ? "none" : text;
}

/// "0.42 of it", or "over".
std::string share_of_budget(const PlanReport& report, const WorkingDegree& degree) {
  if (!report.setting.budget) return "";
  const double share = static_cast<double>(degree.needed()) / static_cast<double>(*report.setting.budget);
  return fmt::format("  {:>5.0f}%{}", 100 * share, fits(report.setting, degree) ? " fits" : " OVER");
}

/// A column of the parts that ranks hold; the cell of a degree.
struct Column {
  std::string_view title;
  size_t width;  // at least
  std::function<std::string(const partition::Partition&)> cell;
};

std::vector<Column> columns_of(const checkpoint::ModelSpec& spec) {
  using partition::Partition;
  const auto extent = [](int64_t (*size)(const RankPart&)) {
    return [size](const Partition& parts) { return to_string(extent_of(parts, size)); };
  };
  // Of layers with a window | without one, where their heads differ.
  const auto both = [&spec](const std::string& usual, const std::string& global) {
    return spec.global_heads ? fmt::format("{} | {}", usual, global) : usual;
  };
  std::vector<Column> columns = {
      {"q heads", 7, extent([](const RankPart& p) { return p.heads.query.size(); })},
      {"kv heads", 8,
       [both](const Partition& parts) {
         return both(to_string(extent_of(parts, [](const RankPart& p) { return p.heads.key_value.size(); })),
                     to_string(extent_of(parts, [](const RankPart& p) { return p.global.heads.size(); })));
       }},
      {"kv shared", 9, [both](const Partition& parts) {
         return both(ranges_of(shared_heads(parts)), ranges_of(shared_global_heads(parts)));
       }}};
  if (!spec.delta_layers.empty()) {
    columns.push_back({"delta heads", 11, extent([](const RankPart& p) { return p.delta_heads.query.size(); })});
  }
  columns.push_back({spec.experts > 0 ? "expert cols" : "MLP columns", 11,
                     extent([](const RankPart& p) { return p.mlp_columns.size(); })});
  columns.push_back({"vocabulary", 13, extent([](const RankPart& p) { return p.vocabulary.size(); })});
  if (spec.experts > 0) columns.push_back({"experts", 7, extent([](const RankPart& p) { return p.experts.size(); })});
  return columns;
}

/// The columns' cells of all degrees, a line for each degree, as wide as the widest; the titles come first.
std::vector<std::string> parts_of(const PlanReport& report) {
  std::vector<std::string> lines(report.degrees.size() + 1);
  for (const Column& column : columns_of(report.setting.spec)) {
    std::vector<std::string> cells = {std::string(column.title)};
    for (const Degree& degree : report.degrees) {
      cells.push_back(degree.working ? column.cell(degree.working->partition) : "");
    }
    size_t width = column.width;
    for (const std::string& cell : cells) width = std::max(width, cell.size());
    for (size_t line = 0; line < lines.size(); ++line) lines[line] += fmt::format("  {:>{}}", cells[line], width);
  }
  return lines;
}

std::string memory_row(const PlanReport& report, const WorkingDegree& degree) {
  const cost::RankMemory& memory = degree.of_fullest();
  return fmt::format("  {:>11} {:>11} {:>11} {:>11}{}\n", lockstep::to_string(memory.weights),
                     lockstep::to_string(memory.cache), lockstep::to_string(memory.slots + memory.workspace),
                     lockstep::to_string(memory.total()), share_of_budget(report, degree));
}

/// One line for adjacent degrees that do not work, with the partition's error for the first.
std::string refusals(const std::vector<Degree>& degrees) {
  std::string text;
  for (size_t i = 0; i < degrees.size(); ++i) {
    if (degrees[i].working) continue;
    const size_t first = i;
    while (i + 1 < degrees.size() && !degrees[i + 1].working) ++i;
    text += fmt::format(
        "  {:>4}  does not work: {}\n",
        first == i ? fmt::format("{}", degrees[i].ranks) : fmt::format("{}-{}", degrees[first].ranks, degrees[i].ranks),
        degrees[first].refusal);
  }
  return text;
}

/// The degrees at which --gqa is not as requested.
std::string fallbacks(const PlanReport& report) {
  std::string text;
  for (const Degree& degree : report.degrees) {
    if (degree.ranks == 1 || !degree.working || degree.working->gqa_fallback.empty()) continue;
    text += fmt::format("  TP {} runs with --gqa {}, not {}: {}\n", degree.ranks,
                        partition::name_of(degree.working->partition.gqa),
                        partition::name_of(report.setting.partition.gqa), degree.working->gqa_fallback);
  }
  return text;
}

/// What the table does not say of layers that differ.
std::string notes_on_layers(const PlanReport& report) {
  std::string text;
  if (report.setting.spec.global_heads) text += "  kv heads and those shared: of layers with a window | without one\n";
  for (const Degree& degree : report.degrees) {
    if (!degree.working) continue;
    const Bytes carried = degree.working->of_fullest().recurrences;
    if (carried.value == 0) continue;
    text += fmt::format("  TP {}: {} of KV are what recurrent layers carry, whatever the length\n", degree.ranks,
                        lockstep::to_string(carried));
  }
  return text;
}

std::string holdings(const PlanReport& report) {
  const std::vector<std::string> parts = parts_of(report);
  std::string text = "what each rank holds (least-most of the ranks), and the memory of the fullest one\n";
  text += fmt::format("  {:>4}{}  {:>11} {:>11} {:>11} {:>11}{}\n", "TP", parts.front(), "weights", "KV", "other",
                      "sum", report.setting.budget ? "  of budget" : "");
  for (size_t i = 0; i < report.degrees.size(); ++i) {
    const Degree& degree = report.degrees[i];
    if (degree.working) {
      text += fmt::format("  {:>4}{}{}", degree.ranks, parts[i + 1], memory_row(report, *degree.working));
    }
  }
  text += notes_on_layers(report);
  text += refusals(report.degrees) + fallbacks(report);
  for (const Degree& degree : report.degrees) {
    if (!degree.working || !is_wasteful(*degree.working)) continue;
    text += fmt::format("  TP {}: {:.0f} % of the weights' memory is padding, ranks being as large as the largest\n",
                        degree.ranks, 100 * degree.working->padding);
  }
  for (const Degree& degree : report.degrees) {
    if (!degree.working || fits(report.setting, *degree.working)) continue;
    text += fmt::format("  TP {} is {}\n", degree.ranks, how_to_fit(report.setting, *degree.working));
  }
  return text;
}

std::string speed_row(int ranks, const cost::Prediction& one, const cost::Prediction& p) {
  const double faster = p.decode_tokens_per_s / one.decode_tokens_per_s;
  const double prefill = p.prefill_tokens_per_s / one.prefill_tokens_per_s;
  const double first = p.ttft_s * 1e3, token = p.tpot_s * 1e3;
  return fmt::format("  {:>4}  {:>9}  {:>8}  {:>9}  {:>8}  {:>6.1f}%  {:>6.1f}%  {:>7.2f}  {:>9.0f}%  {:>7.2f}\n",
                     ranks, short_number(p.prefill_tokens_per_s, 4), short_number(first, 4),
                     short_number(p.decode_tokens_per_s, 4), short_number(token, 4),
                     100 * p.prefill.communication_share(), 100 * p.decode.communication_share(), faster,
                     100 * faster / ranks, prefill);
}

std::string speeds(const PlanReport& report) {
  const cost::Workload& load = report.setting.load;
  std::string text = fmt::format("speed, predicted: {} sequence(s) of {} prompt and {} new tokens\n", load.batch,
                                 load.prompt_tokens, load.new_tokens);
  text += fmt::format("  {:>4}  {:>9}  {:>8}  {:>9}  {:>8}  {:>16}  {:>7}  {:>10}  {:>7}\n", "", "prefill", "first",
                      "decode", "a token", "in collectives:", "decode", "", "prefill");
  text += fmt::format("  {:>4}  {:>9}  {:>8}  {:>9}  {:>8}  {:>7}  {:>7}  {:>7}  {:>10}  {:>7}\n", "TP", "tok/s", "ms",
                      "tok/s", "ms", "prefill", "decode", "speedup", "efficiency", "speedup");
  const cost::Prediction& one = report.degrees.front().working->predicted;
  for (const Degree& degree : report.degrees) {
    if (degree.working) text += speed_row(degree.ranks, one, degree.working->predicted);
  }
  return text;
}

}  // namespace

std::string ranks_to_text(const PlanReport& report, const WorkingDegree& degree) {
  std::string text = fmt::format("each rank at TP {}\n{}", degree.partition.ranks(),
                                 partition::to_text(report.setting.spec, degree.partition));
  text += fmt::format("\n{:>4}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}\n", "rank", "weights", "KV", "slots",
                      "workspace", "sum");
  for (size_t rank = 0; rank < degree.memory.size(); ++rank) {
    const cost::RankMemory& memory = degree.memory[rank];
    text += fmt::format("{:>4}  {:>11}  {:>11}  {:>11}  {:>11}  {:>11}\n", rank, lockstep::to_string(memory.weights),
                        lockstep::to_string(memory.cache), lockstep::to_string(memory.slots),
                        lockstep::to_string(memory.workspace), lockstep::to_string(memory.total()));
  }
  const cost::StepParts& step = degree.predicted.decode;
  return text + fmt::format(
                    "a decode step: {:.4g} ms of weights, {:.4g} ms of KV, {:.4g} ms of arithmetic beyond them, "
                    "{:.4g} ms in collectives\n",
                    step.weights_s * 1e3, step.cache_s * 1e3, step.compute_s * 1e3, step.communication_s * 1e3);
}

std::string to_text(const PlanReport& report) {
  const PlanSetting& setting = report.setting;
  std::string text = fmt::format("{}: {}\n{} slot(s) of {} tokens, prefill chunks of {} rows\n\n", report.model,
                                 model::architecture_line(setting.spec, setting.shard.dtype), setting.shard.slots,
                                 setting.shard.capacity, setting.shard.chunk);
  text += holdings(report) + "\n" + speeds(report) + "\n";
  text += report.best.ranks == 0 ? fmt::format("best: {}\n", report.best.why)
                                 : fmt::format("best: TP {}: {}\n", report.best.ranks, report.best.why);
  return text + fmt::format("predicted for: {}\n", fmt::join(report.assumptions, "\n               "));
}

}  // namespace lockstep::launcher
