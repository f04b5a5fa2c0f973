#include "runtime/text/model.h"

#include "runtime/text/unicode.h"

namespace lockstep::text {

Error no_token_for(std::string_view text, std::string_view expected) {
  size_t end = 0;
  next_char(text, end);
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/text] cannot encode: found the character \"{}\", which has no token, expected {}; "
                      "change the text, or check tokenizer.json",
                      text.substr(0, end), expected)};
}

Result<std::unique_ptr<Model>> parse_model(const JsonField& field, const MergeTables* tables) {
  // Older files have no type; they hold BPE if they have merges.
  LOCKSTEP_TRY(const std::string type, field.string_or("type", field.find("merges") ? "BPE" : "none"));
  if (type == "BPE") return parse_bpe(field, tables);
  if (tables != nullptr) return field.unsupported(fmt::format("merges for the model \"{}\"", type), "BPE");
  if (type == "Unigram") return parse_unigram(field);
  return field.unsupported(fmt::format("the model \"{}\"", type), "BPE, Unigram");
}

}  // namespace lockstep::text
