#include "launcher/measure/sweep/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "launcher/measure/sweep/results_files.h"

namespace lockstep::launcher {
namespace {

constexpr std::string_view kStyle = R"(
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 68rem; margin: 2rem auto;
       padding: 0 1.25rem; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p.model { color: #555; margin: 0; overflow-wrap: anywhere; }
ul.verdicts { background: #f4f7fa; border-left: 4px solid #0072b2; margin: .5rem 0; padding: .75rem 1rem .75rem 2rem; }
ul.verdicts li { margin: .2rem 0; overflow-wrap: anywhere; }
ul.legend { list-style: none; margin: .5rem 0; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; }
ul.legend svg { vertical-align: -2px; margin-right: .4rem; }
div.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1rem 1.5rem; }
div.charts figure { margin: 0; break-inside: avoid; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; margin: .25rem 0; }
th, td { padding: .25rem .45rem; border-bottom: 1px solid #e2e2e2; text-align: right; white-space: nowrap; }
th { color: #555; font-weight: 600; white-space: normal; vertical-align: bottom; }
table.facts th, table.facts td { text-align: left; white-space: normal; overflow-wrap: anywhere; vertical-align: top; }
tr.failed td { color: #a33; }
tr td.message { white-space: normal; text-align: left; }
dl { font-size: .87rem; } dt { font-weight: 600; } dd { margin: 0 0 .4rem 1.25rem; }
@media print { body { margin: 0; max-width: none; font-size: 12px; } h2 { break-after: avoid; }
  div.charts { grid-template-columns: 1fr 1fr; } div.wide { overflow: visible; } table { font-size: 9px; } }
)";

/// What a chart shows of a row.
struct Quantity {
  const char* title;
  std::function<Measured(const ResultRow&)> measured;
  double Prediction::*predicted;  // null: nothing is
  double scale = 1.0;
  LineChart::Numbers numbers = LineChart::Numbers::kPlain;
  LineChart::Scale axis = LineChart::Scale::kFitting;
};

Measured alone(double value) { return {value, value, value}; }

std::vector<Quantity> quantities() {
  using enum LineChart::Numbers;
  using enum LineChart::Scale;
  const auto of = [](Measured PointResult::*field) {
    return [field](const ResultRow& row) { return (*row.result).*field; };
  };
  const auto share = [](StepShares PointResult::*phase) {
    return [phase](const ResultRow& row) { return alone(((*row.result).*phase).communication); };
  };
  return {{"Decode, tokens/s", of(&PointResult::decode), &Prediction::decode_tokens_per_s},
          {"Speed-up of decode", [](const ResultRow& row) { return alone(row.speed_up.value_or(0)); }, nullptr, 1.0,
           kPlain, kFromZero},
          {"Efficiency of decode", [](const ResultRow& row) { return alone(row.efficiency.value_or(0)); }, nullptr, 1.0,
           kPercent, kFromZero},
          {"Decode step: share in collectives", share(&PointResult::decode_shares), &Prediction::decode_communication,
           1.0, kPercent, kFromZero},
          {"Time per output token (TPOT), ms", of(&PointResult::tpot), &Prediction::tpot_s, 1e3},
          {"Time to first token (TTFT), ms", of(&PointResult::ttft), &Prediction::ttft_s, 1e3},
          {"Prefill, tokens/s", of(&PointResult::prefill), &Prediction::prefill_tokens_per_s},
          {"Prefill step: share in collectives", share(&PointResult::prefill_shares),
           &Prediction::prefill_communication, 1.0, kPercent, kFromZero}};
}

/// Degrees of points that worked.
std::vector<int> degrees_of(const Study& study) {
  std::set<int> degrees;
  for (const Series& series : study.series) {
    for (const ResultRow& row : series.rows) {
      if (row.result) degrees.insert(row.record.shape.tp);
    }
  }
  return {degrees.begin(), degrees.end()};
}

size_t place_of(const std::vector<int>& degrees, const ResultRow& row) {
  return static_cast<size_t>(std::ranges::find(degrees, row.record.shape.tp) - degrees.begin());
}

ChartLine measured_line(const Series& series, const std::string& name, size_t look, const Quantity& quantity,
                        const std::vector<int>& degrees) {
  ChartLine line{.name = name, .look = look, .kind = ChartLine::Kind::kMeasured, .points = {}};
  for (const ResultRow& row : series.rows) {
    if (!row.result) continue;
    const Measured value = quantity.measured(row);
    line.points.push_back({.place = place_of(degrees, row),
                           .value = value.median * quantity.scale,
                           .min = value.min * quantity.scale,
                           .max = value.max * quantity.scale});
  }
  return line;
}

ChartLine predicted_line(const Series& series, const std::string& name, size_t look, const Quantity& quantity,
                         const std::vector<int>& degrees) {
  ChartLine line{.name = name + ", predicted", .look = look, .kind = ChartLine::Kind::kPredicted, .points = {}};
  for (const ResultRow& row : series.rows) {
    if (!row.result || !row.result->predicted || quantity.predicted == nullptr) continue;
    const double value = (*row.result->predicted).*quantity.predicted * quantity.scale;
    line.points.push_back({.place = place_of(degrees, row), .value = value, .min = value, .max = value});
  }
  return line;
}

/// What no degree can beat: speed-up in proportion to the degree, efficiency 1.
void add_reference(LineChart& chart, const std::vector<int>& degrees, bool is_speed_up) {
  ChartLine line{.name = "in proportion", .look = 0, .kind = ChartLine::Kind::kReference, .points = {}};
  for (size_t i = 0; i < degrees.size(); ++i) {
    const double value = is_speed_up ? static_cast<double>(degrees[i]) / degrees.front() : 1.0;
    line.points.push_back({.place = i, .value = value, .min = value, .max = value});
  }
  chart.lines.insert(chart.lines.begin(), std::move(line));
}

bool has_predictions(const Study& study) {
  return std::ranges::any_of(study.series, [](const Series& series) {
    return std::ranges::any_of(series.rows, [](const ResultRow& row) { return row.result && row.result->predicted; });
  });
}

std::string legend(const Study& study) {
  std::string html = "<ul class=\"legend\">\n";
  for (size_t i = 0; i < study.series.size(); ++i) {
    html += fmt::format("<li>{}{}</li>\n", legend_mark(i, ChartLine::Kind::kMeasured),
                        escaped(name_of(study.series[i], study)));
  }
  if (has_predictions(study)) {
    html += fmt::format("<li>{}predicted</li>\n", legend_mark(0, ChartLine::Kind::kPredicted));
  }
  html += fmt::format("<li>{}in proportion to the degree</li>\n", legend_mark(0, ChartLine::Kind::kReference));
  return html + "</ul>\n<p>Bars reach from the least to the most of the repetitions; markers are medians.</p>\n";
}

std::string figures(const Study& study) {
  std::string html = "<div class=\"charts\">\n";
  for (const LineChart& chart : charts_of(study)) html += "<figure>\n" + to_svg(chart) + "</figure>\n";
  return html + "</div>\n";
}

std::string row_html(const ResultRow& row) {
  std::string html = row.result ? "<tr>" : "<tr class=\"failed\">";
  for (const TableColumn& column : table_columns()) html += fmt::format("<td>{}</td>", escaped(column.text(row)));
  html += "</tr>\n";
  if (!row.result) {
    html +=
        fmt::format("<tr class=\"failed\"><td></td><td class=\"message\" colspan=\"{}\">exit code {}: {}</td></tr>\n",
                    table_columns().size() - 1, row.record.code, escaped(row.record.message));
  }
  return html;
}

std::string tables(const Study& study) {
  std::string html;
  for (const Series& series : study.series) {
    html += fmt::format("<h3>{}</h3>\n<div class=\"wide\"><table>\n<thead><tr>", escaped(name_of(series, study)));
    for (const TableColumn& column : table_columns()) html += fmt::format("<th>{}</th>", escaped(column.title));
    html += "</tr></thead>\n<tbody>\n";
    for (const ResultRow& row : series.rows) html += row_html(row);
    html += "</tbody></table></div>\n";
  }
  return html;
}

/// "12.1 to 12.9" of a probe over all points, in units of `scale`.
std::string probe_range(const Study& study, double PointResult::*field, double scale, std::string_view unit) {
  double least = 0, most = 0;
  for (const Series& series : study.series) {
    for (const ResultRow& row : series.rows) {
      if (!row.result) continue;
      const double value = (*row.result).*field * scale;
      least = least == 0 ? value : std::min(least, value);
      most = std::max(most, value);
    }
  }
  return most > 0 ? fmt::format("{:.3g} to {:.3g} {}", least, most, unit) : "–";
}

std::string fact(std::string_view name, std::string_view value) {
  return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escaped(name), escaped(value));
}

std::string facts(const Study& study) {
  std::string html = "<table class=\"facts\">\n";
  for (const Machine& machine : study.machines()) {
    html += fact("machine", fmt::format("{}: {} cores, {}", machine.host, machine.cores, machine.cpu));
  }
  html += fact("read bandwidth, measured", probe_range(study, &PointResult::read_bytes_per_s, 1e-9, "GB/s"));
  html += fact("arithmetic, measured", probe_range(study, &PointResult::flops_per_s, 1e-9, "GFLOP/s"));
  std::set<std::string> how, variants;
  double last = 0;
  for (const Series& series : study.series) {
    variants.insert(to_string(series.variant));
    for (const ResultRow& row : series.rows) {
      last = std::max(last, row.record.unix_time);
      if (!row.result) continue;
      how.insert(fmt::format("{}, {} backend, {} thread(s) a rank, communicator {}", row.result->dtype,
                             row.result->backend, row.result->threads, row.result->communicator));
    }
  }
  for (const std::string& line : how) html += fact("points", line);
  for (const std::string& variant : variants) html += fact("options", variant);
  html += fact("last point ended", fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(last))));
  return html + "</table>\n";
}

constexpr std::string_view kDefinitions = R"(<h2>What the figures are</h2>
<dl>
<dt>decode, prefill tokens/s</dt><dd>tokens of all sequences together over the time of the phase's steps</dd>
<dt>TTFT, TPOT</dt><dd>from submission to the first token of the first sequence; between its tokens after that</dd>
<dt>speed-up, efficiency</dt><dd>decode tokens/s over that of the smallest degree of the series; divided by how many times
more ranks there are</dd>
<dt>in collectives</dt><dd>share of the time of decode steps that ranks spend in collectives, waiting for other ranks
included; mean of the ranks</dd>
<dt>of bandwidth</dt><dd>bytes that decoding must read per second, over the read bandwidth measured in the same run</dd>
</dl>
)";

std::string model_line(const ModelIdentity& model) {
  return (model.random_weights ? "random weights of " : "") + model.path;
}

std::string model_name(const ModelIdentity& model) {
  const std::filesystem::path path(model.path);
  if (!model.random_weights) return path.filename().string();
  return path.stem() == "config" ? path.parent_path().filename().string()
                                 : path.stem().string();  // .../NAME/config.json
}

}  // namespace

