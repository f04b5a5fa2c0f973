#include "runtime/backends/neuron/compiler/neuronx_cc.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "runtime/backends/neuron/compiler/failure.h"
#include "runtime/process/child_process.h"

namespace lockstep::neuron {
namespace {

/// neuronx-cc is a Python program with many imports before its first output.
constexpr Duration kVersionDeadline = std::chrono::minutes(2);
/// Bytes of the log searched for the reason of a failure.
constexpr std::streamoff kReadLogBytes = 1 << 20;
/// A NEFF is at least as large as its header (AWS Neuron SDK, "Work with NEFF files").
constexpr uintmax_t kLeastNeffBytes = 1024;
/// The compiler's own log file, in its working directory unless --logfile says otherwise.
constexpr const char* kOwnLog = "log-neuron-cc.txt";

Error cannot_write(const std::filesystem::path& path) {
  return {ErrorKind::kUnavailable,
          fmt::format("[runtime/backends/neuron] cannot write {}; free some space on its disk", path.string())};
}

Result<void> write_module(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return cannot_write(path);
  return ok();
}

/// The last part of a file; empty when it cannot be read.
std::string end_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  file.seekg(std::max<std::streamoff>(0, file.tellg() - kReadLogBytes));
  return {std::istreambuf_iterator<char>(file), {}};
}

void append_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::ifstream source(from, std::ios::binary);
  if (!source || source.peek() == std::ifstream::traits_type::eof()) return;
  std::ofstream(to, std::ios::binary | std::ios::app) << "--- " << from.filename().string() << "\n" << source.rdbuf();
}

bool is_artifact(const std::filesystem::path& path) {
  std::error_code failed;
  const uintmax_t size = std::filesystem::file_size(path, failed);
  return !failed && size > kLeastNeffBytes;
}

/// The error of a failed start, with advice for a missing compiler.
Error cannot_start(const CompilerOptions& options, const Error& why) {
  if (why.kind != ErrorKind::kNotFound) return why;
  return {ErrorKind::kUnavailable,
          fmt::format("[runtime/backends/neuron] cannot compile: found no program {}, expected AWS's compiler "
                      "neuronx-cc; install it, say where it is with --neuron-cc, or use what another machine "
                      "compiled (--artifacts)",
                      options.program.string())};
}

/// "2.25.3371.0+f524f7f8" of "NeuronX Compiler version 2.25.3371.0+f524f7f8", the first of several lines; of other
/// text, the first word.
std::string version_in(std::string_view text) {
  constexpr std::string_view kWord = "ersion ";
  const size_t found = text.find(kWord);
  const size_t begin = found == std::string_view::npos ? 0 : found + kWord.size();
  text = text.substr(std::min(text.find_first_not_of(" \t\r\n", begin), text.size()));
  return std::string(text.substr(0, text.find_first_of(" \t\r\n,")));
}

}  // namespace

std::vector<std::string> compile_words(const CompilerOptions& options, Phase phase, const std::filesystem::path& module,
                                       const std::filesystem::path& artifact) {
  std::vector<std::string> words = {
      options.program.string(), "compile",  "--framework",    "XLA", "--target", std::string(to_string(options.target)),
      module.string(),          "--output", artifact.string()};
  std::ranges::move(compiler_flags(options, phase), std::back_inserter(words));
  return words;
}

Result<std::string> ask_version(const CompilerOptions& options) {
  const Result<process::ChildOutcome> asked = process::run_child({.words = {options.program.string(), "--version"},
                                                                  .environment = options.environment,
                                                                  .inheritance = options.inheritance,
                                                                  .output = process::ChildStream::kCapture,
                                                                  .errors = process::ChildStream::kCapture},
                                                                 {.deadline = kVersionDeadline}, options.stop);
  if (!asked.has_value()) {
    if (asked.error().kind == ErrorKind::kNotFound) return std::string();
    return asked.error();
  }
  const process::ChildOutcome& outcome = asked.value();
  if (outcome.end == process::ChildOutcome::End::kStop) {
    return Error{ErrorKind::kCancelled, "[runtime/backends/neuron] asking for the compiler's version was interrupted"};
  }
  // The version may be printed on either stream.
  const std::string version = outcome.succeeded() ? version_in(outcome.output + "\n" + outcome.errors) : "";
  if (!version.empty()) return version;
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[runtime/backends/neuron] cannot tell the version of {}: found {} of `{} --version`, "
                           "expected its version; repair the installation, or say where another one is with "
                           "--neuron-cc{}{}",
                           options.program.string(), to_string(outcome), options.program.string(),
                           outcome.errors.empty() ? "" : ". It said:\n    ", outcome.errors)};
}

Result<void> run_compiler(const CompilerOptions& options, const std::string& step, std::span<const std::byte> bytes,
                          const device::ArtifactWorkspace& workspace) {
  // Absolute, because the compiler runs in the workspace.
  const std::filesystem::path module = std::filesystem::absolute(workspace.folder / (step + ".hlo.pb"));
  const std::filesystem::path artifact = std::filesystem::absolute(workspace.artifact);
  LOCKSTEP_TRY_VOID(write_module(module, bytes));
  const Result<process::ChildOutcome> outcome =
      process::run_child({.words = compile_words(options, phase_of(step), module, artifact),
                          .environment = options.environment,
                          .inheritance = options.inheritance,
                          .output = process::ChildStream::kLog,
                          .errors = process::ChildStream::kLog,
                          .folder = workspace.folder,
                          .log = workspace.log},
                         {.deadline = options.deadline}, options.stop);
  if (!outcome.has_value()) return cannot_start(options, outcome.error());
  append_file(workspace.folder / kOwnLog, workspace.log);
  if (outcome.value().succeeded() && is_artifact(workspace.artifact)) return ok();
  return explain(FailedCompilation{.step = step,
                                   .target = std::string(to_string(options.target)),
                                   .program = options.program.string(),
                                   .deadline = options.deadline,
                                   .outcome = outcome.value(),
                                   .log = end_of_file(workspace.log)});
}

}  // namespace lockstep::neuron
