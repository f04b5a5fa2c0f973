// Three concurrent prompts with streamed tokens; the last one is cancelled: 03_streaming MODEL
#include <lockstep/engine.h>

#include <cstdio>

using namespace lockstep;

Result<void> run(const char* directory) {
  LOCKSTEP_TRY(const auto group, Group::threads(2));
  LOCKSTEP_TRY(const Model model, Model::open(directory));
  LOCKSTEP_TRY(const auto engine, Engine::open(*group, model, {.capacity = 64}));
  std::vector<RequestHandle> handles;
  for (const char* text : {"One", "Two", "Three"}) {
    const auto show = [text](const Token& token) {
      std::printf("%s: %.*s\n", text, static_cast<int>(token.text.size()), token.text.data());
      return Verdict::kContinue;
    };
    LOCKSTEP_TRY(const std::vector<int32_t> ids, model.encode(text));
    LOCKSTEP_TRY(const RequestHandle handle,
                 engine->submit({.prompt = {ids}, .config = model.generation(), .on_token = show}));
    handles.push_back(handle);
  }
  handles.back().cancel();
  return engine->close();
}

int main(int, char** argv) { return run(argv[1]).has_value() ? 0 : 1; }
