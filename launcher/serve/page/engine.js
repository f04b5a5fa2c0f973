
// The engine at work: /admin/status once a second, while the tab can be seen.

const PERIOD_MS = 1000;
const PATIENCE_MS = 5000;
const RATES = 60;  // seconds of the curve

let nextLook = null;   // timer
let isLooking = false;
let looksAgain = false;  // at once, with another key
let lastStatus = null;
const rates = [];

/// Tokens per second since the last look.
function rateOf(status) {
  const seconds = lastStatus === null ? 0 : status.uptime_s - lastStatus.uptime_s;
  return seconds > 0 ? Math.max(0, status.new_tokens - lastStatus.new_tokens) / seconds : status.tokens_per_s;
}

function drawRates() {
  const most = Math.max(1, ...rates);
  const points = rates.map((rate, i) => `${RATES - rates.length + i + 1},${(98 - 90 * rate / most).toFixed(1)}`);
  const curve = `M${points.join("L")}`;
  byId("rates").querySelector(".curve").setAttribute("d", curve);
  byId("rates").querySelector(".area").setAttribute("d", `${curve}V100H${RATES - rates.length + 1}Z`);
}

function showNow(status) {
  const rate = rateOf(status);
  rates.push(rate);
  if (rates.length > RATES) rates.shift();
  drawRates();
  setText(byId("rate"), rate < 100 ? rate.toFixed(1) : formatCount(rate));
  const parts = (id, text, small) => byId(id).replaceChildren(text, element("small", { textContent: small }));
  parts("running", formatCount(status.running), ` of ${counted(status.slots.length, "slot")}`);
  parts("queue", formatCount(status.queue), status.queue === 1 ? " sequence" : " sequences");
  const share = status.prompt_tokens > 0 ? Math.round(100 * status.cached_tokens / status.prompt_tokens) : 0;
  parts("cache", `${share} %`, ` of ${formatCount(status.prompt_tokens)}`);
  setText(byId("restarts"), formatCount(status.restarts));
  const words = [`${counted(status.new_tokens, "token")} of answers`, `up for ${formatDuration(status.uptime_s)}`];
  if (status.backend) words.push(`${status.backend} ${status.dtype}`);
  setText(byId("totals"), words.join(" · "));
}

const cell = (kind, text) => element("span", { class: kind, textContent: text });

/// `parts`: [class, share of the whole].
const barOf = (parts) => element("div", { class: "bar", "aria-hidden": "true" }, ...parts.map(([kind, share]) => {
  const part = element("i", { class: kind });
  part.style.width = `${(100 * Math.min(1, Math.max(0, share))).toFixed(1)}%`;
  return part;
}));

function showRanks({ ranks }) {
  const most = Math.max(1, ...ranks.map((rank) => rank.resident_bytes));
  const sum = ranks.reduce((bytes, rank) => bytes + rank.resident_bytes, 0);
  setText(byId("memory"), sum > 0 ? `${formatBytes(sum)} together` : "");
  fillList(byId("ranks"), ranks, () => element("li"), (row, rank) => row.replaceChildren(
    cell("number", rank.rank),
    element("span", { class: "state" }, cell(`dot ${rank.state}`, ""), rank.state),
    barOf([["held", rank.resident_bytes / most]]),
    cell("amount", rank.resident_bytes > 0 ? formatBytes(rank.resident_bytes) : "–")));
}

function slotWords(slot) {
  if (slot.state === "free") return "";
  if (slot.state === "kept") return "can be reused";
  if (slot.request === null) return "ending, or another client";
  return ownRequests.has(slot.request) ? "this chat" : slot.endpoint;
}

function fillSlot(row, slot, status) {
  const isBusy = slot.state === "prefill" || slot.state === "decode";
  const isOwn = ownRequests.has(slot.request);
  const most = slot.most_tokens ?? status.slot_tokens;
  const isKnown = slot.most_tokens !== null;
  const tokens = isKnown ? `${formatCount(slot.tokens)} of ${formatCount(most)}` : counted(slot.tokens, "token");
  row.className = `${isBusy ? "busy" : "idle"}${isOwn ? " own" : ""}`;
  row.dataset.state = slot.state;
  row.dataset.request = slot.request ?? "";
  row.title = isBusy ? `${counted(slot.tokens, "token")}, ${formatCount(slot.new_tokens)} of them new` : "";
  row.replaceChildren(cell("number", slot.slot), cell(`chip ${slot.state}`, slot.state), cell("who", slotWords(slot)),
    cell("amount", slot.tokens > 0 ? tokens : ""));
  if (!isBusy) return;
  row.append(element("code", { class: "id", textContent: slot.request ?? "" }),
    barOf([["held", (slot.tokens - slot.new_tokens) / most], ["fresh", slot.new_tokens / most]]));
}

