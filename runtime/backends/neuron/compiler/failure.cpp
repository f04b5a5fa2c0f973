#include "runtime/backends/neuron/compiler/failure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <vector>

namespace lockstep::neuron {
namespace {

constexpr size_t kShownLines = 12;
constexpr size_t kShownColumns = 400;

/// The interpretation of a failure.
struct Meaning {
  ErrorKind kind;
  std::string_view what;
  std::string_view advice;
};

constexpr Meaning kHostMemory{ErrorKind::kResourceExhausted, "this machine's memory ran out",
                              "compile on a machine with more memory, fewer graphs at once (--jobs), or with -O1"};
constexpr Meaning kTooManyInstructions{ErrorKind::kUnsupported, "the graph becomes too many instructions",
                                       "add -O1 to the flags of this phase (--neuron-cc-flags-prefill, "
                                       "--neuron-cc-flags-decode), lower --prefill-chunk or --batch-size, or "
                                       "use more ranks (--tp)"};
constexpr Meaning kDeviceMemory{ErrorKind::kResourceExhausted, "the graph does not fit the memory of a core",
                                "use more ranks (--tp), or lower --batch-size, --max-seq-len or --prefill-chunk"};
constexpr Meaning kUnknownOperation{ErrorKind::kUnsupported, "it does not know an operation of the graph",
                                    "try a newer neuronx-cc; `neuronx-cc list-operators --framework XLA` lists what it "
                                    "knows, `lockstep explain --backend neuron` prints the graph"};
constexpr Meaning kRefusedModule{ErrorKind::kInternal, "it refused the module as malformed",
                                 "this is a bug of Lockstep: report it with the log and with what `lockstep compile "
                                 "--modules DIR` writes"};
constexpr Meaning kUnknownFlag{
    ErrorKind::kInvalidArgument, "it does not know a flag",
    "see `neuronx-cc compile --help`, and change --neuron-cc-flags-prefill or --neuron-cc-flags-decode"};
constexpr Meaning kCores{ErrorKind::kInvalidArgument, "the target has no logical cores of that size",
                         "change --lnc in the flags of both phases"};
constexpr Meaning kDiskFull{ErrorKind::kUnavailable, "no space is left on a disk",
                            "free some where the cache is and in TMPDIR, or choose other folders"};
constexpr Meaning kCrashed{ErrorKind::kFailedPrecondition, "it crashed",
                           "try another -O level or another version of neuronx-cc"};
constexpr Meaning kOther{ErrorKind::kFailedPrecondition, "", "the end of its log may say why"};

/// Known messages in the log of a failure; the first match is used. Codes: AWS Neuron SDK, "Neuron Compiler Error
/// Codes"; [F…]: as reported by users.
struct Known {
  std::string_view text;
  const Meaning& meaning;
};
constexpr std::array<Known, 28> kKnown = {{
    {"No space left on device", kDiskFull},
    {"Disk quota exceeded", kDiskFull},
    {"unrecognized arguments", kUnknownFlag},
    {"invalid choice", kUnknownFlag},
    {"expected one argument", kUnknownFlag},
    {"NCC_EARG001", kCores},
    {"[F137]", kHostMemory},
    {"MemoryError", kHostMemory},
    {"std::bad_alloc", kHostMemory},
    {"Cannot allocate memory", kHostMemory},
    {"process pool was terminated abruptly", kHostMemory},
    {"Too many instructions after unroll", kTooManyInstructions},
    {"NCC_EBVF030", kTooManyInstructions},
    {"NCC_EVRF007", kTooManyInstructions},
    {"NCC_EXTP004", kTooManyInstructions},
    {"peak HBM usage exceeds", kDeviceMemory},
    {"NCC_EOOM001", kDeviceMemory},
    {"NCC_EOOM002", kDeviceMemory},
    {"NCC_EVRF009", kDeviceMemory},
    {"NCC_EXSP001", kDeviceMemory},
    {"NCC_EVRF001", kUnknownOperation},
    {"NCC_EUOC002", kUnknownOperation},
    {"NCC_EHCA005", kUnknownOperation},
    {"NCC_EVRF064", kRefusedModule},
    {"NCC_EMOD025", kRefusedModule},
    {"parsing HLO", kRefusedModule},
    {"[F134]", kCrashed},
    {"[F139]", kCrashed},
}};

Meaning meaning_of(const FailedCompilation& failed) {
  const process::ChildOutcome& outcome = failed.outcome;
  if (outcome.end == process::ChildOutcome::End::kDeadline) {
    return {ErrorKind::kDeadlineExceeded, "it and what it had started were ended",
            "raise --neuron-compile-deadline-s, or add -O1 to the flags of this phase"};
  }
  if (outcome.end == process::ChildOutcome::End::kStop) {
    return {ErrorKind::kCancelled, "compilation was interrupted", "compile again"};
  }
  if (outcome.signal == SIGKILL || outcome.code == 128 + SIGKILL) {
    return {kHostMemory.kind, "it was killed, most often by the system because memory ran out", kHostMemory.advice};
  }
  if (outcome.signal == SIGTERM || outcome.signal == SIGINT) {
    return {ErrorKind::kCancelled, "it was told to end", "compile again"};
  }
  const auto known =
      std::ranges::find_if(kKnown, [&](const Known& row) { return failed.log.find(row.text) != std::string::npos; });
  if (known != kKnown.end()) return known->meaning;
  return outcome.signal ? kCrashed : kOther;
}

/// The last non-blank lines, indented.
std::string end_of(std::string_view log) {
  std::vector<std::string> lines;
  while (!log.empty() && lines.size() < kShownLines) {
    const size_t begin = log.rfind('\n') + 1;  // npos + 1 is 0
    const std::string_view line = log.substr(begin);
    log = log.substr(0, begin == 0 ? 0 : begin - 1);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      lines.push_back(fmt::format("\n    {}", line.substr(0, kShownColumns)));
    }
  }
  std::ranges::reverse(lines);
  return fmt::format("{}", fmt::join(lines, ""));
}

std::string how_it_ended(const FailedCompilation& failed) {
  const double took = to_seconds(failed.outcome.took);
  if (failed.outcome.end == process::ChildOutcome::End::kDeadline) {
    return fmt::format("it did not end within {:g} s", to_seconds(failed.deadline));
  }
  if (failed.outcome.succeeded()) return fmt::format("found no artifact after {:.1f} s, though it ended well", took);
  return fmt::format("found {} after {:.1f} s", to_string(failed.outcome), took);
}

}  // namespace

Error explain(const FailedCompilation& failed) {
  const Meaning meaning = meaning_of(failed);
  std::string message = fmt::format("[runtime/backends/neuron] {} did not compile {} for {}: {}", failed.program,
                                    failed.step, failed.target, how_it_ended(failed));
  if (!meaning.what.empty()) message += fmt::format(": {}", meaning.what);
  message += fmt::format("; {}", meaning.advice);
  if (const std::string end = end_of(failed.log); !end.empty()) message += ". The end of its log:" + end;
  return {meaning.kind, std::move(message)};
}

}  // namespace lockstep::neuron
