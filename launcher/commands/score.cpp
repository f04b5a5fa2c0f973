// `lockstep score`: rank 0 reads texts and reports log-probabilities; every rank opens the engine.
#include "launcher/commands/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "launcher/commands/texts_file.h"
#include "launcher/generate/prompts.h"
#include "launcher/process/own_ranks.h"
#include "launcher/process/rank_0_work.h"
#include "lockstep/engine.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

constexpr int64_t kMostSlots = 8;  // default of --batch-size

using Texts = std::vector<std::vector<int32_t>>;
using Scores = std::vector<std::vector<TokenScore>>;

Error bad_text(size_t text, const std::string& found, const std::string& expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] text {}: found {}, expected {}; correct the text", text, found, expected)};
}

Result<Texts> ids_of_file(const std::filesystem::path& path) {
  LOCKSTEP_TRY(const std::string file, read_text_file(path, "--ids-file"));
  LOCKSTEP_TRY(std::vector<Prompt> rows, parse_ids(file, path.string()));
  Texts texts;
  for (Prompt& row : rows) {
    if (row.masked_inside > 0) return bad_text(texts.size(), "a mask with holes", "padding at its ends alone");
    if (!row.negative.empty()) return bad_text(texts.size(), "\"negative\"", "\"ids\" and \"mask\" alone");
    texts.push_back(std::move(row.ids));
  }
  return texts;
}

Result<Texts> read_texts(const ScoreCommand& command, const Model& model) {
  if (command.ids_file) return ids_of_file(*command.ids_file);
  std::vector<std::string> given = command.texts;
  if (command.texts_file) {
    LOCKSTEP_TRY(given, read_texts_file(*command.texts_file));
  }
  Texts texts;
  for (const std::string& text : given) {
    LOCKSTEP_TRY(texts.emplace_back(), model.encode(text));
    if (texts.back().empty()) return bad_text(texts.size() - 1, "no tokens", "at least one");
  }
  return texts;
}

/// The engine options that the texts need.
EngineOptions engine_options(const ScoreCommand& command, const Model& model, const Texts& texts) {
  EngineOptions options = command.engine;
  int64_t longest = 2;
  for (const auto& ids : texts) longest = std::max(longest, std::ssize(ids));
  if (!options.slots) options.slots = std::clamp<int64_t>(std::ssize(texts), 1, kMostSlots);
  if (!options.capacity) options.capacity = std::min(longest - 1, model.longest_sequence().value_or(longest));
  options.choosers = Choosers::kNone;
  options.scoring = Scoring::kOn;
  options.scored_top = command.top;
  return options;
}

nlohmann::ordered_json json_of(const std::vector<TokenScore>& scores) {
  using Json = nlohmann::ordered_json;
  Json row{{"ids", Json::array()}, {"logprobs", Json::array()}, {"top", Json::array()}};
  for (const TokenScore& score : scores) {
    row["ids"].push_back(score.id);
    row["logprobs"].push_back(score.logprob ? Json(*score.logprob) : Json());
    Json top = Json::array();
    for (const TokenLogprob& token : score.top) top.push_back({token.id, token.logprob});
    row["top"].push_back(std::move(top));
  }
  return row;
}

Result<void> write_json(const std::filesystem::path& path, const Scores& scores) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& text : scores) rows.push_back(json_of(text));
  return write_text_file(path, nlohmann::ordered_json{{"rows", std::move(rows)}}.dump() + "\n");
}

void print(const Scores& scores) {
  for (size_t text = 0; text < scores.size(); ++text) {
    double sum = 0.0;
    for (const TokenScore& score : scores[text]) sum += score.logprob.value_or(0.0f);
    const auto scored = static_cast<double>(scores[text].size() - 1);
    fmt::print("text {}: {} tokens, log-probability {:.4f}", text, scores[text].size(), sum);
    fmt::print("{}\n", scored > 0 ? fmt::format(", perplexity {:.4f}", std::exp(-sum / scored)) : "");
  }
}

/// Closes the engine. On rank 0. @collective @blocking
Result<Scores> compute(const ScoreCommand& command, Group& group, Engine& engine, const Texts& texts) {
  Result<Scores> scores = engine.score(texts, command.top);
  if (!scores.has_value()) {
    group.fail(scores.error());  // without it the other ranks would only detect the engine's end
    return scores;
  }
  LOCKSTEP_TRY_VOID(engine.close());
  return scores;
}

Result<void> run(const ScoreCommand& command, Group& group, const Log& log, ProgressLine& progress) {
  Result<Model> model = Model::open(command.model.directory, command.model.options);
  Texts texts;
  EngineOptions options = command.engine;
  std::string statement;
  const auto prepare = [&]() -> Result<void> {
    if (!model.has_value()) return model.error();
    LOCKSTEP_TRY(statement, statement_of(command.engine));
    if (!group.leads()) return ok();
    LOCKSTEP_TRY(texts, read_texts(command, model.value()));
    options = engine_options(command, model.value(), texts);
    LOCKSTEP_TRY_VOID(check_texts(model.value(), options, texts, command.top));
    for (const std::string& warning : model.value().warnings()) log.warning("{}", warning);
    return ok();
  };
  LOCKSTEP_TRY_VOID(group.all_succeeded(prepare()));
  LOCKSTEP_TRY_VOID(group.agree("options", statement + fmt::format("--top {}\n", command.top)));
  LOCKSTEP_TRY(const auto engine, Engine::open(group, model.value(), options));
  Scores scores;
  if (group.leads()) {
    LOCKSTEP_TRY(scores, compute(command, group, *engine, texts));
  } else {
    LOCKSTEP_TRY_VOID(engine->serve());
  }
  return do_on_rank_0(group, [&]() -> Result<void> {
    progress.close();
    if (command.json) return write_json(*command.json, scores);
    print(scores);
    std::fflush(stdout);
    return ok();
  });
}

}  // namespace

Result<void> score(const ScoreCommand& command) {
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  const SteadyClock clock;
  ProgressLine progress(stderr_screen(command.run.progress), clock);
  return on_own_ranks(
      {.run = command.run, .ranks = command.model.ranks, .read_ahead = command.model.directory, .progress = &progress},
      [&](Group& group, const Log& log) { return run(command, group, log, progress); });
}

}  // namespace lockstep::launcher
