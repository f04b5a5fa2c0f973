"""The clients that people use, unchanged, against `lockstep serve`: openai, anthropic and llm-comply.

    clients_test.py PROGRAM MODEL RANKS…        run by the Python of .venv-clients
"""
import json
import pathlib
import subprocess
import sys
import unittest

import anthropic
import openai

import served

PROGRAM = MODEL = RANKS = None
WEATHER = {"name": "get_weather", "description": "Weather of a city.",
           "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 16}},
                          "required": ["city"], "additionalProperties": False}}


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = served.Served(PROGRAM, MODEL, "--tp", RANKS, "--threads", 1, "--batch-size", 4, "--max-seq-len", 512)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.openai = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", max_retries=0, timeout=served.DEADLINE)
        cls.anthropic = anthropic.Anthropic(base_url=cls.server.url, api_key="none", max_retries=0, timeout=served.DEADLINE)
        cls.model = cls.openai.models.list().data[0].id

    def chat(self, text="Say hello.", **more):
        return self.openai.chat.completions.create(model=self.model, messages=[{"role": "user", "content": text}],
                                                   **{"max_tokens": 12, "temperature": 0, **more})

    def test_openai_chats(self):
        answer = self.chat()
        self.assertTrue(answer.choices[0].message.content)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_openai_streams_the_same_text(self):
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, self.chat().choices[0].message.content)
        self.assertEqual((chunks[-1].choices, chunks[-1].usage.completion_tokens > 0), ([], True))

    def test_openai_gets_log_probabilities(self):
        answer = self.chat(logprobs=True, top_logprobs=4)
        content = answer.choices[0].logprobs.content
        self.assertEqual(len(content), answer.usage.completion_tokens - (answer.choices[0].finish_reason == "stop"))
        for token in content:
            self.assertEqual(len(token.top_logprobs), 4)
            self.assertEqual(token.logprob, token.top_logprobs[0].logprob)  # greedy

    def test_openai_gets_json_that_fits_its_schema(self):
        schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}, "age": {"type": "integer"}},
                  "required": ["name", "age"], "additionalProperties": False}
        for more in ({"temperature": 0}, {"temperature": 1.2, "seed": 5}):
            answer = self.chat("A person as JSON.", max_tokens=80, **more, response_format={
                "type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}})
            found = json.loads(answer.choices[0].message.content)
            self.assertEqual(set(found), {"name", "age"})
            self.assertIsInstance(found["age"], int)

    def test_openai_calls_tools_also_when_sampled(self):
        tools = [{"type": "function", "function": WEATHER}]
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            for more in ({"temperature": 0}, {"temperature": 1.3, "seed": 11}):
                with self.subTest(choice=choice, more=more):
                    answer = self.chat("Weather in Oslo?", tools=tools, tool_choice=choice, max_tokens=80,
                                       parallel_tool_calls=False, **more)
                    call = answer.choices[0].message.tool_calls[0]
                    self.assertEqual(call.function.name, "get_weather")
                    self.assertEqual(set(json.loads(call.function.arguments)), {"city"})
                    self.assertEqual(answer.choices[0].finish_reason, "tool_calls")

    def test_openai_streams_tool_calls(self):
        tools = [{"type": "function", "function": WEATHER}]
        name, arguments = "", ""
        for chunk in self.chat("Weather in Oslo?", tools=tools, tool_choice="required", max_tokens=80, stream=True,
                               parallel_tool_calls=False):
            for call in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
                name += call.function.name or ""
                arguments += call.function.arguments or ""
        self.assertEqual(name, "get_weather")
        self.assertEqual(set(json.loads(arguments)), {"city"})

    def test_openai_continues_with_a_tools_result(self):
        messages = [{"role": "user", "content": "Weather in Oslo?"},
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Os'}}]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]
        answer = self.openai.chat.completions.create(model=self.model, messages=messages, max_tokens=6)
        self.assertTrue(answer.choices[0].message.content)

    def test_openai_completes(self):
        answer = self.openai.completions.create(model=self.model, prompt=["One two", "Three four"], n=2, max_tokens=4, seed=1,
                                                logprobs=2, echo=True)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])
        self.assertTrue(answer.choices[2].text.startswith("Three four"))
        self.assertIsNone(answer.choices[0].logprobs.token_logprobs[0])

    def test_openai_responds(self):
        answer = self.openai.responses.create(model=self.model, input="Say hello.", max_output_tokens=16, temperature=0)
        self.assertTrue(answer.output_text)
        events = list(self.openai.responses.create(model=self.model, input="Say hello.", max_output_tokens=16, temperature=0,
                                                   stream=True))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        self.assertEqual(events[-1].response.output_text, answer.output_text)

    def test_openai_names_what_is_wrong(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature="hot")
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.openai.chat.completions.create(model="gpt-nothing", messages=[{"role": "user", "content": "x"}])
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.openai.completions.create(model=self.model, prompt=[5] * 5000, max_tokens=1)
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_anthropic_sends_messages(self):
        messages = [{"role": "user", "content": "Say hello."}]
        answer = self.anthropic.messages.create(model=self.model, max_tokens=12, messages=messages, extra_body={"temperature": 0})
        self.assertTrue(answer.content[0].text)
        self.assertGreater(answer.usage.input_tokens, 0)
        with self.anthropic.messages.stream(model=self.model, max_tokens=12, messages=messages,
                                            extra_body={"temperature": 0}) as stream:
            self.assertEqual("".join(stream.text_stream), answer.content[0].text)
        counted = self.anthropic.messages.count_tokens(model=self.model, messages=messages)
        self.assertEqual(counted.input_tokens, answer.usage.input_tokens)

    def test_anthropic_calls_tools(self):
        tool = {"name": WEATHER["name"], "description": WEATHER["description"], "input_schema": WEATHER["parameters"]}
        answer = self.anthropic.messages.create(model=self.model, max_tokens=80, tools=[tool],
                                                tool_choice={"type": "any", "disable_parallel_tool_use": True},
                                                messages=[{"role": "user", "content": "Weather in Oslo?"}])
        call = answer.content[-1]
        self.assertEqual((call.type, call.name, set(call.input)), ("tool_use", "get_weather", {"city"}))
        self.assertEqual(answer.stop_reason, "tool_use")

    def test_anthropic_names_what_is_wrong(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.anthropic.messages.create(model=self.model, max_tokens=0, messages=[{"role": "user", "content": "x"}])
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")

    def test_the_compliance_suites_pass(self):
        # How a drawn answer ends is not the server's.
        program = pathlib.Path(sys.executable).with_name("llm-comply")
        for form, tests in (("openai-chat", "chat-basic-response,chat-multi-turn,chat-tool-calling,chat-streaming-usage"),
                            ("open-responses", "basic-response,multi-turn,streaming-response,streaming-usage"),
                            ("anthropic", "anth-basic-response,anth-multi-turn,anth-streaming-response")):
            with self.subTest(form=form):
                done = subprocess.run([program, "run", "--base-url", self.server.url + "/v1", "--model", self.model, "--api-key",
                                       "none", "--format", form, "--json", "--filter", tests,
                                       "--ignore", "expected status=,finish_reason: expected,stop_reason: expected"], check=False, capture_output=True,
                                      text=True, timeout=served.DEADLINE)
                results = json.loads(done.stdout)["results"]
                self.assertEqual(len(results), len(tests.split(",")), results)
                for result in results:
                    self.assertEqual(result["status"], "passed", result)


if __name__ == "__main__":
    PROGRAM, MODEL, RANKS = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
