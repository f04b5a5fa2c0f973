// The data of server-sent events, from a stream that is cut anywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::load {

class EventReader {
 public:
  /// The data of each event that `bytes` completes; the lines of an event are joined by "\n". Comments, other fields
  /// and events without data give nothing. Lines end with "\n" or "\r\n".
  std::vector<std::string> put(std::string_view bytes);

 private:
  void take_line(std::string_view line, std::vector<std::string>& events);

  std::string line_;  // the incomplete last one
  std::string data_;
  bool has_data_ = false;
};

/// What one event of a streamed completion or chat says.
struct StreamEvent {
  std::string text;            // of the answer, reasoning and tool calls included
  bool is_end = false;         // [DONE]
  int completion_tokens = -1;  // of usage; −1: it has none
  int prompt_tokens = -1;      // likewise
  int cached_tokens = 0;       // likewise
  std::string error;           // its message
};

/// Never fails: what is not JSON is an event with an error.
StreamEvent read_event(std::string_view data);

}  // namespace lockstep::load
