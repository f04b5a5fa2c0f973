
// The conversation: messages out, one streamed answer at a time in.

const conversation = [];          // {message(), node} of each turn
const ownRequests = new Set();    // ids of this page's requests, which the engine's view marks
let streaming = null;             // {answer, controller} of the open answer

let followsEnd = true;            // the view; false: the reader has scrolled up

const isAtEnd = () => byId("scroll").scrollHeight - byId("scroll").scrollTop - byId("scroll").clientHeight < 60;

function scrollToEnd() {
  byId("scroll").scrollTop = byId("scroll").scrollHeight;
  followsEnd = true;
  byId("latest").hidden = true;
}

/// Runs a change of the conversation; the view follows unless the reader has scrolled up.
function keepingPlace(change) {
  change();
  if (followsEnd) scrollToEnd();
  else byId("latest").hidden = false;
}

function addTurn(turn) {
  byId("welcome").hidden = true;
  conversation.push(turn);
  byId("turns").append(turn.node);
  scrollToEnd();
}

function removeTurn() {
  conversation.pop().node.remove();
}

function messages() {
  const system = settingsForm().system.value.trim();
  const known = conversation.map((turn) => turn.message()).filter((message) => message !== null);
  return system ? [{ role: "system", content: system }, ...known] : known;
}

function showStreaming(isStreaming) {
  byId("send").hidden = isStreaming;
  byId("stop").hidden = !isStreaming;
}

/// Asks for the next answer and shows it as it comes.
async function askForAnswer() {
  const wrong = checkSettings();
  if (wrong) return openSettings(wrong);
  const body = { messages: messages(), stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true }, ...requestFields() };
  const answer = new Answer({ again, results: giveResults });
  const controller = new AbortController();
  streaming = { answer, controller };
  addTurn(answer);
  showStreaming(true);
  const end = await readAnswer(answer, body, controller.signal).then(() => ({}), (error) => {
    if (controller.signal.aborted) return { isStopped: true };
    const isOurs = error instanceof RequestError;
    return { failure: isOurs ? error : new RequestError("The connection ended before the answer.", error.message) };
  });
  if (streaming?.answer !== answer) return;  // a new chat has begun
  streaming = null;
  keepingPlace(() => answer.end(end));
  showStreaming(false);
  if (end.failure?.status === 401) askForKey(end.failure.message);
}

async function readAnswer(answer, body, signal) {
  const response = await send("/v1/chat/completions", body, signal);
  ownRequests.add(response.headers.get("x-request-id"));
  for await (const chunk of eventsOf(response)) {
    if (chunk.error) throw new RequestError("The answer broke off.", chunk.error.message);
    answer.take(chunk);
  }
}

function stopAnswer() {
  streaming?.controller.abort();
}

function again() {
  if (streaming) return;
  removeTurn();
  askForAnswer();
}

function giveResults(texts) {
  const { calls } = conversation.at(-1);
  calls.forEach((call, i) => addTurn({
    node: toolTurn(call.name, texts[i]),
    message: () => ({ role: "tool", tool_call_id: call.id, content: texts[i] }),
  }));
  askForAnswer();
}

/// The field grows with its text, also in browsers without field-sizing.
function fitPrompt() {
  if (CSS.supports("field-sizing", "content")) return;
  byId("prompt").style.height = "auto";
  byId("prompt").style.height = `${byId("prompt").scrollHeight}px`;
}

function sendPrompt() {
  const text = byId("prompt").value;
  if (streaming || text.trim() === "") return;
  byId("prompt").value = "";
  fitPrompt();
  addTurn({ node: userTurn(text), message: () => ({ role: "user", content: text }) });
  askForAnswer();
}

function newChat() {
  stopAnswer();
  streaming = null;
  showStreaming(false);
  conversation.length = 0;
  byId("turns").replaceChildren();
  byId("welcome").hidden = false;
  byId("latest").hidden = true;
  byId("prompt").focus();
}

function startChat() {
  byId("openai-url").textContent = `${location.origin}/v1`;
  byId("anthropic-url").textContent = location.origin;
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    sendPrompt();
  });
  byId("prompt").addEventListener("input", fitPrompt);
  byId("prompt").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    sendPrompt();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !byId("settings").open) stopAnswer();
  });
  byId("stop").addEventListener("click", () => {
    stopAnswer();
    byId("prompt").focus();
  });
  byId("new-chat").addEventListener("click", newChat);
  byId("latest").addEventListener("click", scrollToEnd);
  byId("scroll").addEventListener("scroll", () => {
    followsEnd = isAtEnd();
    if (followsEnd) byId("latest").hidden = true;
  });
  new ResizeObserver(() => {
    if (followsEnd) scrollToEnd();
  }).observe(byId("scroll"));
  byId("prompt").focus();
}