function showSlots(status) {
  setText(byId("slots-sum"), status.slots.length > 0 ? `${formatCount(status.slot_tokens)} tokens each` : "");
  fillList(byId("slots"), status.slots, () => element("li"), (row, slot) => fillSlot(row, slot, status));
  const waiting = status.requests.filter((request) => request.state === "waiting");
  byId("waiting-part").hidden = waiting.length === 0;
  fillList(byId("waiting"), waiting, () => element("li"), (row, request) => row.replaceChildren(
    cell("who", ownRequests.has(request.id) ? "this chat" : request.endpoint),
    cell("amount", `${counted(request.prompt_tokens, "token")}, ${formatDuration(request.age_s)}`),
    element("code", { class: "id", textContent: request.id })));
}

/// Bars, the newest at the right: the time of each step upwards, its rows downwards.
function showSteps({ steps }) {
  const drawing = byId("steps");
  const mostSeconds = Math.max(1e-6, ...steps.map((step) => step.seconds));
  const mostRows = Math.max(1, ...steps.map((step) => step.rows));
  const last = steps.at(-1);
  setText(byId("steps-most"), last ? formatDuration(mostSeconds) : "");
  setText(byId("rows-most"), last ? formatCount(mostRows) : "");
  const ago = (step) => `${formatDuration(step.age_s)} ago`;
  setText(byId("steps-sum"), last ? `number ${formatCount(last.number)}, ${ago(last)}` : "none yet");
  const words = `The last ${counted(steps.length, "step")}: at most ${formatDuration(mostSeconds)} and ` +
    `${counted(mostRows, "row")}; the table has each`;
  drawing.setAttribute("aria-label", last ? words : "No step yet");
  drawing.replaceChildren();
  shape(drawing, "line", { class: "axis", x1: 0, x2: 64, y1: 68, y2: 68 });
  steps.forEach((step, i) => {
    const x = 64 - steps.length + i;
    const height = 66 * step.seconds / mostSeconds;
    const rows = 30 * Math.log2(1 + step.rows) / Math.log2(1 + mostRows);
    const group = shape(drawing, "g", { class: step.kind });
    shape(group, "title").textContent = `Step ${step.number}: ${step.kind}, ${counted(step.rows, "row")}, ` +
      `${formatDuration(step.seconds)}, ${ago(step)}`;
    shape(group, "rect", { x: x + 0.1, width: 0.8, y: 68 - height, height });
    shape(group, "rect", { class: "rows-of", x: x + 0.1, width: 0.8, y: 69, height: rows });
    const pause = i > 0 ? steps[i - 1].age_s - step.age_s - step.seconds : 0;
    if (pause <= 1) return;
    const line = shape(drawing, "line", { class: "pause", x1: x, x2: x, y1: 0, y2: 100 });
    shape(line, "title").textContent = `No step for ${formatDuration(pause)}`;
  });
  if (byId("steps-table").open) showStepsTable(steps);
}

function showStepsTable(steps) {
  fillList(byId("steps-table").querySelector("tbody"), [...steps].reverse(), () => element("tr"), (row, step) => {
    const texts = [formatCount(step.number), step.kind, formatCount(step.rows), formatDuration(step.seconds),
      `${formatDuration(step.age_s)} ago`];
    row.replaceChildren(...texts.map((text) => element("td", { textContent: text })));
  });
}

function showState(state, text = state) {
  byId("state").dataset.state = state;
  setText(byId("state"), text);
}

function showStatus(status) {
  byId("key-form").hidden = true;
  showState(status.state);
  setText(byId("model"), status.model);
  document.title = `${status.model} · lockstep`;
  showNow(status);
  showRanks(status);
  showSlots(status);
  showSteps(status);
  lastStatus = status;
}

function showSilence(error) {
  const needsKey = error.status === 401;
  showState(needsKey ? "unknown" : "lost", needsKey ? "needs a key" : "no answer");
  if (needsKey) askForKey(keyOf() ? error.message : "");
  setText(byId("live-note"), error instanceof RequestError ? error.message : "The server gives no answer.");
}

async function look() {
  nextLook = null;
  looksAgain = isLooking;
  if (isLooking) return;
  isLooking = true;
  let error = null;
  try {
    const response = await send("/admin/status", null, AbortSignal.timeout(PATIENCE_MS));
    showStatus(await response.json());
  } catch (thrown) {
    error = thrown;
    showSilence(error);
  }
  isLooking = false;
  byId("live-note").hidden = error === null;
  byId("engine").classList.toggle("stale", error !== null);
  if (looksAgain) look();
  else if (!document.hidden && error?.status !== 401) nextLook = setTimeout(look, PERIOD_MS);
}

/// Looks now, and then once a period.
function lookNow() {
  clearTimeout(nextLook);
  look();
}

function startEngine() {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return lookNow();
    clearTimeout(nextLook);
    nextLook = null;
  });
  byId("steps-table").addEventListener("toggle", () => {
    if (lastStatus) showStepsTable(lastStatus.steps);
  });
  look();
}
