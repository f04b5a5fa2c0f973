#include "launcher/commands/texts_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {

Result<std::vector<std::string>> read_texts_file(const std::filesystem::path& path) {
  LOCKSTEP_TRY(const std::string text, read_text_file(path, "--texts-file"));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> texts;
  bool sound = json.is_array();
  for (size_t i = 0; sound && i < json.size(); ++i) {
    sound = json[i].is_string();
    if (sound) texts.push_back(json[i].get<std::string>());
  }
  if (sound) return texts;
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[launcher] --texts-file {}: expected a JSON array of strings; correct the file", path.string())};
}

}  // namespace lockstep::launcher
