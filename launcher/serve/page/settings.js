
// The settings of the next answer. They stay in this tab's storage.

const SETTINGS = "lockstep-settings";
const NUMBERS = ["temperature", "top_p", "max_tokens", "seed"];
const EXAMPLE_TOOL = [{
  name: "get_weather",
  description: "The weather of a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string", maxLength: 30 } },
    required: ["city"],
    additionalProperties: false,
  },
}];

const settingsForm = () => byId("settings-form").elements;

function readJson(text, isRight, expected) {
  if (text.trim() === "") return { value: undefined, error: "" };
  try {
    const value = JSON.parse(text);
    return isRight(value) ? { value, error: "" } : { value: undefined, error: `This is not ${expected}.` };
  } catch (error) {
    return { value: undefined, error: `This is not JSON: ${error.message}.` };
  }
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const readTools = () => readJson(settingsForm().tools.value, (value) => Array.isArray(value) && value.every(isObject),
  "a list of functions");
const readMore = () => readJson(settingsForm().more.value, isObject, "an object with fields");

/// Shows what is wrong; returns the first wrong field.
function checkSettings() {
  const form = settingsForm();
  const errors = { tools: readTools().error, more: readMore().error };
  for (const [name, error] of Object.entries(errors)) {
    setText(byId(`${name}-error`), error);
    form[name].setAttribute("aria-invalid", String(error !== ""));
  }
  return Object.keys(errors).map((name) => errors[name] && form[name]).find(Boolean) ?? null;
}

/// Fields of a request to /v1/chat/completions. Empty settings are left to the server.
function requestFields() {
  const form = settingsForm();
  const fields = {};
  for (const name of NUMBERS) {
    if (form[name].value !== "") fields[name] = Number(form[name].value);
  }
  if (form.json.checked) fields.response_format = { type: "json_object" };
  const tools = readTools().value;
  if (tools?.length > 0) {
    fields.tools = tools.map((tool) => (tool.type === "function" ? tool : { type: "function", function: tool }));
    fields.tool_choice = form.tool_choice.value;
  }
  return { ...fields, ...readMore().value };
}

function describeSettings() {
  const form = settingsForm();
  const words = [];
  if (form.system.value.trim() !== "") words.push("system prompt");
  for (const name of NUMBERS) {
    if (form[name].value !== "") words.push(`${name} ${form[name].value}`);
  }
  if (form.json.checked) words.push("JSON");
  const tools = readTools().value?.length ?? 0;
  if (tools > 0) words.push(counted(tools, "tool"));
  words.push(...Object.entries(readMore().value ?? {}).map(([name, value]) => `${name} ${JSON.stringify(value)}`));
  return words;
}

function noteSettings() {
  checkSettings();
  const values = {};
  for (const field of settingsForm()) {
    if (field.name) values[field.name] = field.type === "checkbox" ? field.checked : field.value;
  }
  sessionStorage.setItem(SETTINGS, JSON.stringify(values));
  byId("active").replaceChildren(...describeSettings().map((word) => element("li", { textContent: word })));
}

function openSettings(field = null) {
  byId("forget-key").hidden = keyOf() === "";
  byId("settings").showModal();
  field?.focus();
}

function startSettings() {
  const form = settingsForm();
  for (const [name, value] of Object.entries(JSON.parse(sessionStorage.getItem(SETTINGS) ?? "{}"))) {
    if (form[name]) form[name][form[name].type === "checkbox" ? "checked" : "value"] = value;
  }
  byId("open-settings").addEventListener("click", () => openSettings());
  byId("settings-form").addEventListener("input", noteSettings);
  byId("settings-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const wrong = checkSettings();
    if (wrong) wrong.focus();
    else byId("settings").close();
  });
  byId("settings").addEventListener("close", () => byId("prompt").focus());
  byId("example-tool").addEventListener("click", () => {
    form.tools.value = JSON.stringify(EXAMPLE_TOOL, null, 1);
    noteSettings();
  });
  byId("clear-settings").addEventListener("click", () => {
    byId("settings-form").reset();
    noteSettings();
  });
  noteSettings();
}
