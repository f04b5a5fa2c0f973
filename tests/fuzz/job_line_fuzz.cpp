// Fuzzes lines of a batch job, and files of token ids: they are refused, or their rows are valid.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "launcher/batch/jobs_file.h"
#include "launcher/generate/prompts.h"
#include "runtime/core/check.h"
#include "runtime/generation/generation_config.h"

using namespace lockstep;
using namespace lockstep::launcher;

namespace {

void check_ids(std::string_view text) {
  const auto prompts = parse_ids(text, "ids.json");
  if (!prompts.has_value()) {
    LOCKSTEP_CHECK(prompts.error().kind == ErrorKind::kInvalidArgument, prompts.error().message);
    return;
  }
  for (const Prompt& prompt : prompts.value()) {
    LOCKSTEP_CHECK(!prompt.ids.empty() && prompt.masked_inside >= 0, prompt.masked_inside);
    for (const int32_t id : prompt.ids) LOCKSTEP_CHECK(id >= 0, id);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_ids(text);
  const auto parsed = parse_job_line(text, "jobs.jsonl, line 1");
  if (!parsed.has_value()) {
    LOCKSTEP_CHECK(parsed.error().kind == ErrorKind::kInvalidArgument, parsed.error().message);
    LOCKSTEP_CHECK(parsed.error().message.find("jobs.jsonl, line 1") != std::string::npos, parsed.error().message);
    return 0;
  }
  const JobRow& row = parsed.value().row;
  LOCKSTEP_CHECK(!row.prompt.empty() + !row.ids.empty() + !row.messages.empty() == 1);
  for (const int32_t id : row.ids) LOCKSTEP_CHECK(id >= 0, id);
  if (row.max_new_tokens) LOCKSTEP_CHECK(*row.max_new_tokens > 0, *row.max_new_tokens);
  if (!parsed.value().id.empty()) LOCKSTEP_CHECK(nlohmann::json::accept(parsed.value().id), parsed.value().id);
  generation::GenerationConfig config;
  for (const auto& [name, value] : row.generation) {
    const auto set = config.set(name, value);
    if (!set.has_value()) LOCKSTEP_CHECK(!set.error().message.empty(), name);
  }
  static_cast<void>(config.validate());
  return 0;
}
