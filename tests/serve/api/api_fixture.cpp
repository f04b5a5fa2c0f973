#include "tests/serve/api/api_fixture.h"

#include <fmt/format.h>

#include <fstream>

#include "runtime/text/byte_level.h"

namespace lockstep::serve {
namespace {

constexpr std::string_view kTemplate =
    "{% for m in messages %}<|turn|>{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}"
    "{% if tools %}<|turn|>tools:{{ tools | tojson }}{% endif %}{{ mood }}"
    "{% if add_generation_prompt %}<|turn|>assistant:{% endif %}";

std::string tokenizer_json() {
  Document vocabulary = Document::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[text::bytes_to_level(std::string(1, static_cast<char>(byte)))] = byte;
  }
  Document added = Document::array();
  for (const auto& [id, token] :
       std::vector<std::pair<int, const char*>>{{256, "<s>"}, {257, "</s>"}, {258, "<|turn|>"}}) {
    added.push_back({{"id", id},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Document post = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", Document::array()},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {256}}, {"tokens", {"<s>"}}}}}}};
  const Document byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Document model = {
      {"type", "BPE"},          {"dropout", nullptr},  {"unk_token", nullptr},       {"fuse_unk", false},
      {"byte_fallback", false}, {"vocab", vocabulary}, {"merges", Document::array()}};
  return Document{
      {"version", "1.0"},       {"added_tokens", added}, {"normalizer", nullptr}, {"pre_tokenizer", byte_level},
      {"post_processor", post}, {"decoder", byte_level}, {"model", model}}
      .dump();
}

}  // namespace

class FakeLoop::Holder final : public Timer {
 public:
  explicit Holder(std::shared_ptr<Alarm> alarm) : alarm_(std::move(alarm)) {}

 private:
  std::shared_ptr<Alarm> alarm_;
};

std::unique_ptr<Timer> FakeLoop::after(Duration delay, std::function<void()> call) {
  auto alarm = std::make_shared<Alarm>(Alarm{clock_.now() + delay, std::move(call)});
  alarms_.push_back(alarm);
  return std::make_unique<Holder>(std::move(alarm));
}

void FakeLoop::run() {
  while (!calls_.empty()) {
    const auto call = std::move(calls_.front());
    calls_.pop_front();
    call();
  }
}

void FakeLoop::advance(Duration by) {
  clock_.advance(by);
  for (const auto& waiting : std::exchange(alarms_, {})) {
    const auto alarm = waiting.lock();
    if (!alarm) continue;
    if (alarm->at <= clock_.now()) {
      const auto call = alarm->call;
      call();
    } else {
      alarms_.push_back(waiting);
    }
  }
  run();
}

std::vector<Document> FakeExchange::events() const {
  std::vector<Document> events;
  size_t at = 0;
  for (size_t end = stream.find("\n\n"); end != std::string::npos; end = stream.find("\n\n", at)) {
    const std::string event = stream.substr(at, end - at);
    at = end + 2;
    if (event == "data: [DONE]") {
      events.emplace_back("[DONE]");
    } else if (event.starts_with("data: ")) {
      events.push_back(Document::parse(event.substr(6)));
    }
  }
  EXPECT_EQ(at, stream.size()) << "bytes behind the last event: " << stream.substr(at);
  return events;
}

void RecordingObserver::on_started(const ApiRequest& r) {
  lines.push_back(fmt::format("started {} {} choices {} prompt {}", r.number, r.endpoint, r.choices, r.prompt_tokens));
}
void RecordingObserver::on_first_token(const ApiRequest& r, Duration waited) {
  lines.push_back(fmt::format("first {} after {}", r.number, to_seconds(waited)));
}
void RecordingObserver::on_tokens(const ApiRequest& r, size_t count, Duration gap) {
  lines.push_back(fmt::format("tokens {} {} gap {}", r.number, count, to_seconds(gap)));
}
void RecordingObserver::on_ended(const ApiRequest& r, const ApiEnd& e) {
  lines.push_back(fmt::format("ended {} {} {} cached {} new {} in {}", r.number, e.status, e.outcome, e.cached_tokens,
                              e.new_tokens, to_seconds(e.duration)));
}
void RecordingObserver::on_answered(std::string_view endpoint, int status) {
  lines.push_back(fmt::format("answered {} {}", endpoint, status));
}

ApiTest::ApiTest()
    : directory_(std::filesystem::path(::testing::TempDir()) /
                 ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
  std::filesystem::create_directories(directory_);
  write_file("tokenizer.json", tokenizer_json());
  write_file("tokenizer_config.json",
             Document{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", kTemplate}}.dump());
  write_file("generation_config.json", R"({"eos_token_id": 257})");
  options_ = {.model = "tiny", .model_directory = directory_, .created = 7};
  options_.unix_time = [] { return 1000; };
  options_.random = [] { return uint64_t{99}; };
  options_.clock = &clock_;
  restart();
}

ApiTest::~ApiTest() {
  loop_.run();
  std::filesystem::remove_all(directory_);
}

void ApiTest::restart() { api_ = Api::make(options_, engine_, loop_, observer_).value(); }

void ApiTest::write_file(const char* name, std::string_view text) const { std::ofstream(directory_ / name) << text; }

std::shared_ptr<FakeExchange> ApiTest::send(std::string method, std::string path, std::string body) {
  auto exchange = std::make_shared<FakeExchange>();
  exchange->sent = {.method = std::move(method),
                    .path = std::move(path),
                    .headers = {{"content-type", "application/json"}},
                    .body = std::move(body),
                    .peer = "127.0.0.1:5000",
                    .id = "r1"};
  EXPECT_TRUE(api_->handle(exchange));
  loop_.run();
  return exchange;
}

}  // namespace lockstep::serve
