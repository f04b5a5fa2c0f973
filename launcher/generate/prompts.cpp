#include "launcher/generate/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/core/atomic_file.h"
#include "runtime/core/json_depth.h"

namespace lockstep::launcher {
namespace {

using nlohmann::json;

Error bad_row(std::string_view origin, size_t row, std::string_view found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] {} row {}: found {}, expected {}; correct the row", origin, row, found, expected)};
}

Result<std::vector<int32_t>> read_ids(const json& value, std::string_view origin, size_t row) {
  if (!value.is_array()) return bad_row(origin, row, value.type_name(), "an array of token ids");
  std::vector<int32_t> ids;
  for (const json& id : value) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) {
      return bad_row(origin, row, id.dump(), "token ids of 0 and above");
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

/// Keeps the ids whose mask is 1.
Result<void> strip_masked(Prompt& prompt, const json& mask, std::string_view origin, size_t row) {
  const std::vector<int32_t> ids = std::move(prompt.ids);
  prompt.ids.clear();
  if (!mask.is_array() || mask.size() != ids.size()) {
    return bad_row(origin, row, fmt::format("a mask of {} entries", mask.is_array() ? mask.size() : 0),
                   fmt::format("{}, one for each id", ids.size()));
  }
  int64_t masked = 0;  // since the last kept id
  for (size_t i = 0; i < ids.size(); ++i) {
    if (mask[i] != 0 && mask[i] != 1) return bad_row(origin, row, mask[i].dump(), "a mask of 0 and 1");
    if (mask[i] == 0) {
      ++masked;
      continue;
    }
    if (!prompt.ids.empty()) prompt.masked_inside += masked;
    masked = 0;
    prompt.ids.push_back(ids[i]);
  }
  return ok();
}

std::string origin_of(size_t row) { return fmt::format("prompt {}", row); }

}  // namespace

Result<std::vector<Prompt>> parse_ids(std::string_view text, std::string_view origin) {
  const auto rows = parse_shallow<json>(text);
  if (!rows.is_array()) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] {}: found {}, expected a JSON array of rows; correct the file", origin,
                             rows.is_discarded() ? "text that is not JSON" : rows.type_name())};
  }
  std::vector<Prompt> prompts;
  for (size_t row = 0; row < rows.size(); ++row) {
    const json& value = rows[row];
    Prompt prompt;
    if (value.is_object()) {
      if (!value.contains("ids")) return bad_row(origin, row, "no \"ids\"", "{\"ids\": […], \"mask\": […]}");
      LOCKSTEP_TRY(prompt.ids, read_ids(value["ids"], origin, row));
      if (value.contains("mask")) LOCKSTEP_TRY_VOID(strip_masked(prompt, value["mask"], origin, row));
      if (value.contains("negative")) {
        LOCKSTEP_TRY(prompt.negative, read_ids(value["negative"], origin, row));
      }
    } else {
      LOCKSTEP_TRY(prompt.ids, read_ids(value, origin, row));
    }
    if (prompt.ids.empty()) return bad_row(origin, row, "no tokens", "at least one");
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Result<std::vector<Prompt>> read_prompts(const PromptSources& sources, const Model& model, Chat chat) {
  if (sources.ids_file) {
    if (chat == Chat::kYes) {
      return Error{ErrorKind::kInvalidArgument,
                   "[launcher] --chat: found --ids-file, expected --prompt or --prompt-file; omit --chat"};
    }
    LOCKSTEP_TRY(const std::string text, read_text_file(*sources.ids_file, "--ids-file"));
    return parse_ids(text, sources.ids_file->string());
  }
  std::vector<std::string> texts = sources.texts;
  if (sources.file) {
    LOCKSTEP_TRY(std::string text, read_text_file(*sources.file, "--prompt-file"));
    texts.push_back(std::move(text));
  }
  std::vector<Prompt> prompts;
  for (size_t row = 0; row < texts.size(); ++row) {
    const std::string& text = texts[row];
    if (text.empty()) return bad_row(origin_of(row), row, "an empty prompt", "text");
    auto ids = chat == Chat::kYes ? model.encode_chat({{"user", text}}) : model.encode(text);
    if (!ids.has_value()) return in_prompt(ids.error(), row);
    if (ids.value().empty()) return bad_row(origin_of(row), row, "no tokens", "at least one");
    prompts.push_back({.ids = std::move(ids).value()});
  }
  return prompts;
}

Error in_prompt(const Error& error, size_t row) {
  const size_t component = error.message.starts_with('[') ? error.message.find("] ") : std::string::npos;
  const std::string what = component == std::string::npos ? error.message : error.message.substr(component + 2);
  return {error.kind, fmt::format("[launcher] {}: {}", origin_of(row), what), error.origin_rank};
}

}  // namespace lockstep::launcher
