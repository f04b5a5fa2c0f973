// The seam to xgrammar: its exceptions become our errors here.
#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "runtime/constraint/constraint.h"
#include "runtime/constraint/format.h"

namespace lockstep::constraint {
namespace {

constexpr size_t kMostKept = 64;             // compiled constraints
constexpr size_t kMostVocabularies = 8;      // with different special tokens as text
constexpr int kMostRecursion = 512;          // of xgrammar's parsers, on the caller's stack
constexpr size_t kMostGrammar = 512 * 1024;  // bytes of a constraint's grammar in EBNF

Error refused(std::string_view what) {
  return {ErrorKind::kInvalidArgument, fmt::format("[runtime/constraint] cannot compile the constraint: {}", what)};
}

Error dead_end(std::string_view what) {
  return {ErrorKind::kFailedPrecondition, fmt::format("[runtime/constraint] the constraint cannot go on: {}", what)};
}

/// Runs `call` of xgrammar, whose exceptions are about its input.
template <typename Call>
auto guarded(Error (*to_error)(std::string_view), const Call& call) -> Result<decltype(call())> {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kResourceExhausted,
                 "[runtime/constraint] cannot compile the constraint: out of memory; make it smaller"};
  } catch (const std::exception& failure) {
    return to_error(failure.what());
  }
}

class GrammarMatch final : public Matcher {
 public:
  explicit GrammarMatch(xgrammar::GrammarMatcher matcher, int64_t vocabulary)
      : matcher_(std::move(matcher)), bits_(static_cast<size_t>((vocabulary + 31) / 32)) {}

  Result<void> mask(std::span<float> scores) override {
    if (!is_fresh_) {
      LOCKSTEP_TRY_VOID(fill());
    }
    const auto excluded = [&](size_t id) { return (static_cast<uint32_t>(bits_[id / 32]) >> (id % 32) & 1) == 0; };
    bool any = false;
    for (size_t id = 0; id < scores.size(); ++id) {
      if (id / 32 >= bits_.size() || excluded(id)) scores[id] = -std::numeric_limits<float>::infinity();
      any |= scores[id] > -std::numeric_limits<float>::infinity();
    }
    if (any) return ok();
    return dead_end("found no token that may follow, expected at least one; relax the constraint or the other options");
  }

  Result<void> accept(int32_t token) override {
    LOCKSTEP_TRY(const bool accepted, guarded(dead_end, [&] { return matcher_.AcceptToken(token); }));
    is_fresh_ = false;
    if (!accepted) return dead_end(fmt::format("found token {}, expected one that it allows", token));
    return ok();
  }

  bool has_ended() const override { return matcher_.IsTerminated(); }

 private:
  Result<void> fill() {
    int64_t shape = static_cast<int64_t>(bits_.size());
    DLTensor tensor{.data = bits_.data(),
                    .device = {kDLCPU, 0},
                    .ndim = 1,
                    .dtype = xgrammar::GetBitmaskDLType(),
                    .shape = &shape,
                    .strides = nullptr,
                    .byte_offset = 0};
    std::ranges::fill(bits_, -1);
    LOCKSTEP_TRY(const bool limits, guarded(dead_end, [&] { return matcher_.FillNextTokenBitmask(&tensor); }));
    static_cast<void>(limits);  // without limits every bit is set
    is_fresh_ = true;
    return ok();
  }

  xgrammar::GrammarMatcher matcher_;
  std::vector<int32_t> bits_;  // [V / 32] one bit per token
  bool is_fresh_ = false;
};

class CompiledConstraint final : public Constraint {
 public:
  CompiledConstraint(xgrammar::CompiledGrammar grammar, int64_t vocabulary)
      : grammar_(std::move(grammar)), vocabulary_(vocabulary) {}

  Result<std::unique_ptr<Matcher>> begin(const std::vector<int32_t>& end_tokens) const override {
    if (end_tokens.empty()) return refused("found no end token, expected one; set eos_token_id");
    return guarded(refused, [&]() -> std::unique_ptr<Matcher> {
      return std::make_unique<GrammarMatch>(xgrammar::GrammarMatcher(grammar_, end_tokens), vocabulary_);
    });
  }

 private:
  xgrammar::CompiledGrammar grammar_;
  int64_t vocabulary_;
};

