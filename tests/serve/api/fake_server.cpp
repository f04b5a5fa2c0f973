#include "tests/serve/api/fake_server.h"

#include <fstream>

#include "runtime/core/check.h"
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
  LOCKSTEP_CHECK(at == stream.size(), stream.substr(at));  // bytes behind the last event
  return events;
}

void write_file(const std::filesystem::path& path, std::string_view text) { std::ofstream(path) << text; }

void write_tiny_model(const std::filesystem::path& directory) {
  write_file(directory / "tokenizer.json", tokenizer_json());
  write_file(directory / "tokenizer_config.json",
             Document{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", kTemplate}}.dump());
  write_file(directory / "generation_config.json", R"({"eos_token_id": 257})");
}

}  // namespace lockstep::serve
