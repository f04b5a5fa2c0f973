// The picture of a suite: every row on one scale, the aim as a line that all of them share.
//
//   decode            ████████████████▏│    0.92 (0.90 … 0.94)   pass        ▏ floor of the row
//   ranks-decode      ██████████████████    1.00 (0.98 … 1.01)   aim         │ aim
//   int8-decode       not available: …
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "launcher/measure/bench/suite/report.h"
#include "launcher/measure/sweep/line_chart.h"
#include "runtime/core/short_number.h"

namespace lockstep::launcher::suite {
namespace {

constexpr double kWidth = 900, kTop = 68, kRowHeight = 26, kBar = 14;
constexpr double kLeft = 190, kRight = 640;  // of the bars
constexpr double kMost = 1.25;               // in parts of the aim, at the right end
constexpr size_t kShownReason = 92;          // characters of it in the picture

/// Colours of Okabe and Ito ("Color Universal Design", 2008), told apart with any colour vision; dark pages get lighter
/// ones. The verdict also stands beside the bar in words.
constexpr std::string_view kColours = R"(
svg.suite { --ink: #1a1a1a; --soft: #666; --line: #d9d9d9; --back: #fff; --aim: #0072b2; --pass: #009e73;
  --below: #d55e00; font: 13px system-ui, sans-serif; background: var(--back); }
@media (prefers-color-scheme: dark) { svg.suite { --ink: #e8e8e8; --soft: #a0a0a0; --line: #444; --back: #161616;
  --aim: #56b4e9; --pass: #2fc79a; --below: #ff8a3c; } }
svg.suite text { fill: var(--ink); } svg.suite .soft { fill: var(--soft); } svg.suite .title { font-weight: bold; }
svg.suite .aim { fill: var(--aim); } svg.suite .pass { fill: var(--pass); } svg.suite .below { fill: var(--below); }
svg.suite path { fill: none; stroke: var(--line); } svg.suite path.mark { stroke: var(--ink); stroke-width: 1.5; }
svg.suite text.reason { paint-order: stroke; stroke: var(--back); stroke-width: 5px; } svg.suite path.shared { stroke: var(--ink); stroke-dasharray: 3 3; }
)";

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 66rem; margin: 2rem auto;
       padding: 0 1.25rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; overflow-wrap: anywhere; }
figure { margin: 1rem 0; overflow-x: auto; } figure svg { min-width: 48rem; width: 100%; height: auto; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid #d9d9d9; text-align: right; vertical-align: top; }
th { font-weight: 600; } th:first-child, td:first-child, td.text { text-align: left; }
td small { color: #666; display: block; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { body { color: #e8e8e8; background: #161616; } th, td { border-color: #444; }
  td small { color: #a0a0a0; } }
@media print { body { margin: 0; max-width: none; font-size: 11px; } }
)";

/// Where a share of the aim lies; what is beyond the ends is drawn at them.
double x_of(double share) { return kLeft + std::clamp(share, 0.0, kMost) / kMost * (kRight - kLeft); }

const char* class_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAim: return "aim";
    case Verdict::kFloor: return "pass";
    default: return "below";
  }
}

std::string figure_text(const Row& row) {
  return fmt::format("{} ({} … {})  {}", short_number(row.spread.median), short_number(row.spread.min),
                     short_number(row.spread.max), to_string(row.verdict));
}

/// The first characters of a text, cut between characters.
std::string beginning(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (text[most] & 0xC0) == 0x80) --most;
  return text.substr(0, most) + "…";
}

std::string bar(const Row& row, double y) {
  const auto share = [&](double figure) { return x_of(of_aim(row.goal, figure)); };
  const double middle = y + kBar / 2;
  std::string svg = fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" class=\"{}\"/>", kLeft,
                                y, share(row.spread.median) - kLeft, kBar, class_of(row.verdict));
  const auto [left, right] = std::minmax({share(row.spread.min), share(row.spread.max)});
  svg += fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f}v6m0 -3H{:.1f}m0 -3v6\"/>", left, middle - 3, right);
  svg += fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f}v{}\"/>", share(row.goal.floor), y - 3, kBar + 6);
  return svg +
         fmt::format("<text x=\"{}\" y=\"{:.1f}\">{}</text>", kRight + 14, middle + 4.5, escaped(figure_text(row)));
}

