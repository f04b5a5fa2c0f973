// Reads one call, or one list of calls, behind an opening.
//
//   opening ─► prelude ─┬─ "{" ──────────────────► object ─────► end
//              (blank,  ├─ "[" ─► list:            object , … ─► end
//               or name)└─ name "{", or a tag ">" ► arguments ──► end
#pragma once

#include <optional>
#include <string>

#include "launcher/serve/output/call_object.h"
#include "launcher/serve/output/call_syntax.h"
#include "launcher/serve/output/gemma_arguments.h"
#include "launcher/serve/output/parameter_types.h"
#include "launcher/serve/output/pieces.h"
#include "launcher/serve/output/xml_arguments.h"

namespace lockstep::serve {

class CallSection {
 public:
  enum class State {
    kMore,
    kComplete,
    kFailed,  // what `unread` holds, the byte included, is no call
  };

  /// `opening` is what was read before the section. The other arguments outlive it.
  CallSection(const CallSyntax& syntax, const ParameterTypes& types, PieceCollector& out, std::string opening);

  State put(char byte);
  /// No byte follows. `kFailed` as in `put`.
  State finish();
  bool has_begun() const { return calls_ > 0; }
  /// The text since the last call; it begins with the opening while there is no call.
  const std::string& unread() const { return unread_; }
  size_t opening_size() const { return opening_size_; }

 private:
  enum class Phase { kPrelude, kObject, kArguments, kBetween };

  State put_prelude(char byte);
  State put_xml_prelude(char byte);
  State begin_arguments(char byte);
  State put_object(char byte);
  State put_arguments(char byte);
  State put_between(char byte);
  State begin_object(char byte);
  State fail(char byte);
  void note_call();

  const CallSyntax& syntax_;
  PieceCollector& out_;
  Phase phase_ = Phase::kPrelude;
  std::string unread_;
  size_t opening_size_;
  std::string prelude_;
  bool in_list_ = false;
  int calls_ = 0;
  bool call_open_ = false;
  std::optional<CallObject> object_;
  JsonScanner arguments_;
  GemmaArguments escaped_;
  XmlArguments xml_;
};

}  // namespace lockstep::serve
