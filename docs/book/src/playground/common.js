// What the pictures of both pages share: a request to the filters, and the drawing of SVG.
"use strict";

const byId = (id) => document.getElementById(id);

let wasm;

/// Compiles the filters and starts the pictures.
async function start(...pictures) {
  try {
    const bytes = Uint8Array.from(atob(FILTERS), (c) => c.charCodeAt(0));
    wasm = (await WebAssembly.instantiate(bytes)).instance.exports;
    for (const picture of pictures) picture.start();
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    const failure = byId("failure");
    failure.textContent = `The filters could not be started: ${error.message || error}`;
    failure.hidden = false;
    throw error;
  }
}

/// Sends a request to the filters (crates/filter/examples/playground/answers) and returns their response as an
/// object. If the response has an `error`, the caller shows it.
function ask(request) {
  const text = new TextEncoder().encode(request);
  const at = wasm.reserve(text.length);
  // Any call may grow the memory, which empties all earlier views of it. So each access makes a
  // view of its own.
  new Uint8Array(wasm.memory.buffer, at, text.length).set(text);
  const length = wasm.answer();
  return JSON.parse(new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.text(), length)));
}

/// The lines of a request: `+` adds a key, `?` queries one. A key has no line feed, because an
/// input field takes none.
const keyLines = (added, asked) => [...added.map((key) => `\n+${key}`), ...asked.map((key) => `\n?${key}`)].join("");

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  element.append(...children);
  return element;
}

function html(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/// A share in per cent, with three significant digits and without an exponent.
function percent(share) {
  return `${(share * 100).toLocaleString("en", { maximumSignificantDigits: 3, useGrouping: false })} %`;
}

/// Calls `draw` when a picture's width has changed.
function onWidth(element, draw) {
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth !== width) {
      width = element.clientWidth;
      draw();
    }
  }).observe(element);
}
