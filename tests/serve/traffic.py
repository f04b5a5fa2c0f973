"""Requests of every kind that clients send to a server, drawn from a seed: good, wrong, and left by their clients.

Each kind is a function of a Client. It raises AssertionError when an answer is not what the request deserves.
"""
import json
import random
import re
import socket

WORDS = ("the sea was calm and a keeper of lights wrote every name in his book while rain fell on seven hills and bread "
         "grew warm in stone ovens").split()
TOOL = {"name": "weather", "description": "Weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"]}}
# Conversations of all clients begin with one of these, so that slots hold beginnings of each other's prompts.
SHARED = ["Chapter one. " + " ".join(WORDS), "Chapter two. " + " ".join(reversed(WORDS)), "Rules: be brief and kind."]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 6}, "size": {"type": "integer"}},
          "required": ["name", "size"], "additionalProperties": False}


class Client:
    """One of many, with random numbers of its own. `schemas`: how many different ones all clients send."""

    def __init__(self, server, model, number, seed, schemas):
        self.server, self.model, self.random = server, model, random.Random(f"{seed} {number}")
        self.number, self.schemas = number, schemas

    def text(self, most=60):
        return " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(1, most)))

    def length(self, most=24):
        return self.random.randint(1, most)

    def completion(self, **more):
        return {"prompt": self.text(), "max_tokens": self.length(), **self.sampling(), **more}

    def chat(self, **more):
        return {"messages": [{"role": "user", "content": self.text()}], "max_tokens": self.length(), **self.sampling(),
                **more}

    def sampling(self):
        return self.random.choice([{"temperature": 0}, {"temperature": 0.9, "seed": self.random.randrange(9)},
                                   {"temperature": 1.2, "top_p": 0.9, "min_p": 0.01}, {"presence_penalty": 0.5}])

    def good(self, path, body):
        status, answer = self.server.post(path, body)
        assert status == 200, (path, body, status, answer)
        return answer

    def refused(self, expected, path, body):
        status, answer = self.server.post(path, body)
        assert status == expected, (path, body, status, answer)
        assert answer["error"]["message"], answer

    def stream(self, path, body):
        events = self.server.events(path, body)
        assert events and not any("error" in event for event in events), (path, body, events[-1:])
        return events

    def open_stream(self, path, body, receive_buffer=None):
        """(connection, response) of a stream that has begun."""
        connection = self.server.connect()
        if receive_buffer:
            connection.sock = socket.socket()
            connection.sock.settimeout(connection.timeout)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            connection.sock.connect((connection.host, connection.port))
        connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, (path, body, response.status, response.read())
        return connection, response

    def raw(self, data):
        """The first line of the answer to bytes that are sent as they are; empty: none."""
        connection = self.server.connect()
        try:
            connection.connect()
            connection.sock.sendall(data)
            return connection.sock.makefile("rb").readline().decode()
        except ConnectionError:
            return ""
        finally:
            connection.close()


# Good requests.

def completion(client):
    answer = client.good("/v1/completions", client.completion())
    assert answer["usage"]["completion_tokens"] >= 1, answer


def chat(client):
    answer = client.good("/v1/chat/completions", client.chat(top_logprobs=2, logprobs=True))
    assert answer["choices"][0]["finish_reason"] in ("stop", "length"), answer


def streamed_completion(client):
    client.stream("/v1/completions", client.completion(stream_options={"include_usage": True}))


def streamed_chat(client):
    client.stream("/v1/chat/completions", client.chat(stop=["\n"]))


def many_choices(client):
    count = client.random.randint(2, 5)
    answer = client.good("/v1/completions", client.completion(n=count))
    assert [choice["index"] for choice in answer["choices"]] == list(range(count)), answer


def many_prompts(client):
    prompts = [client.text(20) for _ in range(3)]
    assert len(client.good("/v1/completions", client.completion(prompt=prompts))["choices"]) == 3


def long_prompt(client):
    client.good("/v1/completions", client.completion(prompt=" ".join(client.text(80) for _ in range(5)), max_tokens=2))


def echo_scores(client):
    answer = client.good("/v1/completions", {"prompt": client.text(), "max_tokens": client.random.randint(0, 1),
                                             "echo": True, "logprobs": client.random.randint(0, 5), "temperature": 0})
    assert answer["choices"][0]["logprobs"]["token_logprobs"][0] is None, answer


def conversation(client):
    messages = [{"role": "system", "content": client.random.choice(SHARED)}]
    for _ in range(3):
        messages.append({"role": "user", "content": client.text(12)})
        answer = client.good("/v1/chat/completions", {"messages": messages, "max_tokens": 8, "temperature": 0})
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})


def json_schema(client):
    most = client.random.randint(1, client.schemas)
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "size": {"type": "integer", "maximum": most}}}
    form = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema, "strict": True}}
    answer = client.good("/v1/chat/completions", client.chat(response_format=form, max_tokens=40))
    choice = answer["choices"][0]
    assert choice["message"]["content"].startswith("{"), answer
    if choice["finish_reason"] == "stop":
        assert json.loads(choice["message"]["content"])["size"] <= most, answer


def regex(client):
    answer = client.good("/v1/completions", client.completion(regex="[ab]{3}", max_tokens=8))
    assert re.fullmatch("[ab]{3}", answer["choices"][0]["text"]), answer


def choice(client):
    answer = client.good("/v1/completions", client.completion(choice=["left", "right"], max_tokens=8))
    assert answer["choices"][0]["text"] in ("left", "right"), answer


