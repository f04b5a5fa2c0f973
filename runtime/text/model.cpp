#include "runtime/text/model.h"

namespace lockstep::text {

Result<std::unique_ptr<Model>> parse_model(const JsonField& field) {
  // Files from before the type was written down hold BPE when they have merges.
  LOCKSTEP_TRY(const std::string type, field.string_or("type", field.find("merges") ? "BPE" : "none"));
  if (type == "BPE") return parse_bpe(field);
  if (type == "Unigram") return parse_unigram(field);
  return field.unsupported(fmt::format("the model \"{}\"", type), "BPE, Unigram");
}

}  // namespace lockstep::text
