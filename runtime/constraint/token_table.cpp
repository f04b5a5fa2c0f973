// The parts of grammar.h that do not depend on xgrammar.
#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/constraint/grammar.h"

namespace lockstep::constraint {
namespace {

/// The stored form of tokens, which tells how they encode bytes.
TokenTable::Form form_of(const text::Tokenizer& tokenizer) {
  if (tokenizer.id_of("Ġ")) return TokenTable::Form::kByteLevel;
  if (tokenizer.id_of("<0x0A>")) return TokenTable::Form::kByteFallback;
  return TokenTable::Form::kRaw;
}

}  // namespace

TokenTable token_table(const text::Tokenizer& tokenizer, int64_t vocabulary) {
  TokenTable table{.form = form_of(tokenizer), .tokens = {}, .special = {}};
  table.tokens.resize(static_cast<size_t>(vocabulary));
  const auto known = std::min<int64_t>(vocabulary, tokenizer.vocabulary());
  for (int32_t id = 0; id < known; ++id) {
    auto token = tokenizer.token_of(id);
    if (!token || token->empty()) continue;
    if (tokenizer.is_special(id)) {
      table.special.emplace(id, *std::move(token));
    } else {
      table.tokens[static_cast<size_t>(id)] = *std::move(token);
    }
  }
  return table;
}

Result<void> check_end_tokens(const std::vector<int32_t>& end_tokens) {
  if (!end_tokens.empty()) return ok();
  return Error{ErrorKind::kInvalidArgument,
               "[runtime/constraint] cannot compile the constraint: found no end token, expected one; set "
               "eos_token_id"};
}

Result<std::unique_ptr<Grammar>> compile_and_try(GrammarCompiler& compiler, const CheckedFormat& format) {
  LOCKSTEP_TRY(std::unique_ptr<Grammar> grammar, compiler.compile(format));
  constexpr int32_t kAnyEndToken = 0;
  LOCKSTEP_TRY(const std::unique_ptr<TokenMatcher> matcher, grammar->begin({kAnyEndToken}));
  std::vector<int32_t> bits(mask_words(compiler.vocabulary()));
  LOCKSTEP_TRY_VOID(matcher->fill(bits));
  if (std::ranges::any_of(bits, [](int32_t word) { return word != 0; })) return grammar;
  return Error{ErrorKind::kInvalidArgument,
               "[runtime/constraint] cannot use the constraint: found one that no answer fits, expected one that some "
               "text of the model's tokens fits; correct it"};
}

Result<void> apply_mask(std::span<const int32_t> bits, std::span<float> scores) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  constexpr uint32_t kAll = ~uint32_t{0};
  bool any = false;
  for (size_t first = 0; first < scores.size(); first += 32) {
    const std::span<float> block = scores.subspan(first, std::min<size_t>(32, scores.size() - first));
    const uint32_t allowed = first / 32 < bits.size() ? static_cast<uint32_t>(bits[first / 32]) : 0;
    if (allowed == 0) {
      std::ranges::fill(block, kNever);
      continue;
    }
    for (size_t bit = 0; allowed != kAll && bit < block.size(); ++bit) {
      if ((allowed >> bit & 1) == 0) block[bit] = kNever;
    }
    any = any || std::ranges::any_of(block, [](float score) { return score > kNever; });
  }
  if (any) return ok();
  return Error{ErrorKind::kFailedPrecondition,
               "[runtime/constraint] the constraint cannot go on: found no token that may follow, expected at least "
               "one; relax the constraint or the other options"};
}

}  // namespace lockstep::constraint
