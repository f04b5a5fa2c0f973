// An API with a tiny model's text, a scripted engine, and a loop that the test drives (fake_server.h).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/serve/api/api.h"
#include "tests/serve/api/fake_engine.h"
#include "tests/serve/api/fake_server.h"

namespace lockstep::serve {

/// Writes down what the API reports.
class RecordingObserver final : public ApiObserver {
 public:
  std::vector<std::string> lines;
  void on_started(const ApiRequest& request) override;
  void on_first_token(const ApiRequest& request, Duration waited) override;
  void on_tokens(const ApiRequest& request, size_t count, Duration gap) override;
  void on_ended(const ApiRequest& request, const ApiEnd& end) override;
  void on_answered(const ApiRequest& request, int status) override;
};

class ApiTest : public ::testing::Test {
 protected:
  ApiTest();
  ~ApiTest() override;

  /// Makes the API again, with other options or after a change of the model's files.
  void restart();
  /// Sends a request and lets the loop run.
  std::shared_ptr<FakeExchange> send(std::string method, std::string path, std::string body = {});
  std::shared_ptr<FakeExchange> post(std::string path, const Document& body) { return send("POST", path, body.dump()); }
  std::shared_ptr<FakeExchange> complete(const Document& body) { return post("/v1/completions", body); }
  std::shared_ptr<FakeExchange> chat(const Document& body) { return post("/v1/chat/completions", body); }
  void write_file(const char* name, std::string_view text) const;

  std::filesystem::path directory_;
  ManualClock clock_;
  FakeLoop loop_;
  FakeEngine engine_;
  RecordingObserver observer_;
  ApiOptions options_;
  std::unique_ptr<Api> api_;
};

/// A text as ids, without "<s>".
inline std::vector<int32_t> bytes_of(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

/// A conversation of one user message.
inline Document user_says(std::string_view text) { return Document::array({{{"role", "user"}, {"content", text}}}); }

}  // namespace lockstep::serve
