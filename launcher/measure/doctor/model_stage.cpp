// Checks that every rank reads the same files of a model.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/measure/doctor/judgements.h"
#include "launcher/measure/doctor/stages.h"
#include "runtime/gguf/gguf_model.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kSample = 64 << 20;  // bytes of the largest file: enough to detect a slow disk
constexpr size_t kPiece = 4 << 20;

void read_sample(const fs::path& file, const Clock& clock, ModelFacts& facts) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> piece(kPiece);
  const TimePoint begin = clock.now();
  while (stream && facts.sample_bytes < kSample) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    facts.sample_bytes += stream.gcount();
  }
  facts.sample_seconds = to_seconds(clock.now() - begin);
}

/// The facts about a GGUF file, which has its config inside.
ModelFacts look_at_file(const fs::path& file, const Clock& clock) {
  ModelFacts facts;
  const auto model = gguf::read_model(file);
  if (!model.has_value()) {
    facts.problem = model.error().message;
    return facts;
  }
  std::error_code ignored;
  for (const gguf::GgufHeader& part : model.value().parts) {
    facts.files.emplace_back(part.path.filename().string(), static_cast<int64_t>(fs::file_size(part.path, ignored)));
  }
  read_sample(file, clock, facts);
  return facts;
}

ModelFacts look_at(const fs::path& folder, const Clock& clock) {
  if (gguf::is_gguf(folder)) return look_at_file(folder, clock);
  ModelFacts facts;
  std::error_code error;
  fs::path largest;
  int64_t most = -1;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;
    const auto bytes = static_cast<int64_t>(entry->file_size(ignored));
    facts.files.emplace_back(entry->path().filename().string(), bytes);
    if (!std::ifstream(entry->path())) {
      facts.problem = fmt::format("{} cannot be read: {}", entry->path().string(), std::strerror(errno));
    }
    if (std::exchange(most, std::max(most, bytes)) < bytes) largest = entry->path();
  }
  if (error) facts.problem = fmt::format("{} cannot be opened: {}", folder.string(), error.message());
  std::ranges::sort(facts.files);
  const bool has_config =
      std::ranges::any_of(facts.files, [](const auto& file) { return file.first == "config.json"; });
  if (facts.problem.empty() && !has_config) facts.problem = fmt::format("{} has no config.json", folder.string());
  if (facts.problem.empty()) read_sample(largest, clock, facts);
  return facts;
}

std::string to_text(const ModelFacts& facts) {
  return Json({{"problem", facts.problem},
               {"files", facts.files},
               {"bytes", facts.sample_bytes},
               {"seconds", facts.sample_seconds}})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

ModelFacts parse(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {.problem = "its report on the model cannot be read"};
  return {.problem = json.value("problem", ""),
          .files = json.value("files", std::vector<std::pair<std::string, int64_t>>()),
          .sample_bytes = json.value("bytes", int64_t{0}),
          .sample_seconds = json.value("seconds", 0.0)};
}

}  // namespace

Result<Check> run_model(DoctorRank& rank) {
  if (!rank.command.model) return skipped_check("no --model given");
  const ModelFacts own = look_at(*rank.command.model, rank.member.clock());
  LOCKSTEP_TRY(const auto told, rank.member.bootstrap().exchange(to_text(own)));
  std::vector<ModelFacts> facts;
  std::ranges::transform(told, std::back_inserter(facts), parse);
  return judge_model(rank.plan.placement, facts, rank.command.model->string());
}

}  // namespace lockstep::launcher
