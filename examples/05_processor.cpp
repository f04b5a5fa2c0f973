// A custom logits processor, which excludes tokens with digits: 05_processor MODEL
#include <lockstep/engine.h>

#include <cmath>
#include <cstdio>

using namespace lockstep;

struct NoDigits final : LogitsProcessor {
  explicit NoDigits(std::vector<int32_t> ids) : digits(std::move(ids)) {}
  void process(std::span<const int32_t>, std::span<float> scores) const override {
    for (const int32_t id : digits) scores[static_cast<size_t>(id)] = -INFINITY;
  }
  const std::vector<int32_t> digits;
};

Result<void> run(const char* directory) {
  LOCKSTEP_TRY(const auto group, Group::threads(2));
  LOCKSTEP_TRY(const Model model, Model::open(directory));
  LOCKSTEP_TRY(const auto engine, Engine::open(*group, model, {.capacity = 64}));
  LOCKSTEP_TRY(const auto ids, model.encode("1 2 3"));
  LOCKSTEP_TRY(const auto digits, model.encode("0123456789"));
  Request request{.prompt = {ids}, .config = model.generation(), .processors = {std::make_shared<NoDigits>(digits)}};
  LOCKSTEP_TRY(RequestHandle handle, engine->submit(request));
  LOCKSTEP_TRY(const auto answers, handle.wait());
  std::puts(answers[0].text.c_str());
  return engine->close();
}

int main(int, char** argv) { return run(argv[1]).has_value() ? 0 : 1; }
