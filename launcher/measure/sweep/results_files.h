// A study as CSV, as JSON and as a table of text: one list of columns. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/measure/sweep/results.h"

namespace lockstep::launcher {

/// results.csv (RFC 4180): a header and a line for each point; empty fields where a point has no such number.
std::string to_csv(const Study& study);

/// results.json: {"format", "model", "machines", "verdicts", "series": [{"name", "points": [index]}],
/// "points": [{column: value}]}; null where CSV is empty.
std::string to_json(const Study& study, const std::vector<std::string>& verdicts);

/// A column of the table that people read.
struct TableColumn {
  std::string_view title;
  std::string (*text)(const ResultRow& row);  // "–" where a point has no such number
};
std::span<const TableColumn> table_columns();

/// The table with a heading for each series, and the verdicts below.
std::string to_table(const Study& study, const std::vector<std::string>& verdicts);

}  // namespace lockstep::launcher
