// The seam to xgrammar: its exceptions become our errors here.
#include "runtime/constraint/grammar.h"

#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

namespace lockstep::constraint {
namespace {

constexpr size_t kMostVocabularies = 8;      // with different special tokens as text
constexpr int kMostRecursion = 512;          // of xgrammar's parsers, on the caller's stack
constexpr size_t kMostGrammar = 512 * 1024;  // bytes of a constraint's grammar in EBNF

/// xgrammar's messages begin with a time and a file of its sources: "[12:00:01] …/grammar.cc:10: ".
std::string_view without_place(std::string_view what) {
  const size_t place = what.find(".cc:");
  if (!what.starts_with('[') || place == std::string_view::npos) return what;
  const size_t text = what.find(": ", place + 1);
  return text == std::string_view::npos ? what : what.substr(text + 2);
}

Error refused(std::string_view what) {
  what = without_place(what);
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

class GrammarMatch final : public TokenMatcher {
 public:
  explicit GrammarMatch(xgrammar::GrammarMatcher matcher) : matcher_(std::move(matcher)) {}

  Result<void> fill(std::span<int32_t> bits) override {
    int64_t shape = std::ssize(bits);
    DLTensor tensor{.data = bits.data(),
                    .device = {kDLCPU, 0},
                    .ndim = 1,
                    .dtype = xgrammar::GetBitmaskDLType(),
                    .shape = &shape,
                    .strides = nullptr,
                    .byte_offset = 0};
    std::ranges::fill(bits, -1);
    LOCKSTEP_TRY(const bool limits, guarded(dead_end, [&] { return matcher_.FillNextTokenBitmask(&tensor); }));
    static_cast<void>(limits);  // without limits every bit is set
    return ok();
  }

  Result<void> accept(int32_t token) override {
    LOCKSTEP_TRY(const bool accepted, guarded(dead_end, [&] { return matcher_.AcceptToken(token); }));
    if (!accepted) return dead_end(fmt::format("found token {}, expected one that it allows", token));
    return ok();
  }

  bool has_ended() const override { return matcher_.IsTerminated(); }

 private:
  xgrammar::GrammarMatcher matcher_;
};

class CompiledGrammar final : public Grammar {
 public:
  explicit CompiledGrammar(xgrammar::CompiledGrammar grammar) : grammar_(std::move(grammar)) {}

  Result<std::unique_ptr<TokenMatcher>> begin(const std::vector<int32_t>& end_tokens) const override {
    return guarded(refused, [&]() -> std::unique_ptr<TokenMatcher> {
      return std::make_unique<GrammarMatch>(xgrammar::GrammarMatcher(grammar_, end_tokens));
    });
  }

 private:
  xgrammar::CompiledGrammar grammar_;
};

xgrammar::VocabType type_of(TokenTable::Form form) {
  switch (form) {
    case TokenTable::Form::kByteLevel: return xgrammar::VocabType::BYTE_LEVEL;
    case TokenTable::Form::kByteFallback: return xgrammar::VocabType::BYTE_FALLBACK;
    case TokenTable::Form::kRaw: return xgrammar::VocabType::RAW;
  }
  return xgrammar::VocabType::RAW;
}

class Compiling final : public GrammarCompiler {
 public:
  explicit Compiling(TokenTable table) : table_(std::move(table)) {}

  void prepare(const CheckedFormat& format) override { static_cast<void>(info_for(format.literals)); }

  Result<std::unique_ptr<Grammar>> compile(const CheckedFormat& format) override {
    return guarded(refused, [&] { return make(format); });
  }

  size_t vocabulary() const override { return table_.tokens.size(); }

 private:
  std::unique_ptr<Grammar> make(const CheckedFormat& format) {
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
    return std::make_unique<CompiledGrammar>(compiler.CompileGrammar(grammar));
  }

  /// Special tokens are never part of text, except those that the constraint names.
  const xgrammar::TokenizerInfo& info_for(const std::vector<std::string>& literals) {
    std::set<int32_t> named;
    for (const auto& [id, token] : table_.special) {
      const auto has = [&](const std::string& literal) { return literal.find(token) != std::string::npos; };
      if (std::ranges::any_of(literals, has)) named.insert(id);
    }
    const auto found = infos_.find(named);
    if (found != infos_.end()) return found->second;
    if (infos_.size() == kMostVocabularies) infos_.clear();
    std::vector<std::string> tokens = table_.tokens;
    for (const int32_t id : named) tokens[static_cast<size_t>(id)] = table_.special.at(id);
    xgrammar::TokenizerInfo info(tokens, type_of(table_.form), static_cast<int>(tokens.size()));
    return infos_.emplace(named, std::move(info)).first->second;
  }

  const TokenTable table_;
  std::map<std::set<int32_t>, xgrammar::TokenizerInfo> infos_;  // by the special tokens that are text
};

}  // namespace

Result<void> check_build() { return ok(); }

Result<std::unique_ptr<GrammarCompiler>> make_grammar_compiler(TokenTable table) {
  return std::unique_ptr<GrammarCompiler>(std::make_unique<Compiling>(std::move(table)));
}

}  // namespace lockstep::constraint
