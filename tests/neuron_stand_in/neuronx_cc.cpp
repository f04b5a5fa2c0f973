// neuronx-cc-stand-in: a program with the command line of AWS's compiler, for tests. It performs a compiler's first
// checks (flags, a well-formed module, known opcodes) and writes a file in the shape of a NEFF with the module itself.
// Its output does not run on a device.
//
//   neuronx-cc-stand-in --version
//   neuronx-cc-stand-in list-operators --framework XLA
//   neuronx-cc-stand-in compile MODULE.pb --framework XLA --target T --output X.neff [flags]
//
// Variables make it misbehave, for modules whose name holds $STAND_IN_CC_ONLY (all without it):
//   STAND_IN_CC=hang     waits forever, with a child that ignores SIGTERM
//               fail     ends with code 70 and a log that names no reason
//               memory, unroll, hbm, disk      the same with the log of that failure
//               kill, crash     is ended by SIGKILL, SIGSEGV
//               empty, missing, garbage        ends well, with such an artifact
//   STAND_IN_CC_VERSION  the reported version, instead of 0.0.0+stand-in
//   STAND_IN_CC_LOG      a file to which every compilation adds a line: module, target, process
//   STAND_IN_CC_WAIT_MS  how long a compilation takes
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/backends/neuron/hlo/hlo.pb.h"
#include "runtime/backends/neuron/hlo/wire.h"
#include "tests/neuron_stand_in/neff.h"

