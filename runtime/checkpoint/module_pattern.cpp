#include "runtime/checkpoint/module_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <utility>

namespace lockstep::checkpoint {
namespace {

constexpr size_t kMaxExpression = 4096;     // bytes
constexpr uint32_t kMatchLimit = 5'000;     // steps of one match
constexpr uint32_t kDepthLimit = 5'000;     // nested steps
constexpr uint32_t kHeapLimit = 16 * 1024;  // KiB

Error bad_expression(std::string_view expression, std::string_view origin, std::string_view found) {
  constexpr size_t kShown = 120;
  return {
      ErrorKind::kUnsupported,
      fmt::format("[runtime/checkpoint] cannot use {}: found the expression \"{}\" {}, expected a regular expression "
                  "for names of modules; correct the file",
                  origin, expression.substr(0, kShown), found)};
}

}  // namespace

struct ModulePattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() {
    pcre2_code_free(code);
    pcre2_match_context_free(limits);
  }
};

ModulePattern::ModulePattern(std::unique_ptr<Code> code, std::string expression, std::string origin)
    : code_(std::move(code)), expression_(std::move(expression)), origin_(std::move(origin)) {}
ModulePattern::ModulePattern(ModulePattern&&) noexcept = default;
ModulePattern& ModulePattern::operator=(ModulePattern&&) noexcept = default;
ModulePattern::~ModulePattern() = default;

Result<ModulePattern> ModulePattern::compile(std::string_view expression, std::string_view origin) {
  if (expression.size() > kMaxExpression) {
    return bad_expression(expression, origin, fmt::format("of {} bytes", expression.size()));
  }
  auto compiled = std::make_unique<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                 PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (compiled->code == nullptr) {
    return bad_expression(expression, origin, fmt::format("that is malformed at byte {}", offset));
  }
  compiled->limits = pcre2_match_context_create(nullptr);
  LOCKSTEP_CHECK(compiled->limits != nullptr, expression);
  pcre2_set_match_limit(compiled->limits, kMatchLimit);
  pcre2_set_depth_limit(compiled->limits, kDepthLimit);
  pcre2_set_heap_limit(compiled->limits, kHeapLimit);
  return ModulePattern(std::move(compiled), std::string(expression), std::string(origin));
}

Result<bool> ModulePattern::matches(std::string_view name) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> found(pcre2_match_data_create(1, nullptr),
                                                                                  &pcre2_match_data_free);
  LOCKSTEP_CHECK(found != nullptr, name);
  const int result = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0, found.get(),
                                 code_->limits);
  if (result >= 0) return true;
  if (result == PCRE2_ERROR_NOMATCH) return false;
  return bad_expression(expression_, origin_, fmt::format("that backtracks too much on \"{}\"", name));
}

}  // namespace lockstep::checkpoint
