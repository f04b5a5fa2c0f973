
// Requests to the server: the key, errors as sentences, streams of events.

const KEY = "lockstep-key";  // in this tab's storage
const keyOf = () => sessionStorage.getItem(KEY) ?? "";

/// What went wrong, as a sentence, and what the server said about it.
class RequestError extends Error {
  constructor(sentence, detail = "", status = 0) {
    super(sentence);
    this.detail = detail;
    this.status = status;
  }
}

function sentenceOf(status) {
  if (status === 401) return keyOf() ? "The server refused the key." : "The server asks for a key.";
  if (status === 429) return "The server's queue is full. Try again in a moment.";
  if (status === 503) return "The server cannot answer now.";
  return status < 500 ? "The server refused the request." : "The server failed to answer.";
}

/// The response to a request; a body makes it a POST. Fails with RequestError, or as the signal says.
async function send(path, body, signal) {
  const headers = {};
  if (keyOf()) headers.Authorization = `Bearer ${keyOf()}`;
  if (body) headers["Content-Type"] = "application/json";
  const content = body ? { method: "POST", body: JSON.stringify(body) } : {};
  const response = await fetch(path, { headers, signal, cache: "no-store", ...content }).catch((error) => {
    if (signal?.aborted) throw error;
    throw new RequestError("The server cannot be reached.", "It may have ended, or the network is down.");
  });
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new RequestError(sentenceOf(response.status), answer.error?.message ?? "", response.status);
}

/// The data of a stream's events, until "[DONE]".
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new RequestError("The connection ended before the answer.");
    held += value;
    const events = held.split(/\r?\n\r?\n/);
    held = events.pop();
    for (const event of events) {
      const lines = event.split(/\r?\n/).filter((line) => line.startsWith("data:"));
      const data = lines.map((line) => line.slice("data:".length).trim()).join("\n");
      if (data === "[DONE]") return;
      if (data !== "") yield JSON.parse(data);  // otherwise a comment
    }
  }
}
