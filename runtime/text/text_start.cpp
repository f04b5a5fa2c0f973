#include "runtime/text/text_start.h"

#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

constexpr int kMaxNesting = 16;

/// Calls `check` with every component of `field`, which may be a Sequence with the list `parts`.
template <typename Check>
Result<void> for_each_component(const JsonField& field, std::string_view parts, Check check, int depth = 0) {
  if (depth > kMaxNesting) return ok();  // the parser of the stage refuses it
  const auto list = field.find(parts);
  if (!list) return check(field);
  LOCKSTEP_TRY(const auto elements, list->elements());
  for (const JsonField& element : elements) LOCKSTEP_TRY_VOID(for_each_component(element, parts, check, depth + 1));
  return ok();
}

/// Whether the text behind a match at the beginning begins later than the original. A mark is not added to text that
/// begins with a space or the mark, and a character in place of one character begins where that did.
Result<bool> replace_moves_start(const JsonField& replace, const std::string& mark) {
  LOCKSTEP_TRY(const std::string content, replace.string_or("content", ""));
  if (content.empty()) return true;
  if (content.find(' ') == 0 || content.find(mark) == 0) return false;
  LOCKSTEP_TRY(const JsonField pattern, replace.at("pattern"));
  LOCKSTEP_TRY(const std::string literal, pattern.string_or("String", ""));
  return count_chars(literal) != 1;
}

Result<void> check_normalizer(const JsonField& normalizer, const std::string& mark) {
  LOCKSTEP_TRY(const std::string type, normalizer.string_or("type", ""));
  bool moves = type == "StripAccents";
  if (type == "Strip") {
    LOCKSTEP_TRY(moves, normalizer.boolean_or("strip_left", true));
  } else if (type == "Replace") {
    LOCKSTEP_TRY(moves, replace_moves_start(normalizer, mark));
  }
  if (!moves) return ok();
  return normalizer.unsupported(
      fmt::format("\"{}\", which may remove the beginning of a text, with a Metaspace that marks only it", type),
      "a Metaspace with the prepend_scheme \"always\" or \"never\", a normalizer that keeps the beginning");
}

}  // namespace

Result<void> check_text_start(const JsonField& root) {
  const auto normalizer = root.find("normalizer");
  const auto pre_tokenizer = root.find("pre_tokenizer");
  if (!normalizer || !pre_tokenizer) return ok();
  return for_each_component(*pre_tokenizer, "pretokenizers", [&](const JsonField& component) -> Result<void> {
    LOCKSTEP_TRY(const std::string scheme, component.string_or("prepend_scheme", ""));
    if (scheme != "first") return ok();
    LOCKSTEP_TRY(const std::string mark, component.string_or("replacement", ""));
    return for_each_component(*normalizer, "normalizers",
                              [&](const JsonField& step) { return check_normalizer(step, mark); });
  });
}

}  // namespace lockstep::text
