// Two models on the same ranks; one continues the other's answer: mpirun -n 2 06_two_models SMALL LARGE
#include <lockstep/engine.h>

#include <cstdio>

using namespace lockstep;

Result<void> run(const char* small, const char* large) {
  LOCKSTEP_TRY(const auto group, Group::mpi());
  LOCKSTEP_TRY(const Model first, Model::open(small));
  LOCKSTEP_TRY(const Model second, Model::open(large));
  LOCKSTEP_TRY(const auto teller, Engine::open(*group, first, {.slots = 1, .capacity = 64}));
  LOCKSTEP_TRY(const auto writer, Engine::open(*group, second, {.slots = 1, .capacity = 64}));
  if (group->leads()) {
    LOCKSTEP_TRY(const Answer topic, teller->generate("A story about", {{"max_new_tokens", "8"}}));
    LOCKSTEP_TRY(const Answer answer, writer->generate(topic.text, {{"max_new_tokens", "16"}}));
    std::printf("%s | %s\n", topic.text.c_str(), answer.text.c_str());
  }
  for (Engine* engine : {teller.get(), writer.get()}) {
    LOCKSTEP_TRY_VOID(group->leads() ? engine->close() : engine->serve());
  }
  return group->leave();
}

int main(int, char** argv) { return run(argv[1], argv[2]).has_value() ? 0 : 1; }