def tools(client):
    how = client.random.choice(["auto", "required", {"type": "function", "function": {"name": "weather"}}, "none"])
    # Enough for a call's name, even if each of its characters is a token.
    body = client.chat(tools=[{"type": "function", "function": TOOL}], tool_choice=how, max_tokens=60)
    if client.random.random() < 0.5:
        parts = [client.good("/v1/chat/completions", body)["choices"][0]["message"]]
    else:
        parts = [event["choices"][0]["delta"] for event in client.stream("/v1/chat/completions", body)]
    functions = [call["function"] for part in parts for call in part.get("tool_calls") or ()]
    if how != "auto":
        expected = set() if how == "none" else {"weather"}
        assert {function["name"] for function in functions if "name" in function} == expected, (body, parts)


def responses(client):
    body = {"input": client.text(), "max_output_tokens": 16 + client.length()}
    assert client.good("/v1/responses", body)["status"] in ("completed", "incomplete")


def messages(client):
    body = {"messages": [{"role": "user", "content": client.text()}], "max_tokens": client.length(),
            "model": client.model}
    assert client.good("/v1/messages", body)["usage"]["input_tokens"] > 0
    client.good("/v1/messages/count_tokens", {key: body[key] for key in ("messages", "model")})


def texts(client):
    tokens = client.good("/tokenize", {"prompt": client.text()})["tokens"]
    client.good("/detokenize", {"tokens": tokens})


def looks(client):
    for path in ("/health", "/metrics", "/admin/status", "/v1/models", "/"):
        status, answer = client.server.get(path)
        assert status == 200, (path, status, answer)


def kept_connection(client):
    connection = client.server.connect()
    for _ in range(4):
        connection.request("POST", "/v1/completions", json.dumps(client.completion(max_tokens=1)),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        response.read()
    connection.close()


# Clients that are slow or leave.

LONG = {"max_tokens": 300, "ignore_eos": True}


def leaves_a_stream(client):
    connection, response = client.open_stream("/v1/completions", client.completion(**LONG))
    response.read(client.random.randint(1, 2000))
    connection.close()


def leaves_many_choices(client):
    connection, response = client.open_stream("/v1/completions", client.completion(**LONG, n=4, logprobs=5))
    response.read(1)
    connection.close()


def leaves_before_the_answer(client):
    connection = client.server.connect()
    connection.request("POST", "/v1/completions", json.dumps(client.completion(**LONG)),
                       {"Content-Type": "application/json"})
    connection.close()


def leaves_a_constraint(client):
    number = {"type": "integer", "maximum": client.random.randint(1, client.schemas)}
    body = client.completion(**LONG, structured_outputs={"json": {"type": "array", "items": number, "minItems": 90}})
    connection = client.server.connect()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    connection.close()


def leaves_a_score(client):
    connection = client.server.connect()
    connection.request("POST", "/v1/completions", json.dumps({"prompt": client.text(300), "echo": True, "logprobs": 5,
                                                              "max_tokens": 1}), {"Content-Type": "application/json"})
    connection.close()


def leaves_within_a_body(client):
    connection = client.server.connect()
    connection.connect()
    connection.sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{\"prompt\": ")
    connection.close()


def reads_slowly(client):
    """A stream of some megabytes, of which nothing is read while the client does something else."""
    body = client.completion(n=3, max_tokens=60, ignore_eos=True, logprobs=20)
    connection, response = client.open_stream("/v1/completions", body, receive_buffer=4096)
    completion(client)
    streamed_chat(client)
    assert response.read().endswith(b"data: [DONE]\n\n"), body
    connection.close()


# Wrong requests.

def malformed_body(client):
    client.refused(400, "/v1/completions", [1, 2])
    client.refused(400, "/v1/completions", {"prompt": 7})
    client.refused(400, "/v1/chat/completions", {"messages": "hello"})
    client.refused(400, "/v1/completions", client.completion(temperature="hot"))
    client.refused(400, "/v1/completions", client.completion(max_tokens=10**7))
    client.refused(400, "/v1/completions", client.completion(prompt=[10**8]))
    client.refused(400, "/v1/messages", {"messages": []})


def wrong_name(client):
    client.refused(404, "/v1/completions", client.completion(model="another"))
    client.refused(404, "/v1/nothing", {})
    client.refused(405, "/v1/models", {})


def impossible_constraint(client):
    client.refused(400, "/v1/completions", client.completion(regex="[a"))
    client.refused(400, "/v1/completions", client.completion(structured_outputs={"json": {"type": "nothing"}}))


def malformed_http(client):
    body = b"\x16\x03\x01" + client.random.randbytes(60)
    for data in (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
                 b"GET / HTTP/1.1\nHost: x\n\n", b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
                 b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 40000 + b"\r\n\r\n", body + b"\r\n\r\n"):
        line = client.raw(data)
        assert line.startswith("HTTP/1.1 ") and line.split()[1] in ("400", "431", "501", "505"), (data[:80], line)
    line = client.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{\"prompt\"")
    assert " 400 " in line, line


KINDS = [completion, chat, streamed_completion, streamed_chat, many_choices, many_prompts, long_prompt, echo_scores,
         conversation, json_schema, regex, choice, tools, responses, messages, texts, looks, kept_connection,
         leaves_a_stream, leaves_many_choices, leaves_before_the_answer, leaves_a_constraint, leaves_a_score,
         leaves_within_a_body, reads_slowly, malformed_body, wrong_name, impossible_constraint, malformed_http]