std::vector<LineChart> charts_of(const Study& study) {
  const std::vector<int> degrees = degrees_of(study);
  std::vector<LineChart> charts;
  for (const Quantity& quantity : quantities()) {
    LineChart chart{
        .title = quantity.title, .places = {}, .lines = {}, .numbers = quantity.numbers, .scale = quantity.axis};
    for (const int degree : degrees) chart.places.push_back(fmt::format("TP {}", degree));
    for (size_t i = 0; i < study.series.size(); ++i) {
      const std::string name = name_of(study.series[i], study);
      ChartLine predicted = predicted_line(study.series[i], name, i, quantity, degrees);
      if (!predicted.points.empty()) chart.lines.push_back(std::move(predicted));
      chart.lines.push_back(measured_line(study.series[i], name, i, quantity, degrees));
    }
    const std::string_view title = quantity.title;
    if (title.starts_with("Speed-up")) add_reference(chart, degrees, true);
    if (title.starts_with("Efficiency")) add_reference(chart, degrees, false);
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::string to_page(const Study& study, const std::vector<std::string>& verdicts) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Scaling of {0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>Scaling of {0}</h1>\n",
      escaped(model_name(study.model)), kStyle);
  html += fmt::format("<p class=\"model\">{}</p>\n<ul class=\"verdicts\">\n", escaped(model_line(study.model)));
  for (const std::string& verdict : verdicts) html += fmt::format("<li>{}</li>\n", escaped(verdict));
  html += "</ul>\n";
  if (!degrees_of(study).empty()) {
    html += "<h2>Over the tensor-parallel degree</h2>\n" + legend(study) + figures(study);
  }
  html += "<h2>All points</h2>\n" + tables(study);
  html += "<h2>Machine and options</h2>\n" + facts(study);
  return html + std::string(kDefinitions) + "</body>\n</html>\n";
}

}  // namespace lockstep::launcher
