#include "runtime/text/model.h"

namespace lockstep::text {

Result<std::unique_ptr<Model>> parse_model(const JsonField& field, const MergeTables* tables) {
  // Older files have no type; they hold BPE if they have merges.
  LOCKSTEP_TRY(const std::string type, field.string_or("type", field.find("merges") ? "BPE" : "none"));
  if (type == "BPE") return parse_bpe(field, tables);
  if (tables != nullptr) return field.unsupported(fmt::format("merges for the model \"{}\"", type), "BPE");
  if (type == "Unigram") return parse_unigram(field);
  return field.unsupported(fmt::format("the model \"{}\"", type), "BPE, Unigram");
}

}  // namespace lockstep::text
