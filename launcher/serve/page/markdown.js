
// A model's text as elements: a part of Markdown, and JSON. What is no Markdown stays text.

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)/;
const HEADING = /^ {0,3}(#{1,6})\s(.*)$/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)(?:[-*+]|(\d{1,9})[.)]) +/;
const INSIDE_ITEM = /^(?: {2,}\S| *(?:[-*+]|\d+[.)]) )/;  // after an empty line
const TABLE_RULE = /^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$/;

const isTableAt = (lines, i) => lines[i].includes("|") && i + 1 < lines.length && lines[i + 1].includes("|") &&
  TABLE_RULE.test(lines[i + 1]);

function blockKind(lines, i) {
  const line = lines[i];
  if (FENCE.test(line)) return "fence";
  if (HEADING.test(line)) return "heading";
  if (RULE.test(line)) return "rule";
  if (QUOTE.test(line)) return "quote";
  if (ITEM.test(line)) return "list";
  return isTableAt(lines, i) ? "table" : "paragraph";
}

/// The index after the block of that kind that begins at `i`.
function blockEnd(kind, lines, i) {
  const fence = kind === "fence" ? lines[i].match(FENCE)[1] : "";
  if (kind === "heading" || kind === "rule") return i + 1;
  for (let j = i + 1; j < lines.length; ++j) {
    if (kind === "fence" && lines[j].trim().startsWith(fence) && !/[^`~\s]/.test(lines[j])) return j + 1;
    if (kind === "quote" && !QUOTE.test(lines[j])) return j;
    if (kind === "table" && !lines[j].includes("|")) return j;
    if (kind === "list" && lines[j].trim() === "" && !INSIDE_ITEM.test(lines[j + 1] ?? "")) return j;
    if (kind === "list" && /^\S/.test(lines[j]) && !["list", "paragraph"].includes(blockKind(lines, j))) return j;
    if (kind === "paragraph" && (lines[j].trim() === "" || blockKind(lines, j) !== "paragraph")) return j;
  }
  return lines.length;
}

/// The blocks of a text: [{kind, lines}].
function blocksOf(lines) {
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (lines[i].trim() === "") {
      ++i;
      continue;
    }
    const kind = blockKind(lines, i);
    const end = blockEnd(kind, lines, i);
    blocks.push({ kind, lines: lines.slice(i, end) });
    i = end;
  }
  return blocks;
}

const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "s"], ["*", "em"], ["_", "em"]];
const isWord = (character) => /[\p{L}\p{N}]/u.test(character ?? "");

/// The mark at `i` that another of its kind closes: {tag, from, to, end}. `missing` remembers marks that no more close.
function markAt(text, i, missing) {
  for (const [mark, tag] of MARKS) {
    if (!text.startsWith(mark, i) || missing.has(mark)) continue;
    const from = i + mark.length;
    const to = text.indexOf(mark, from + 1);
    if (to < 0) missing.add(mark);
    const isInWord = mark[0] === "_" && (isWord(text[i - 1]) || isWord(text[to + mark.length]));
    if (to < 0 || isInWord || /\s/.test(text[from] ?? " ") || /\s/.test(text[to - 1])) continue;
    return { tag, from, to, end: to + mark.length };
  }
  return null;
}

function codeAt(text, i, missing) {
  const ticks = text.slice(i).match(/^`+/)[0];
  const to = missing.has(ticks) ? -1 : text.indexOf(ticks, i + ticks.length);
  if (to < 0) missing.add(ticks);
  return to < 0 ? null : { text: text.slice(i + ticks.length, to), end: to + ticks.length };
}

/// [text](address) of the web, and ![text](address), which is not loaded. Other kinds of addresses stay text.
function linkAt(text, i) {
  const found = text.slice(i, i + 2048).match(/^!?\[([^\[\]]*)\]\(([^()\s]+)\)/);
  const address = found && URL.canParse(found[2]) ? new URL(found[2]) : null;
  if (!address || !["http:", "https:"].includes(address.protocol)) return null;
  return { text: found[1], href: address.href, end: i + found[0].length };
}

/// Appends the inline elements of `text`.
function appendInline(target, text, depth = 0) {
  const missing = new Set();
  let begin = 0;
  const put = (until, node, end) => {
    target.append(text.slice(begin, until), node);
    begin = end;
    return end;
  };
  for (let i = 0; i < text.length;) {
    const character = text[i];
    if (character === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] ?? "")) {
      i = put(i, text[i + 1], i + 2);
      continue;
    }
    const code = character === "`" ? codeAt(text, i, missing) : null;
    const link = "![".includes(character) ? linkAt(text, i) : null;
    const mark = "*_~".includes(character) && depth < 8 ? markAt(text, i, missing) : null;
    if (code) {
      i = put(i, element("code", { textContent: code.text }), code.end);
    } else if (link) {
      const properties = { href: link.href, title: link.href, target: "_blank", rel: "noopener noreferrer" };
      i = put(i, element("a", { ...properties, textContent: link.text }), link.end);
    } else if (mark) {
      const inner = element(mark.tag);
      appendInline(inner, text.slice(mark.from, mark.to), depth + 1);
      i = put(i, inner, mark.end);
    } else {
      i += character === "`" ? text.slice(i).match(/^`+/)[0].length : 1;
    }
  }
  target.append(text.slice(begin));
  return target;
}

function listElement(lines, depth) {
  const first = lines[0].match(ITEM);
  const list = element(first[2] === undefined ? "ul" : "ol", first[2] === undefined ? {} : { start: Number(first[2]) });
  const items = [];
  for (const line of lines) {
    const item = line.match(ITEM);
    const isNew = item && item[1].length <= first[1].length;
    if (isNew) items.push([line.slice(item[0].length)]);
    else items.at(-1).push(line.replace(/^(?: {1,4}|\t)/, ""));
  }
  for (const item of items) {
    const blocks = blocksOf(item);
    const isShort = blocks[0]?.kind === "paragraph";
    const node = element("li");
    if (isShort) appendInline(node, blocks.shift().lines.join("\n"));
    node.append(...blocks.map((block) => blockElement(block, depth + 1)));
    list.append(node);
  }
  return list;
}

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());

function tableElement(lines) {
  const row = (line, name) => element("tr", {}, ...cellsOf(line).map((cell) => appendInline(element(name), cell)));
  const body = lines.slice(2).map((line) => row(line, "td"));
  return element("div", { class: "table", tabIndex: 0 },
    element("table", {}, element("thead", {}, row(lines[0], "th")), element("tbody", {}, ...body)));
}

function blockElement({ kind, lines }, depth = 0) {
  if (depth > 8) return element("p", { textContent: lines.join("\n") });
  switch (kind) {
    case "fence": {
      const fence = lines[0].match(FENCE)[1];
      const isClosed = lines.length > 1 && lines.at(-1).trim().startsWith(fence);
      const code = lines.slice(1, isClosed ? -1 : undefined).join("\n");
      return element("pre", { tabIndex: 0 }, element("code", { textContent: code }));
    }
    case "heading": {
      const [, marks, text] = lines[0].match(HEADING);
      return appendInline(element(marks.length < 3 ? "h3" : "h4"), text.trim());
    }
    case "rule": return element("hr");
    case "quote": {
      const inner = lines.map((line) => line.replace(QUOTE, ""));
      return element("blockquote", {}, ...blocksOf(inner).map((block) => blockElement(block, depth + 1)));
    }
    case "list": return listElement(lines, depth);
    case "table": return tableElement(lines);
    default: return appendInline(element("p"), lines.map((line) => line.trim()).join("\n"));
  }
}

/// Shows a text that grows: blocks that did not change keep their elements.
function showMarkdown(target, text) {
  const blocks = blocksOf(text.split("\n"));
  const shown = target.shownBlocks ?? [];
  const sources = blocks.map(({ lines }) => lines.join("\n"));
  let same = 0;
  while (same < shown.length && same < sources.length && shown[same] === sources[same]) ++same;
  while (target.childNodes.length > same) target.lastChild.remove();
  target.append(...blocks.slice(same).map((block) => blockElement(block)));
  target.shownBlocks = sources;
}

/// The value of a JSON object or list; undefined: the text is none.
function parseStructure(text) {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/// Appends a JSON value with line breaks and colours.
function appendJson(target, value, indent = "") {
  const part = (kind, text) => element("span", { class: kind, textContent: text });
  if (value === null || typeof value !== "object") {
    const kind = { string: "string", number: "number" }[typeof value] ?? "literal";
    target.append(part(kind, JSON.stringify(value)));
    return;
  }
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  const inner = `${indent}  `;
  target.append(isList ? "[" : "{");
  entries.forEach(([key, item], i) => {
    target.append(`\n${inner}`);
    if (!isList) target.append(part("key", JSON.stringify(key)), ": ");
    appendJson(target, item, inner);
    if (i + 1 < entries.length) target.append(",");
  });
  target.append(entries.length > 0 ? `\n${indent}` : "", isList ? "]" : "}");
}

/// A text that should be JSON: readable when it is, as it is otherwise.
function jsonElement(text) {
  const pre = element("pre", { class: "json wraps" });
  const value = parseStructure(text);
  if (value === undefined) pre.textContent = text;
  else appendJson(pre, value);
  return pre;
}
