// Requests with beams to a group of ranks that may die: what each round answers, a line of JSON.
//
//   serve_beams LOCKSTEP MODEL RANKS      a line "begun" once a round's requests are open, which follows each line read
//
// The way of a server's requests (Replicas, LastingEngine) without its HTTP, whose protocols have no beams.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "launcher/process/own_environment.h"
#include "launcher/serve/replicas/replicas.h"

namespace lockstep::serve {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

// Beam search, beams that are sampled, and beams with a chosen end.
const std::vector<Options> kRequests = {
    {{"num_beams", "4"}, {"num_return_sequences", "3"}, {"do_sample", "false"}, {"max_new_tokens", "24"}},
    {{"num_beams", "3"}, {"do_sample", "true"}, {"seed", "7"}, {"temperature", "0.8"}, {"max_new_tokens", "20"}},
    {{"num_beams", "2"},
     {"do_sample", "false"},
     {"length_penalty", "-1.5"},
     {"no_repeat_ngram_size", "3"},
     {"max_new_tokens", "32"}},
};
const std::vector<int32_t> kPrompt = {28120, 3714, 253, 655, 665, 436, 253, 1165};

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

class Rounds;

/// Keeps one request's answers.
class Sink final : public EngineSink {
 public:
  Sink(Rounds& rounds, size_t request) : rounds_(rounds), request_(request) {}
  void on_tokens(std::vector<EngineToken>) override {}
  void on_done(std::vector<EngineAnswer> answers) override;
  void on_failed(const Error& error) override;

 private:
  Rounds& rounds_;
  const size_t request_;
};

/// On the loop's thread.
class Rounds {
 public:
  Rounds(LastingEngine& engine, EventLoop& loop) : engine_(engine), loop_(loop) {}

  void begin() {
    calls_.clear();
    answers_ = nlohmann::json::array();
    answers_.get_ref<nlohmann::json::array_t&>().resize(kRequests.size());
    missing_ = kRequests.size();
    for (size_t i = 0; i < kRequests.size(); ++i) {
      calls_.push_back(engine_.open({.ids = kPrompt, .options = kRequests[i]}, std::make_shared<Sink>(*this, i)));
    }
    say("begun");
  }

  void end(size_t request, nlohmann::json answer) {
    answers_[request] = std::move(answer);
    if (--missing_ > 0) return;
    loop_.post([this] { say(answers_.dump()); });  // not from inside of a call's own event
  }

 private:
  LastingEngine& engine_;
  EventLoop& loop_;
  std::vector<std::unique_ptr<EngineCall>> calls_;
  nlohmann::json answers_;
  size_t missing_ = 0;
};

void Sink::on_done(std::vector<EngineAnswer> answers) {
  nlohmann::json all = nlohmann::json::array();
  for (const EngineAnswer& answer : answers) all.push_back({{"ids", answer.ids}, {"reason", answer.reason}});
  rounds_.end(request_, std::move(all));
}

void Sink::on_failed(const Error& error) { rounds_.end(request_, {{"failed", error.message}}); }

int run(const std::string& program, const std::string& model, int ranks) {
  const Log log([](LogLevel, std::string_view line) { fmt::print(stderr, "[serve] {}\n", line); });
  const auto loop = make_loop(&log);
  const SteadyClock clock;
  LastingEngine engine(clock);
  const ReplicaOptions options{.ranks = ranks,
                               .max_restarts = 50,
                               .silence_s = 60.0,
                               .engine = {program, "engine", "--model", model, "--launch", "processes", "--threads",
                                          "1", "--max-seq-len", "128", "--batch-size", "9", "--silence-s", "60"}};
  process::EnvironmentMap environment = launcher::own_environment();
  environment["LOCKSTEP_RANK"] = "0";
  Rounds rounds(engine, *loop);
  std::thread reader;
  const auto read_lines = [&] {
    for (std::string line; std::getline(std::cin, line);) loop->post([&] { rounds.begin(); });
    loop->post([&] { loop->stop(); });
  };
  Replicas replicas({options, environment, *loop, engine, log},
                    {.on_ready =
                         [&] {
                           say("ready");
                           reader = std::thread(read_lines);
                         },
                     .on_serving = [](size_t) {},
                     .on_lost = [&](size_t, const Error& error, bool) { log.error("{}", error.message); },
                     .on_over = [&](const Error& error) { log.error("over: {}", error.message); },
                     .on_finished = [](const Result<void>&) {}});
  const Result<void> started = replicas.start();
  if (!started.has_value()) return 1;
  loop->run();
  reader.join();
  engine.close();
  replicas.close();
  return 0;
}

}  // namespace
}  // namespace lockstep::serve

int main(int count, char** words) {
  if (count != 4) return 2;
  return lockstep::serve::run(words[1], words[2], std::atoi(words[3]));
}
