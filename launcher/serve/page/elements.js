"use strict";

// Elements from values. Text is only ever set as text: nothing that a model or a client wrote becomes markup.

const byId = (id) => document.getElementById(id);

/// `properties`: class, listeners ("onclick"), properties of the element, attributes.
function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/// A shape in the drawing `parent`.
function shape(parent, name, attributes = {}) {
  const made = document.createElementNS(parent.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}

/// Sets a text where it differs, so that what did not change is neither drawn nor announced again.
function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/// Gives `list` one child for each item, and lets `fill` write each.
function fillList(list, items, make, fill) {
  while (list.children.length > items.length) list.lastElementChild.remove();
  while (list.children.length < items.length) list.append(make());
  items.forEach((item, index) => fill(list.children[index], item, index));
}

const formatCount = (value) => Math.round(value).toLocaleString("en");

const counted = (value, noun) => `${formatCount(value)} ${noun}${value === 1 ? "" : "s"}`;

function formatDuration(seconds) {
  if (seconds < 0.0095) return `${(seconds * 1000).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

function formatBytes(bytes) {
  const mebibytes = bytes / 1048576;
  return mebibytes < 1000 ? `${Math.round(mebibytes)} MiB` : `${(mebibytes / 1024).toFixed(1)} GiB`;
}
