#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/backends/neuron/compiler/compiler.h"

namespace lockstep::neuron {
namespace {

/// Options of neuronx-cc with several spellings (AWS Neuron SDK, "Neuron Compiler CLI Reference Guide").
struct Spelling {
  std::string_view word;  // as written
  std::string_view name;  // the canonical name
};
constexpr std::array<Spelling, 7> kSpellings = {{{"-O1", "--optlevel"},
                                                 {"-O2", "--optlevel"},
                                                 {"-O3", "--optlevel"},
                                                 {"-O", "--optlevel"},
                                                 {"-lnc", "--lnc"},
                                                 {"--logical-nc-config", "--lnc"},
                                                 {"-o", "--output"}}};

/// Flags set by this program, each with the user's option for it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kReserved = {
    {{"--target", "choose the target with --neuron-target"},
     {"--framework", "it is always XLA"},
     {"--output", "the cache says where artifacts lie"}}};

/// The option that starts a word: "--lnc" of "-lnc=2"; empty for a word that is an option's value.
std::string_view name_of(std::string_view word) {
  if (!word.starts_with('-')) return {};
  const std::string_view written = word.substr(0, word.find('='));
  const auto known = std::ranges::find(kSpellings, written, &Spelling::word);
  return known == kSpellings.end() ? written : known->name;
}

bool has(const std::vector<std::string>& flags, std::string_view name) {
  return std::ranges::any_of(flags, [&](const std::string& word) { return name_of(word) == name; });
}

/// The value of option `name` in `flags`, as "--name=value" or in the next word; the last one wins.
std::string value_of(const std::vector<std::string>& flags, std::string_view name) {
  std::string value;
  for (size_t i = 0; i < flags.size(); ++i) {
    if (name_of(flags[i]) != name) continue;
    const size_t equals = flags[i].find('=');
    if (equals != std::string::npos) value = flags[i].substr(equals + 1);
    if (equals == std::string::npos && i + 1 < flags.size()) value = flags[i + 1];
  }
  return value;
}

/// The flags of AWS's own inference stack (aws-neuron/neuronx-distributed-inference on GitHub,
/// models/model_wrapper.py): types as in the module, quick compilation of prefill (-O1 compiles layer by layer), the
/// fastest code for decode. Its threshold for the latter is omitted, because it is meant for hand-written kernels.
std::vector<std::string> default_flags(Target target, Phase phase) {
  std::vector<std::string> flags = {"--model-type=transformer", "--auto-cast=none", "--enable-saturate-infinity"};
  flags.emplace_back(phase == Phase::kPrefill ? "-O1" : "-O2");
  if (target == Target::kTrn2) flags.emplace_back("--lnc=2");
  return flags;
}

Error invalid(std::string message) {
  return {ErrorKind::kInvalidArgument, "[runtime/backends/neuron] " + std::move(message)};
}

Result<void> check_flags(const std::vector<std::string>& flags, std::string_view option) {
  for (const auto& [name, instead] : kReserved) {
    if (has(flags, name)) return invalid(fmt::format("{}: found {}, expected other flags; {}", option, name, instead));
  }
  return ok();
}

int cores_in(const std::vector<std::string>& flags) {
  const std::string value = value_of(flags, "--lnc");
  return value == "2" ? 2 : value.empty() || value == "1" ? 1 : 0;
}

}  // namespace

std::string_view to_string(Target target) {
  switch (target) {
    case Target::kTrn1: return "trn1";
    case Target::kTrn2: return "trn2";
    case Target::kInf2: return "inf2";
  }
  return "";
}

std::optional<Target> target_from_name(std::string_view name) {
  for (const Target target : {Target::kTrn1, Target::kTrn2, Target::kInf2}) {
    if (to_string(target) == name) return target;
  }
  return std::nullopt;
}

Phase phase_of(std::string_view graph_name) {
  return graph_name.starts_with("prefill") ? Phase::kPrefill : Phase::kDecode;
}

Result<std::vector<std::string>> split_flags(std::string_view text) {
  std::vector<std::string> words;
  char quote = '\0';
  bool in_word = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_blank = quote == '\0' && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n');
    if (is_blank) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (text[i] == quote) {
      quote = '\0';
    } else if (quote == '\0' && (text[i] == '\'' || text[i] == '"')) {
      quote = text[i];
    } else if (text[i] == '\\' && quote != '\'' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else {
      words.back() += text[i];
    }
  }
  if (quote == '\0') return words;
  return invalid(
      fmt::format("cannot read the compiler's flags \"{}\": found a {} that is not closed; close it", text, quote));
}

std::vector<std::string> compiler_flags(const CompilerOptions& options, Phase phase) {
  const std::vector<std::string>& own = phase == Phase::kPrefill ? options.prefill_flags : options.decode_flags;
  std::vector<std::string> flags = default_flags(options.target, phase);
  std::erase_if(flags, [&](const std::string& word) { return has(own, name_of(word)); });
  flags.insert(flags.end(), own.begin(), own.end());
  return flags;
}

Result<void> CompilerOptions::validate() const {
  if (deadline <= Duration::zero()) {
    return invalid(fmt::format("cannot compile within {} s, expected a positive deadline", to_seconds(deadline)));
  }
  if (program.empty()) return invalid("cannot compile: found no program, expected neuronx-cc or a path to it");
  LOCKSTEP_TRY_VOID(check_flags(prefill_flags, "--neuron-cc-flags-prefill"));
  LOCKSTEP_TRY_VOID(check_flags(decode_flags, "--neuron-cc-flags-decode"));
  const int prefill = cores_in(compiler_flags(*this, Phase::kPrefill));
  const int decode = cores_in(compiler_flags(*this, Phase::kDecode));
  const int most = target == Target::kTrn2 ? 2 : 1;
  if (prefill == decode && prefill >= 1 && prefill <= most) return ok();
  return invalid(fmt::format(
      "--lnc: found {} for prefill and {} for decode, expected {} for both; {}",
      value_of(compiler_flags(*this, Phase::kPrefill), "--lnc"),
      value_of(compiler_flags(*this, Phase::kDecode), "--lnc"), most == 2 ? "1 or 2" : "none or 1",
      most == 2 ? "give both phases the same" : fmt::format("cores of {} are not joined", to_string(target))));
}

int CompilerOptions::cores_per_logical_core() const { return cores_in(compiler_flags(*this, Phase::kDecode)); }

}  // namespace lockstep::neuron
