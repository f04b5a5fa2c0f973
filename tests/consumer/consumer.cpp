#include <lockstep/engine.h>
#include <cstdio>
using namespace lockstep;
Result<void> run(const char* directory) {
  LOCKSTEP_TRY(const auto group, Group::threads(2));
  LOCKSTEP_TRY(const Model model, Model::open(directory));
  LOCKSTEP_TRY(const auto engine, Engine::open(*group, model));
  LOCKSTEP_TRY(const Answer answer, engine->generate("Once upon a time", {{"max_new_tokens", "24"}}));
  std::puts(answer.text.c_str());
  return engine->close();
}
int main(int, char** argv) { return run(argv[1]).has_value() ? 0 : 1; }
