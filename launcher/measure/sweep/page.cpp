#include "launcher/measure/sweep/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "launcher/measure/sweep/results_files.h"
#include "runtime/core/check.h"

namespace lockstep::launcher {

extern const std::string_view kSweepPage;  // sweep_page.html, embedded by CMake

namespace {

/// Escapes `text` for use between tags and removes characters that HTML does not allow.
std::string escaped(std::string_view text) {
  std::string clean;
  for (const char c : text) {
    switch (c) {
      case '&': clean += "&amp;"; break;
      case '<': clean += "&lt;"; break;
      case '>': clean += "&gt;"; break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') clean += c;
    }
  }
  return clean;
}

/// `page` with the value of each {{name}} in its place; values are inserted unchanged.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& values) {
  std::string text;
  for (size_t open = page.find("{{"); open != std::string_view::npos; open = page.find("{{")) {
    const size_t close = page.find("}}", open);
    const auto value = values.find(page.substr(open + 2, close - open - 2));
    LOCKSTEP_CHECK(value != values.end());
    text.append(page.substr(0, open)).append(value->second);
    page.remove_prefix(close + 2);
  }
  return text.append(page);
}

/// results.json for a <script> element, escaped so that no text ends the element.
std::string json_in_script(const Study& study, const std::vector<std::string>& verdicts) {
  std::string text;
  for (const char c : to_json(study, verdicts)) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

std::string row_html(const ResultRow& row, std::span<const TableColumn> columns) {
  std::string html = row.result ? "<tr>" : "<tr class=\"failed\">";
  for (const TableColumn& column : columns) html += fmt::format("<td>{}</td>", escaped(column.text(row)));
  html += "</tr>\n";
  if (row.result) return html;
  return html +
         fmt::format("<tr class=\"failed\"><td></td><td class=\"message\" colspan=\"{}\">exit code {}: {}</td></tr>\n",
                     columns.size() - 1, row.record.code, escaped(row.record.message + output_in_words(row.record)));
}

std::string tables(const Study& study) {
  const std::span<const TableColumn> columns = table_columns(study);
  std::string html;
  for (const Series& series : study.series) {
    html += fmt::format("<h3>{}</h3>\n<div class=\"wide\"><table>\n<thead><tr>", escaped(name_of(series, study)));
    for (const TableColumn& column : columns) html += fmt::format("<th>{}</th>", escaped(column.title));
    html += "</tr></thead>\n<tbody>\n";
    for (const ResultRow& row : series.rows) html += row_html(row, columns);
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
  std::string html;
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
  return html +
         fact("last point ended", fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(last))));
}

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

std::string to_page(const Study& study, const std::vector<std::string>& verdicts) {
  std::string list;
  for (const std::string& verdict : verdicts) list += fmt::format("<li>{}</li>\n", escaped(verdict));
  return filled(kSweepPage, {{"title", escaped(model_name(study.model))},
                             {"model", escaped(model_line(study.model))},
                             {"verdicts", list},
                             {"tables", tables(study)},
                             {"facts", facts(study)},
                             {"study", json_in_script(study, verdicts)}});
}

}  // namespace lockstep::launcher
