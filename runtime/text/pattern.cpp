#include "runtime/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "runtime/text/expression.h"
#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

constexpr size_t kMaxExpression = 64 * 1024;    // bytes
constexpr size_t kMaxStack = size_t{32} << 20;  // of the just-in-time code, bytes
constexpr uint32_t kMatchLimit = 100'000'000;   // steps of one search
constexpr uint32_t kCompileOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

std::vector<Span> find_literal(std::string_view needle, std::string_view text) {
  std::vector<Span> found;
  if (needle.empty()) return found;
  for (size_t at = text.find(needle); at != std::string_view::npos; at = text.find(needle, at + needle.size())) {
    found.push_back({at, at + needle.size()});
  }
  return found;
}

}  // namespace

struct Pattern::Code {
  static Result<std::unique_ptr<Code>> compile(std::string_view expression, UnicodeVersion version);

  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Pattern::Pattern() = default;
Pattern::~Pattern() = default;

Result<std::unique_ptr<Pattern::Code>> Pattern::Code::compile(std::string_view expression, UnicodeVersion version) {
  LOCKSTEP_TRY(const std::string translated, to_pcre2(expression, version));
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_unique<Code>();
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), kCompileOptions,
                                 &error, &offset, nullptr);
  if (compiled->code == nullptr) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/text] cannot compile the expression {}: found {} near byte {}, expected PCRE2 "
                             "syntax; check tokenizer.json",
                             expression, message_of(error), offset)};
  }
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);  // if it fails, matching is only slower
  return compiled;
}

Result<std::shared_ptr<const Pattern>> Pattern::compile(std::string_view expression) {
  if (expression.size() > kMaxExpression) {
    return Error{ErrorKind::kUnsupported, fmt::format("[runtime/text] cannot compile an expression: found {} bytes, "
                                                      "expected at most {}; check tokenizer.json",
                                                      expression.size(), kMaxExpression)};
  }
  LOCKSTEP_TRY(auto code, Code::compile(expression, UnicodeVersion::k14));
  LOCKSTEP_TRY(auto newer, Code::compile(expression, UnicodeVersion::kNewer));
  std::shared_ptr<Pattern> pattern(new Pattern);
  pattern->code_ = std::move(code);
  pattern->newer_ = std::move(newer);
  return std::shared_ptr<const Pattern>(std::move(pattern));
}

std::shared_ptr<const Pattern> Pattern::literal(std::string_view text) {
  std::shared_ptr<Pattern> pattern(new Pattern);
  pattern->literal_ = text;
  return pattern;
}

struct Pattern::Matcher::Memory {
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;

  Memory()
      : match(pcre2_match_data_create(1, nullptr)),  // the bounds of the whole match
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(32 * 1024, kMaxStack, nullptr)) {
    LOCKSTEP_CHECK(match != nullptr && context != nullptr);
    pcre2_set_match_limit(context, kMatchLimit);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Memory() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }
};

Pattern::Matcher::Matcher(const Pattern& pattern)
    : pattern_(&pattern), memory_(pattern.code_ ? std::make_unique<Memory>() : nullptr) {}
Pattern::Matcher::~Matcher() = default;

Result<std::vector<Span>> Pattern::Matcher::find_all(std::string_view text) {
  if (!memory_) return find_literal(pattern_->literal_, text);
  const pcre2_code* code = has_new_chars(text) ? pattern_->newer_->code : pattern_->code_->code;
  std::vector<Span> found;
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(memory_->match);
  for (size_t at = 0; at <= text.size();) {
    const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, PCRE2_NO_UTF_CHECK,
                                  memory_->match, memory_->context);
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0) {
      return Error{ErrorKind::kResourceExhausted,
                   fmt::format("[runtime/text] cannot split text of {} bytes: found {} at byte {}, expected an "
                               "expression that backtracks little; shorten the text",
                               text.size(), message_of(count), at)};
    }
    const Span span{bounds[0], std::max(bounds[0], bounds[1])};  // \K in a look-ahead may put the start after the end
    const bool empty = span.begin == span.end;
    // An empty match right after the previous one is ignored; the search continues one character later.
    if (!empty || found.empty() || found.back().end != span.end) found.push_back(span);
    at = span.end;
    if (empty) {
      if (at >= text.size()) break;
      next_char(text, at);
    }
  }
  return found;
}

}  // namespace lockstep::text
