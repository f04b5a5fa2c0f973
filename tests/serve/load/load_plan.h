// Load for a server of OpenAI's protocol: which requests, when, and how many at once.
//
//   {"host": "127.0.0.1", "port": 8000, "model": "m", "seed": 1, "deadline_s": 120,
//    "groups": [{"name": "chats", "api": "chat", "streams": 8, "requests": 2, "prompts": ["Hello", …],
//                "max_tokens": 64, "ignore_eos": true, "fields": {"seed": 7}, "turns": ["And then?"]},
//               {"name": "long", "api": "completions", "requests": 3, "poisson_s": 2.0, "prompts": [[5, 9, …]]}]}
//
// A group is closed or open. Closed: each of its `streams` has `requests` conversations, one after another. Open: with
// `interval_s` or `poisson_s`, its `requests` conversations begin at these times, whatever the others do.
// Conversation k has the prompt k mod their number; every turn repeats what was said before it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::load {

enum class LoadApi { kCompletions, kChat };

struct LoadGroup {
  std::string name;
  LoadApi api = LoadApi::kCompletions;
  int streams = 1;                  // of a closed group
  int requests = 1;                 // conversations: of each stream, or of the whole open group
  std::vector<double> starts_s;     // of an open group, since the begin of the load; empty: it is closed
  double start_s = 0.0;             // of a closed group
  std::vector<std::string> bodies;  // of first turns, as JSON texts
  std::vector<std::string> turns;   // texts of the user after the first answer
};

struct LoadPlan {
  std::string host;
  uint16_t port = 0;
  double deadline_s = 120.0;  // of the whole load
  std::vector<LoadGroup> groups;

  static Result<LoadPlan> parse(std::string_view text);
};

/// Begins of `count` conversations with exponential gaps of this mean; the same in every run and on every machine.
std::vector<double> poisson_starts(int count, double mean_gap_s, double first_s, uint64_t seed);

/// The body of the next turn: that of the last one, the answer to it and the user's next text.
std::string next_body(LoadApi api, const std::string& body, const std::string& answer, const std::string& text);

}  // namespace lockstep::load