/// The stored form of tokens, which tells how they encode bytes.
xgrammar::VocabType type_of(const text::Tokenizer& tokenizer) {
  if (tokenizer.id_of("Ġ")) return xgrammar::VocabType::BYTE_LEVEL;
  if (tokenizer.id_of("<0x0A>")) return xgrammar::VocabType::BYTE_FALLBACK;
  return xgrammar::VocabType::RAW;
}

class GrammarCompiling final : public Compiler {
 public:
  GrammarCompiling(const text::Tokenizer& tokenizer, int64_t vocabulary)
      : type_(type_of(tokenizer)), tokens_(static_cast<size_t>(vocabulary)), vocabulary_(vocabulary) {
    const auto known = std::min<int64_t>(vocabulary, tokenizer.vocabulary());
    for (int32_t id = 0; id < known; ++id) {
      auto token = tokenizer.token_of(id);
      if (!token || token->empty()) continue;
      if (tokenizer.is_special(id)) {
        special_.emplace(id, *std::move(token));
      } else {
        tokens_[static_cast<size_t>(id)] = *std::move(token);
      }
    }
  }

  Result<std::shared_ptr<const Constraint>> compile(std::string_view json) override {
    LOCKSTEP_TRY(const CheckedFormat format, check_format(json));
    const std::lock_guard lock(mutex_);
    for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
      if (kept->first != json) continue;
      kept_.splice(kept_.begin(), kept_, kept);
      return kept->second;
    }
    LOCKSTEP_TRY(auto made, guarded(refused, [&] { return make(format); }));
    kept_.emplace_front(std::string(json), made);
    if (kept_.size() > kMostKept) kept_.pop_back();
    return made;
  }

 private:
  std::shared_ptr<const Constraint> make(const CheckedFormat& format) {
    xgrammar::SetMaxRecursionDepth(kMostRecursion);
    const xgrammar::TokenizerInfo& info = info_for(format.literals);
    auto parsed = xgrammar::Grammar::FromStructuralTag(format.structural_tag, info);
    if (auto* error = std::get_if<xgrammar::StructuralTagError>(&parsed)) {
      throw std::runtime_error(std::visit([](const auto& e) { return std::string(e.what()); }, *error));
    }
    const auto& grammar = std::get<xgrammar::Grammar>(parsed);
    const size_t size = grammar.ToString().size();
    if (size > kMostGrammar) {
      throw std::runtime_error(
          fmt::format("found a grammar of {} bytes, expected at most {}; make it smaller", size, kMostGrammar));
    }
    xgrammar::GrammarCompiler compiler(info, /*max_threads=*/1, /*cache_enabled=*/false);
    return std::make_shared<const CompiledConstraint>(compiler.CompileGrammar(grammar), vocabulary_);
  }

  /// Special tokens are never part of text, except those that the constraint names.
  const xgrammar::TokenizerInfo& info_for(const std::vector<std::string>& literals) {
    std::set<int32_t> named;
    for (const auto& [id, token] : special_) {
      const auto has = [&](const std::string& literal) { return literal.find(token) != std::string::npos; };
      if (std::ranges::any_of(literals, has)) named.insert(id);
    }
    const auto found = infos_.find(named);
    if (found != infos_.end()) return found->second;
    if (infos_.size() == kMostVocabularies) infos_.clear();
    std::vector<std::string> tokens = tokens_;
    for (const int32_t id : named) tokens[static_cast<size_t>(id)] = special_.at(id);
    return infos_.emplace(named, xgrammar::TokenizerInfo(tokens, type_, static_cast<int>(vocabulary_))).first->second;
  }

  const xgrammar::VocabType type_;
  std::vector<std::string> tokens_;  // [V] stored forms; empty: never allowed
  std::map<int32_t, std::string> special_;
  const int64_t vocabulary_;
  std::mutex mutex_;                                                           // guards the fields below
  std::map<std::set<int32_t>, xgrammar::TokenizerInfo> infos_;                 // by the special tokens that are text
  std::list<std::pair<std::string, std::shared_ptr<const Constraint>>> kept_;  // by text, latest first
};

}  // namespace

Result<std::unique_ptr<Compiler>> make_compiler(const text::Tokenizer& tokenizer, int64_t vocabulary) {
  return std::unique_ptr<Compiler>(std::make_unique<GrammarCompiling>(tokenizer, vocabulary));
}

}  // namespace lockstep::constraint