namespace {

namespace hlo = lockstep::neuron::hlo;
using lockstep::stand_in::Neff;

constexpr int kCompilerError = 70;  // neuronx-cc's exit code
constexpr int kUsageError = 2;

// Flags that AWS's own stacks pass to neuronx-cc (aws-neuron/transformers-neuronx, all its models; aws-neuron/nkipy:
// copy).
constexpr std::array<std::string_view, 51> kOperators = {"abs",
                                                         "add",
                                                         "all-gather",
                                                         "all-reduce",
                                                         "all-to-all",
                                                         "and",
                                                         "broadcast",
                                                         "clamp",
                                                         "compare",
                                                         "concatenate",
                                                         "constant",
                                                         "convert",
                                                         "copy",
                                                         "cosine",
                                                         "custom-call",
                                                         "divide",
                                                         "dot",
                                                         "dynamic-slice",
                                                         "dynamic-update-slice",
                                                         "exponential",
                                                         "floor",
                                                         "gather",
                                                         "get-tuple-element",
                                                         "iota",
                                                         "log",
                                                         "logistic",
                                                         "maximum",
                                                         "minimum",
                                                         "multiply",
                                                         "not",
                                                         "or",
                                                         "pad",
                                                         "parameter",
                                                         "reduce",
                                                         "reduce-scatter",
                                                         "reduce-window",
                                                         "replica-id",
                                                         "reshape",
                                                         "reverse",
                                                         "rng",
                                                         "rsqrt",
                                                         "scatter",
                                                         "select",
                                                         "sine",
                                                         "slice",
                                                         "sort",
                                                         "sqrt",
                                                         "subtract",
                                                         "tanh",
                                                         "transpose",
                                                         "tuple"};

/// Flags with a value, in the same word or the next; and those without one.
constexpr std::array<std::string_view, 15> kValued = {"--framework",
                                                      "--target",
                                                      "--output",
                                                      "--model-type",
                                                      "--auto-cast",
                                                      "--auto-cast-type",
                                                      "--optlevel",
                                                      "--lnc",
                                                      "-lnc",
                                                      "--logfile",
                                                      "--logical-nc-config",
                                                      "--tensorizer-options",
                                                      "--verbose",
                                                      "--internal-hlo2tensorizer-options",
                                                      "--implicit-integer-downcast"};
constexpr std::array<std::string_view, 7> kPlain = {"-O1",
                                                    "-O2",
                                                    "-O3",
                                                    "--enable-saturate-infinity",
                                                    "--enable-mixed-precision-accumulation",
                                                    "--enable-fast-loading-neuron-binaries",
                                                    "--enable-fast-context-switch"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Says why on stderr, as the compiler does.
int refuse(int code, std::string_view why) {
  fmt::print(stderr, "neuronx-cc-stand-in: {}\n", why);
  return code;
}

struct Arguments {
  std::string module, framework, target, output, cores = "1";
  std::vector<std::string> words;  // all of them
  std::string unknown;             // the first one unknown to the compiler
};

void take(std::string_view name, const std::string& value, Arguments& arguments) {
  if (name == "--framework") arguments.framework = value;
  if (name == "--target") arguments.target = value;
  if (name == "--output") arguments.output = value;
  if (name == "--lnc" || name == "-lnc" || name == "--logical-nc-config") arguments.cores = value;
}

Arguments read_arguments(const std::vector<std::string>& words) {
  Arguments arguments{.words = words};
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (std::ranges::count(kValued, name) > 0) {
      const bool is_next = equals == std::string::npos;
      if (is_next && i + 1 == words.size()) {
        arguments.unknown = name + " (expected one argument)";
        break;
      }
      take(name, is_next ? words[++i] : word.substr(equals + 1), arguments);
    } else if (!word.starts_with('-') && arguments.module.empty()) {
      arguments.module = word;
    } else if (std::ranges::count(kPlain, word) == 0 && arguments.unknown.empty()) {
      arguments.unknown = word;
    }
  }
  return arguments;
}

/// The error of the command line; empty if there is none.
std::string check(const Arguments& arguments) {
  constexpr std::array<std::string_view, 4> kTargets = {"inf2", "trn1", "trn1n", "trn2"};
  if (!arguments.unknown.empty()) return "error: unrecognized arguments: " + arguments.unknown;
  if (arguments.framework != "XLA") return "argument --framework: invalid choice: " + arguments.framework;
  if (std::ranges::count(kTargets, arguments.target) == 0) {
    return "argument --target: invalid choice: " + arguments.target;
  }
  if (arguments.module.empty() || arguments.output.empty()) return "error: expected one module and --output";
  return "";
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// The first opcode that is not on the list; empty when all are.
std::string unknown_opcode(const std::vector<std::byte>& bytes) {
  lockstep::neuron::wire::Module module;
  if (!module.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return "";
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation.instructions()) {
      if (std::ranges::count(kOperators, instruction.opcode()) == 0) return instruction.opcode();
    }
  }
  return "";
}

[[noreturn]] void wait_for_ever() {
  while (true) ::poll(nullptr, 0, 1000);
}

/// A child that only SIGKILL ends, like the real compiler's workers.
[[noreturn]] void hang() {
  ::signal(SIGTERM, SIG_IGN);
  if (::fork() != 0) ::signal(SIGTERM, SIG_DFL);
  wait_for_ever();
}

int fail_for(std::string_view reason) {
  if (reason == "memory") {
    return refuse(kCompilerError,
                  "[F137] neuronx-cc was forcibly killed - This most commonly occurs due to "
                  "insufficient system memory. (said by the stand-in, on request)");
  }
  if (reason == "unroll") {
    return refuse(kCompilerError, "Too many instructions after unroll for function sg0000! (on request)");
  }
  if (reason == "hbm") return refuse(kCompilerError, "[NCC_EOOM001] memory needed exceeds the limit (on request)");
  if (reason == "disk") return refuse(kCompilerError, "OSError: [Errno 28] No space left on device (on request)");
  fmt::print("neuronx-cc-stand-in: a line about nothing\n");
  return refuse(kCompilerError, "failed on request");
}

void write_file(const std::string& path, std::string_view contents) { std::ofstream(path) << contents; }

/// Misbehaves as set by the variables; empty if they do not concern this module.
std::optional<int> misbehave(const std::string& name, const std::string& output) {
  const std::string how = variable("STAND_IN_CC");
  if (how.empty() || name.find(variable("STAND_IN_CC_ONLY")) == std::string::npos) return std::nullopt;
  if (how == "hang") hang();
  if (how == "kill") ::raise(SIGKILL);
  if (how == "crash") ::raise(SIGSEGV);
  if (how == "missing") return 0;
  if (how == "empty" || how == "garbage") {
    write_file(output, how == "empty" ? "" : std::string(4096, '?'));
    return 0;
  }
  return fail_for(how);
}

int compile(const std::vector<std::string>& words) {
  const Arguments arguments = read_arguments(words);
  if (const std::string wrong = check(arguments); !wrong.empty()) return refuse(kUsageError, wrong);
  if (arguments.cores != "1" && !(arguments.cores == "2" && arguments.target == "trn2")) {
    return refuse(kCompilerError, "[NCC_EARG001] Unsupported logical core configuration: --lnc " + arguments.cores);
  }
  const std::vector<std::byte> bytes = read_file(arguments.module);
  if (const std::string opcode = unknown_opcode(bytes); !opcode.empty()) {
    return refuse(kCompilerError, "[NCC_EVRF001] Unsupported operator: " + opcode);
  }
  const lockstep::Result<hlo::Module> module = hlo::from_bytes(bytes);
  if (!module.has_value()) return refuse(kCompilerError, "[NCC_EVRF064] " + module.error().message);

  const std::string& name = module.value().name;
  if (const std::string log = variable("STAND_IN_CC_LOG"); !log.empty()) {
    std::ofstream(log, std::ios::app) << fmt::format("{} {} {}\n", name, arguments.target, ::getpid()) << std::flush;
  }
  if (const std::string wait = variable("STAND_IN_CC_WAIT_MS"); !wait.empty()) ::poll(nullptr, 0, std::stoi(wait));
  if (const auto code = misbehave(name, arguments.output)) return *code;
  const std::vector<std::byte> neff =
      lockstep::stand_in::write_neff(Neff{.name = name,
                                          .target = arguments.target,
                                          .flags = arguments.words,
                                          .logical_cores = static_cast<uint32_t>(std::stoi(arguments.cores)),
                                          .module = bytes});
  write_file(arguments.output, {reinterpret_cast<const char*>(neff.data()), neff.size()});
  fmt::print("neuronx-cc-stand-in: checked {} and wrote a stand-in for a NEFF: the module itself\n", name);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string command = words.empty() ? "" : words.front();
  if (command == "--version") {
    const std::string version = variable("STAND_IN_CC_VERSION");
    fmt::print(stderr, "Stand-in for the NeuronX Compiler version {}\n\nIt compiles nothing.\n",
               version.empty() ? "0.0.0+stand-in" : version);
    return 0;
  }
  if (command == "list-operators") {
    fmt::print("{}\n", fmt::join(kOperators, "\n"));
    return 0;
  }
  if (command == "compile") return compile({words.begin() + 1, words.end()});
  return refuse(kUsageError, "error: expected compile, list-operators or --version");
}
