// Builds a conversation from items that other protocols send one by one: texts, calls, results, reasoning.
//
//   reasoning, text, call, call   ─►  one assistant message with reasoning_content, content, tool_calls
//   result                        ─►  a tool message with the name of the function that was called
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/api/body_field.h"
#include "runtime/text/chat_template.h"

namespace lockstep::serve {

class Conversation {
 public:
  Conversation();
  ~Conversation();

  /// A text. System messages at the beginning become one, because many templates know one only.
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

  std::vector<Turn> turns_;
  std::map<std::string, std::string> names_;  // of called functions, by the call's id
  std::string reasoning_;
};

}  // namespace lockstep::serve