std::string drawn(const Row& row, double y) {
  std::string svg = fmt::format("<g><title>{}</title><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                                escaped(row.goal.name), kLeft - 10, y + kBar / 2 + 4.5, escaped(row.goal.id));
  if (is_measured(row.verdict)) {
    svg += bar(row, y);
  } else {
    const std::string first = row.reason.substr(0, row.reason.find('\n'));
    svg += fmt::format("<text class=\"soft reason\" x=\"{}\" y=\"{:.1f}\">{}: {}</text>", kLeft + 6, y + kBar / 2 + 4.5,
                       to_string(row.verdict), escaped(beginning(first, kShownReason)));
  }
  return svg + "</g>\n";
}

std::string limit(const Goal& goal, double value) {
  return fmt::format("{} {}", goal.better == Better::kHigher ? "≥" : "≤", short_number(value));
}

std::string table_row(const Row& row) {
  std::string beside;
  for (const auto& [name, value] : row.beside) beside += (beside.empty() ? "" : ", ") + name + " " + value;
  const bool measured = is_measured(row.verdict);
  std::string html = fmt::format("<tr><td>{}", escaped(row.goal.name));
  if (!beside.empty()) html += fmt::format("<small>{}</small>", escaped(beside));
  if (!row.reason.empty()) html += fmt::format("<small>{}</small>", escaped(row.reason));
  html += fmt::format("</td><td>{}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td>",
                      measured ? short_number(row.spread.median) : "–", limit(row.goal, row.goal.floor),
                      limit(row.goal, row.goal.aim), to_string(row.verdict));
  if (measured) {
    html += fmt::format("<td>{} … {}</td><td>{} … {}</td><td>{}</td>", short_number(row.spread.min),
                        short_number(row.spread.max), short_number(row.spread.lower), short_number(row.spread.upper),
                        row.pairs.size());
  } else {
    html += "<td></td><td></td><td>0</td>";
  }
  return html + "</tr>\n";
}

std::string rivals_table(const Report& report) {
  if (report.rivals.empty()) return "";
  std::string html =
      "<h2>Other engines</h2>\n<table><thead><tr><th>engine</th><th>state</th><th></th></tr></thead>"
      "<tbody>\n";
  for (const Rival& rival : report.rivals) {
    html +=
        fmt::format("<tr><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>\n", escaped(rival.name),
                    escaped(rival.state), escaped(rival.state == "ran" ? rival.version : rival.reason));
  }
  return html + "</tbody></table>\n";
}

constexpr std::string_view kReading =
    "<h2>How to read it</h2>\n<p>Every figure is a ratio of two things that were measured in turn; the median of the "
    "pairs counts, the whisker reaches from their least to their most. Bars show the figure in parts of its aim, the "
    "dashed line, the other way round where less is better; the mark on each bar is its floor.</p>\n";

}  // namespace

std::string to_svg(const Report& report) {
  const double height = kTop + kRowHeight * static_cast<double>(report.rows.size()) + 12;
  std::string svg = fmt::format(
      "<svg class=\"suite\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">\n<style>{}</style>\n",
      kWidth, height, escaped(summary(report)), kColours);
  svg += fmt::format("<text class=\"title\" x=\"8\" y=\"18\">lockstep {}, suite {}</text>\n", escaped(report.version),
                     escaped(report.suite));
  svg += fmt::format("<text class=\"soft\" x=\"8\" y=\"38\">{}</text>\n", escaped(summary(report)));
  svg += fmt::format("<text class=\"soft\" x=\"{:.1f}\" y=\"57\" text-anchor=\"middle\">aim</text>\n", x_of(1));
  svg += fmt::format("<path d=\"M{0} {1}V{2}\"/><path class=\"shared\" d=\"M{3:.1f} {1}V{2}\"/>\n", kLeft, kTop - 6,
                     height - 8, x_of(1));
  double y = kTop;
  for (const Row& row : report.rows) {
    svg += drawn(row, y);
    y += kRowHeight;
  }
  return svg + "</svg>\n";
}

std::string to_page(const Report& report) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>lockstep {0}, suite {1}</title>\n<style>{2}</style>\n</head>\n<body>\n<h1>lockstep {0}, suite {1}</h1>\n",
      escaped(report.version), escaped(report.suite), kStyle);
  html += fmt::format("<p>{}</p>\n", escaped(summary(report)));
  html += fmt::format("<p>{}: {} cores, {}; {:%Y-%m-%d %H:%M} UTC; rows about several ranks: {} of {} thread(s)</p>\n",
                      escaped(report.machine.host), report.machine.cores, escaped(report.machine.cpu),
                      fmt::gmtime(static_cast<std::time_t>(report.unix_time)), report.ranks, report.threads);
  html += "<figure>\n" + to_svg(report) + "</figure>\n";
  html +=
      "<h2>All rows</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>row</th><th>median</th><th>floor</th>"
      "<th>aim</th><th>verdict</th><th>least … most</th><th>quartiles</th><th>pairs</th></tr></thead>\n<tbody>\n";
  for (const Row& row : report.rows) html += table_row(row);
  html += "</tbody></table></div>\n" + rivals_table(report) + std::string(kReading);
  return html + "</body>\n</html>\n";
}

}  // namespace lockstep::launcher::suite
