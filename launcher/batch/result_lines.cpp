#include "launcher/batch/result_lines.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no −inf, the log-probability of an excluded token: null.
Json logprob_of(float logprob) { return std::isfinite(logprob) ? Json(logprob) : Json(nullptr); }

void add_logprobs(const journal::RowAnswer& answer, Json& json) {
  Json& chosen = json["logprobs"] = Json::array();
  for (const float logprob : answer.logprobs) chosen.push_back(logprob_of(logprob));
  Json& likeliest = json["top_logprobs"] = Json::array();
  for (const auto& step : answer.likeliest) {
    Json& top = likeliest.emplace_back(Json::array());
    for (const journal::TokenLogprob& token : step) {
      top.push_back({{"id", token.id}, {"logprob", logprob_of(token.logprob)}});
    }
  }
}

void add_answer(const journal::RowAnswer& answer, Json& json) {
  json["text"] = answer.text;
  json["ids"] = answer.tokens;
  json["finish_reason"] = answer.finish_reason;
  if (answer.score) json["score"] = *answer.score;
  if (!answer.logprobs.empty()) add_logprobs(answer, json);
}

}  // namespace

journal::RowAnswer to_row_answer(const Answer& answer) {
  journal::RowAnswer made{.tokens = answer.ids,
                          .text = answer.text,
                          .finish_reason = std::string(generation::to_string(answer.reason)),
                          .score = answer.score,
                          .logprobs = {},
                          .likeliest = {}};
  for (const auto& record : answer.records) {
    made.logprobs.push_back(record->logprob);
    auto& likeliest = made.likeliest.emplace_back();
    for (const TokenLogprob& token : record->top) likeliest.push_back({token.id, token.logprob});
  }
  return made;
}

std::string to_line(std::string_view id, const journal::RowResult& row) {
  Json json;
  json["id"] = Json::parse(id);
  if (!row.error.empty()) {
    json["error"] = row.error;
  } else if (row.answers.size() == 1) {
    add_answer(row.answers.front(), json);
  } else {
    Json& answers = json["answers"] = Json::array();
    for (const journal::RowAnswer& answer : row.answers) add_answer(answer, answers.emplace_back());
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<WrittenRows> write_results(const std::optional<std::filesystem::path>& path, const JobsFile& jobs,
                                  const RowResults& results) {
  std::optional<AtomicFile> file;
  if (path) {
    LOCKSTEP_TRY(file, AtomicFile::create(*path));
  }
  WrittenRows written;
  for (; written.rows < jobs.size(); ++written.rows) {
    LOCKSTEP_TRY(const journal::RowResult row, results.read(written.rows));
    const std::string line = to_line(jobs.id(written.rows), row);
    if (!row.error.empty()) ++written.failed;
    if (file) {
      LOCKSTEP_TRY_VOID(file->append(line));
    } else {
      std::fwrite(line.data(), 1, line.size(), stdout);
    }
  }
  if (file) LOCKSTEP_TRY_VOID(file->commit());
  std::fflush(stdout);
  return written;
}

}  // namespace lockstep::launcher
