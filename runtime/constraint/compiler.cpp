// Constraints that are compiled and applied in this process.
#include <mutex>
#include <utility>

#include "runtime/constraint/constraint.h"
#include "runtime/constraint/format.h"
#include "runtime/constraint/grammar.h"
#include "runtime/constraint/kept_constraints.h"

namespace lockstep::constraint {
namespace {

constexpr size_t kMostKept = 64;

class LocalMatcher final : public Matcher {
 public:
  LocalMatcher(std::unique_ptr<TokenMatcher> matcher, size_t vocabulary)
      : matcher_(std::move(matcher)), bits_(mask_words(vocabulary)) {}

  Result<void> mask(std::span<float> scores) override {
    if (!is_fresh_) {
      LOCKSTEP_TRY_VOID(matcher_->fill(bits_));
    }
    is_fresh_ = true;
    return apply_mask(bits_, scores);
  }

  Result<void> accept(int32_t token) override {
    is_fresh_ = false;
    return matcher_->accept(token);
  }

  bool has_ended() const override { return matcher_->has_ended(); }

 private:
  std::unique_ptr<TokenMatcher> matcher_;
  std::vector<int32_t> bits_;
  bool is_fresh_ = false;  // the bits are those of the next token
};

class LocalConstraint final : public Constraint {
 public:
  LocalConstraint(std::unique_ptr<Grammar> grammar, size_t vocabulary)
      : grammar_(std::move(grammar)), vocabulary_(vocabulary) {}

  Result<std::unique_ptr<Matcher>> begin(const std::vector<int32_t>& end_tokens) const override {
    LOCKSTEP_TRY_VOID(check_end_tokens(end_tokens));
    LOCKSTEP_TRY(std::unique_ptr<TokenMatcher> matcher, grammar_->begin(end_tokens));
    return std::unique_ptr<Matcher>(std::make_unique<LocalMatcher>(std::move(matcher), vocabulary_));
  }

 private:
  const std::unique_ptr<Grammar> grammar_;
  const size_t vocabulary_;
};

class LocalCompiler final : public Compiler {
 public:
  explicit LocalCompiler(std::unique_ptr<GrammarCompiler> compiler) : compiler_(std::move(compiler)) {}

  Result<std::shared_ptr<const Constraint>> compile(std::string_view json) override {
    LOCKSTEP_TRY(const CheckedFormat format, check_format(json));
    const std::lock_guard lock(mutex_);
    if (auto kept = kept_.find(json)) return std::shared_ptr<const Constraint>(kept);
    LOCKSTEP_TRY(std::unique_ptr<Grammar> grammar, compile_and_try(*compiler_, format));
    const auto made = std::make_shared<const LocalConstraint>(std::move(grammar), compiler_->vocabulary());
    kept_.keep(json, made);
    return std::shared_ptr<const Constraint>(made);
  }

 private:
  std::mutex mutex_;
  const std::unique_ptr<GrammarCompiler> compiler_;  // guarded
  KeptConstraints<LocalConstraint> kept_{kMostKept};
};

}  // namespace

Result<std::unique_ptr<Compiler>> make_compiler(const text::Tokenizer& tokenizer, int64_t vocabulary) {
  LOCKSTEP_TRY(auto compiler, make_grammar_compiler(token_table(tokenizer, vocabulary)));
  return std::unique_ptr<Compiler>(std::make_unique<LocalCompiler>(std::move(compiler)));
}

}  // namespace lockstep::constraint
