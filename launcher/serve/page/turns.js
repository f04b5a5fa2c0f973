
// The turns of a conversation as elements.

const FINISHES = { length: "cut at its most tokens", tool_calls: "calls tools", stop: "complete" };

/// For those who hear the page: who speaks.
const speaker = (name) => element("span", { class: "spoken", textContent: `${name}: ` });

const userTurn = (text) => element("li", { class: "user" }, speaker("You"),
  element("div", { class: "said", textContent: text }));

const card = (kind, title, ...content) => element("div", { class: `card ${kind}` },
  element("p", { class: "title" }, ...title), ...content);

function toolTurn(name, text) {
  return element("li", { class: "tool" }, card("result", [`Result of ${name}`], jsonElement(text)));
}

/// An answer of the model that grows. `actions`: again(), results(texts).
class Answer {
  constructor(actions) {
    this.actions = actions;
    this.content = "";
    this.reasoning = "";
    this.calls = [];  // {id, name, arguments}
    this.results = [];
    this.usage = null;
    this.finish = null;
    this.began = performance.now();
    this.first = null;
    this.isOpen = true;
    this.isDrawn = true;
    this.reasoningText = element("div");
    this.reasoningPart = element("details", { class: "reasoning", open: true, hidden: true },
      element("summary", { textContent: "Reasoning" }), this.reasoningText);
    this.said = element("div", { class: "said" });
    this.waiting = element("div", { class: "waits", role: "img", "aria-label": "The answer is on its way" });
    this.callsPart = element("div");
    this.notes = element("div");
    this.usageText = element("span", { class: "usage small" });
    this.buttons = element("span");
    this.node = element("li", { class: "assistant", "aria-busy": "true" }, speaker("The model"), this.reasoningPart,
      this.said, this.callsPart, this.waiting, this.notes,
      element("div", { class: "turn-end" }, this.usageText, this.buttons));
  }

  /// A chunk of the stream.
  take(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    const delta = choice?.delta ?? {};
    this.content += delta.content ?? "";
    this.reasoning += delta.reasoning_content ?? "";
    for (const call of delta.tool_calls ?? []) {
      const known = (this.calls[call.index] ??= { id: "", name: "", arguments: "" });
      known.id = call.id ?? known.id;
      known.name += call.function?.name ?? "";
      known.arguments += call.function?.arguments ?? "";
    }
    if (choice?.finish_reason) this.finish = choice.finish_reason;
    if (this.content || this.reasoning || this.calls.length > 0) this.first ??= performance.now();
    this.drawSoon();
  }

  /// Draws once a frame, however many chunks come.
  drawSoon() {
    if (!this.isDrawn) return;
    this.isDrawn = false;
    requestAnimationFrame(() => {
      if (this.isOpen) keepingPlace(() => this.draw());
      this.isDrawn = true;
    });
  }

  draw() {
    this.reasoningPart.hidden = this.reasoning.trim() === "";
    setText(this.reasoningText, this.reasoning.trim());
    const structure = this.isOpen ? undefined : parseStructure(this.content);
    if (structure !== undefined) this.drawJson();
    else showMarkdown(this.said, this.content);
    this.callsPart.replaceChildren(...this.calls.map((call, index) => this.callCard(call, index)));
    setText(this.usageText, this.describe());
  }

  drawJson() {
    this.said.shownBlocks = [];
    this.said.replaceChildren(card("json-answer", ["JSON"], jsonElement(this.content)));
  }

  callCard(call, index) {
    const waits = !this.isOpen && this.finish === "tool_calls" && this.results[index] === undefined;
    return card("call", ["Calls ", element("strong", { textContent: call.name })], jsonElement(call.arguments),
      waits ? this.resultForm(call, index) : null);
  }

  resultForm(call, index) {
    const text = element("textarea", { rows: 1 });
    const onsubmit = (event) => {
      event.preventDefault();
      this.results[index] = text.value;
      event.target.remove();
      if (this.calls.every((_, i) => this.results[i] !== undefined)) this.actions.results(this.results);
    };
    return element("form", { onsubmit }, element("label", {}, `Result of ${call.name}`, text),
      element("button", { type: "submit", textContent: "Give it to the model" }));
  }

  describe() {
    const tokens = this.usage?.completion_tokens ?? 0;
    const words = [];
    if (!this.isOpen && this.finish) words.push(FINISHES[this.finish] ?? this.finish);
    if (tokens > 0) words.push(counted(tokens, "token"));
    const seconds = this.first === null ? 0 : ((this.ended ?? performance.now()) - this.first) / 1000;
    if (tokens > 1 && seconds > 0) words.push(`${((tokens - 1) / seconds).toFixed(1)} per second`);
    if (this.isOpen || !this.usage) return words.join(" · ");
    if (this.first !== null) words.push(`the first after ${formatDuration((this.first - this.began) / 1000)}`);
    const cached = this.usage.prompt_tokens_details?.cached_tokens ?? 0;
    words.push(`prompt of ${counted(this.usage.prompt_tokens, "token")}, ${formatCount(cached)} from the cache`);
    const thought = this.usage.completion_tokens_details?.reasoning_tokens ?? 0;
    if (thought > 0) words.push(`${formatCount(thought)} of reasoning`);
    return words.join(" · ");
  }

  /// `failure`: a RequestError, or null.
  end({ failure = null, isStopped = false }) {
    this.isOpen = false;
    this.ended = performance.now();
    this.node.removeAttribute("aria-busy");
    this.waiting.remove();
    this.reasoningPart.open = this.content === "" && this.calls.length === 0;
    this.draw();
    if (isStopped) this.notes.append(element("p", { class: "note", textContent: "Stopped." }));
    if (failure) {
      const sentences = [failure.message, failure.detail].filter((text) => text !== "");
      this.notes.append(element("div", { class: "failure", role: "alert" },
        ...sentences.map((text) => element("p", { textContent: text }))));
    }
    this.addButtons();
  }

  addButtons() {
    const add = (name, label, onclick) => this.buttons.append(
      element("button", { type: "button", class: `plain ${name}`, textContent: label, onclick }));
    if (this.content && navigator.clipboard) {  // browsers have it for https and for this machine
      add("copy", "Copy", ({ target }) => navigator.clipboard.writeText(this.content).then(
        () => setText(target, "Copied"), () => setText(target, "Not allowed")));
    }
    add("again", "Again", () => this.actions.again());
  }

  /// The message that the model sees of this answer; null: there is nothing to see.
  message() {
    if (!this.content && this.calls.length === 0) return null;
    const message = { role: "assistant", content: this.content || null };
    if (this.calls.length > 0) {
      message.tool_calls = this.calls.map((call) => (
        { id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }));
    }
    return message;
  }
}
