// Fuzzes command lines: each is refused with a message, or its values are within the options' bounds.
//
// Input: a word a line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/batch/watched_command.h"
#include "launcher/cli/command_line.h"
#include "launcher/process/fault.h"
#include "launcher/process/launcher_words.h"
#include "runtime/core/check.h"
#include "tests/fuzz/input_parts.h"

using namespace lockstep;
using namespace lockstep::launcher;

namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words = {"lockstep"};
  for (const std::string_view line : fuzz::parts_of(text, '\n')) words.emplace_back(line.substr(0, line.find('\0')));
  return words;
}

void check_refusal(const Error& error) {
  LOCKSTEP_CHECK(error.kind == ErrorKind::kInvalidArgument || error.kind == ErrorKind::kUnsupported, error.message);
  LOCKSTEP_CHECK(!error.message.empty());
}

void check_watched(const std::vector<std::string>& words) {
  const auto watched = parse_watched_command(words, parse_generate_command);
  if (!watched.has_value()) return check_refusal(watched.error());
  LOCKSTEP_CHECK(watched.value().program < words.size(), watched.value().program);
  const auto fewer = with_ranks(watched.value(), 2, parse_generate_command);
  if (fewer.has_value()) LOCKSTEP_CHECK(!fewer.value().ranks || *fewer.value().ranks == 2, *fewer.value().ranks);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> words = words_of(text);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  const auto command = parse_command_line(static_cast<int>(argv.size()), argv.data());
  if (!command.has_value()) {
    check_refusal(command.error());
  } else if (const auto* generate = std::get_if<GenerateCommand>(&command.value())) {
    LOCKSTEP_CHECK(generate->engine.slots.value_or(1) >= 1, *generate->engine.slots);
  }
  check_watched(words);
  if (const auto fault = parse_fault(std::string(text)); fault.has_value()) {
    LOCKSTEP_CHECK(fault.value().rank >= 0 && fault.value().step >= 0, fault.value().rank, fault.value().step);
  }
  if (const auto split = split_words(text, "--launcher"); split.has_value()) {
    static_cast<void>(launcher::with_ranks(split.value(), 3, {"node1", "node2"}));
  }
  return 0;
}
