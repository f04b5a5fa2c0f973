#include "launcher/commands/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/core/atomic_file.h"

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

/// Leaves the ids whose mask is 1.
Result<void> strip_masked(Prompt& prompt, const json& mask, std::string_view origin, size_t row) {
  const std::vector<int32_t> ids = std::move(prompt.ids);
  prompt.ids.clear();
  if (!mask.is_array() || mask.size() != ids.size()) {
    return bad_row(origin, row, fmt::format("a mask of {} entries", mask.is_array() ? mask.size() : 0),
                   fmt::format("{}, one for each id", ids.size()));
  }
  int64_t masked = 0;  // since the last id that was kept
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
  const json rows = json::parse(text, nullptr, /*allow_exceptions=*/false);
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

Result<std::vector<Prompt>> read_prompts(const PromptSources& sources, const text::Tokenizer* tokenizer,
                                         text::SpecialTokens special, const Wrap& wrap) {
  if (sources.ids_file) {
    LOCKSTEP_TRY(const std::string text, read_text_file(*sources.ids_file, "--ids-file"));
    return parse_ids(text, sources.ids_file->string());
  }
  std::vector<std::string> texts = sources.texts;
  if (sources.file) {
    LOCKSTEP_TRY(std::string text, read_text_file(*sources.file, "--prompt-file"));
    texts.push_back(std::move(text));
  }
  LOCKSTEP_CHECK(tokenizer != nullptr || texts.empty());
  std::vector<Prompt> prompts;
  for (size_t row = 0; row < texts.size(); ++row) {
    Prompt prompt{.ids = {}, .text = texts[row]};
    if (prompt.text.empty()) return bad_row(origin_of(row), row, "an empty prompt", "text");
    std::string wrapped = prompt.text;
    if (wrap) {
      LOCKSTEP_TRY(wrapped, wrap(prompt.text));
    }
    auto ids = tokenizer->encode(wrapped, special);
    if (!ids.has_value()) {
      return Error{ids.error().kind, fmt::format("{} (in {})", ids.error().message, origin_of(row))};
    }
    prompt.ids = std::move(ids).value();
    if (prompt.ids.empty()) return bad_row(origin_of(row), row, "no tokens", "at least one");
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Result<void> check_prompt(const Prompt& prompt, size_t row, int64_t vocabulary, int64_t capacity) {
  for (const std::vector<int32_t>* list : {&prompt.ids, &prompt.negative}) {
    const auto outside = std::ranges::find_if(*list, [&](int32_t id) { return id >= vocabulary; });
    if (outside == list->end()) continue;
    return bad_row(origin_of(row), row, fmt::format("token id {}", *outside),
                   fmt::format("ids below {} (the vocabulary)", vocabulary));
  }
  const size_t longer = std::max(prompt.ids.size(), prompt.negative.size());
  if (static_cast<int64_t>(longer) <= capacity) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] prompt {} does not fit: found {} tokens, expected at most {} (the capacity of "
                           "a slot); shorten it or raise --max-seq-len",
                           row, longer, capacity)};
}

Result<void> check_prompts(const std::vector<Prompt>& prompts, int64_t vocabulary, int64_t capacity) {
  for (size_t row = 0; row < prompts.size(); ++row) {
    LOCKSTEP_TRY_VOID(check_prompt(prompts[row], row, vocabulary, capacity));
  }
  return ok();
}

}  // namespace lockstep::launcher
