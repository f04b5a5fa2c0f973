// Builds a conversation from items that other protocols send one by one: texts, calls, results, reasoning.
//
//   reasoning, text, call, call   ─►  one assistant message with reasoning_content, content, tool_calls
//   result                        ─►  a tool message with the name of the function that was called
//   text of the user, text        ─►  a user message each, or one, as the protocol has it
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/api/body_field.h"
#include "runtime/text/chat_template.h"

namespace lockstep::serve {

/// What becomes of a user's text that does not follow an assistant's message.
enum class UserTexts {
  kSeparate,         // a message of its own
  kJoined,           // part of the user's message before it
  kJoinedToResults,  // the same, and part of a tool's result before it
};

class Conversation {
 public:
  explicit Conversation(UserTexts user_texts);
  ~Conversation();

  /// A text. System messages at the beginning become one, because many templates know one only; so do texts of the
  /// assistant in a row.
  void add_text(std::string_view role, std::string_view text);
  /// Part of the assistant's current message. `arguments`: an object, or text that is no JSON.
  void add_call(const std::string& id, const std::string& name, const Json& arguments);
  void add_result(const std::string& id, std::string_view text);
  /// Belongs to the assistant's message that follows.
  void add_reasoning(std::string_view text);

  bool empty() const;
  /// Whether the last message is an assistant's text, which an answer can continue.
  bool ends_with_text_of_assistant() const;
  std::vector<text::Message> take();

 private:
  struct Turn;
  Turn& assistant();
  bool joins_last(std::string_view role) const;

  UserTexts user_texts_;
  std::vector<Turn> turns_;
  std::map<std::string, std::string> names_;  // of called functions, by the call's id
  std::string reasoning_;
};

}  // namespace lockstep::serve
