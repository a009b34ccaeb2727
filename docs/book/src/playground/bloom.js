// The bits of a Bloom filter. After each added key the library builds a new filter of all keys, as
// it does when a table is written, because the size of a filter depends on the number of keys.
"use strict";

const bloom = (() => {
  const FIRST = ["apple", "pear", "plum"];
  const COLUMNS = 32, CELL = 11, LINE_BITS = 512;
  /// With more keys the picture would be too large for a page.
  const MOST_KEYS = 400;
  const TRIED = 20000;

  let keys = [...FIRST];
  /// The key whose bits are marked.
  let shown = "quince";
  /// A remark that is shown before the result of the query, or nothing.
  let notice = "";

  const bits = () => byId("bloom-bits").value;
  const filter = (asked) => ask(`bloom ${bits()}${keyLines(keys, asked)}`);

  function line(bytes, number, probed) {
    const isSet = (bit) => (parseInt(bytes.substr((bit >> 3) * 2, 2), 16) >> (bit & 7)) & 1;
    const place = (bit) => [(bit % COLUMNS) * CELL, Math.floor(bit / COLUMNS) * CELL];
    const rows = LINE_BITS / COLUMNS;
    const picture = svg("svg", { viewBox: `0 0 ${COLUMNS * CELL} ${rows * CELL}`, "aria-hidden": "true" });
    const path = ["", ""];
    for (let bit = 0; bit < LINE_BITS; bit++) {
      const [x, y] = place(bit);
      path[isSet(bit)] += `M${x + 1} ${y + 1}h9v9h-9z`;
    }
    picture.append(svg("path", { class: "clear", d: path[0] }), svg("path", { class: "set", d: path[1] }));
    for (const bit of probed) {
      const [x, y] = place(bit);
      const set = isSet(bit);
      const kind = set ? "probed-set" : "probed-clear";
      picture.append(svg("rect", { class: kind, x: x + 0.5, y: y + 0.5, width: 10, height: 10, rx: 2.5 }));
      if (!set) picture.append(svg("path", { class: "cross", d: `M${x + 3} ${y + 3}l5 5m0 -5l-5 5` }));
    }
    return html("figure", { className: probed.length ? "on" : "" }, picture,
      html("figcaption", { textContent: `line ${number}` + (probed.length ? `: where ${shown} belongs` : "") }));
  }

  /// One probed bit in words: which keys set it, or that it is clear.
  function probe(bit, place, answer, isSet) {
    const setters = keys.filter((_, i) => answer.added[i].line === place.line && answer.added[i].bits.includes(bit));
    const more = setters.length > 2 ? ` and ${setters.length - 2} more` : "";
    const who = isSet ? `set by ${setters.slice(0, 2).join(", ")}${more}` : "clear";
    return html("li", { className: isSet ? "" : "missing", textContent: `bit ${bit}: ${who}` });
  }

  function verdict(place, answer) {
    const bytes = answer.lines[place.line];
    const isSet = (bit) => (parseInt(bytes.substr((bit >> 3) * 2, 2), 16) >> (bit & 7)) & 1;
    const set = place.bits.filter(isSet).length;
    const present = keys.includes(shown);
    const said = place.maybe
      ? present ? "maybe. It was added, and it always passes." : "maybe. It was never added: a false positive."
      : "no. It was certainly not added.";
    const text = html("p", {}, html("strong", { textContent: shown }), ": ",
      html("strong", { className: place.maybe ? "yes" : "no", textContent: said.slice(0, said.indexOf(".")) }),
      said.slice(said.indexOf(".")), place.maybe ? ` All its ${set} bits in line ${place.line} are set.`
        : ` Of its ${place.bits.length} bits in line ${place.line}, ${set} ${set === 1 ? "is" : "are"} set.`);
    return [text, html("ul", {}, ...place.bits.map((bit) => probe(bit, place, answer, isSet(bit))))];
  }

  function draw() {
    byId("bloom-bits-said").textContent = bits();
    const room = MOST_KEYS - keys.length;
    byId("bloom-more").disabled = room < 25;
    byId("bloom-full").textContent = room >= 25 ? ""
      : `${keys.length} of at most ${MOST_KEYS} keys are there: ${room ? `room for ${room}` : "no room"}, not for 25. Start over for more.`;
    const panel = byId("bloom-answer"), lines = byId("bloom-lines"), chips = byId("bloom-keys");
    if (keys.length === 0) {
      byId("bloom-facts").textContent = "No key, no filter.";
      lines.replaceChildren();
      chips.replaceChildren();
      panel.textContent = notice || "Add a key.";
      return;
    }
    const answer = filter(shown ? [shown] : []);
    const place = answer.asked[0];
    const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
    byId("bloom-facts").textContent = [count(answer.keys, "key"), count(answer.lines.length, "line"),
      `k = ${answer.k}`, `${percent(answer.fill)} of the bits set`, `predicted rate ${percent(answer.rate)}`].join(" · ");
    lines.classList.toggle("all", !place);
    lines.replaceChildren(...answer.lines.map((bytes, i) => line(bytes, i, place && place.line === i ? place.bits : [])));
    const parts = notice ? [html("p", { textContent: notice })] : [];
    panel.replaceChildren(...parts, ...(place ? verdict(place, answer) : []));
    chips.replaceChildren(...keys.map((key) => html("button", {
      className: key === shown ? "chip on" : "chip", textContent: key, onclick: () => show(key, true),
    })));
  }

  function show(key, keepFocus) {
    notice = "";
    shown = key;
    draw();
    if (keepFocus) byId("bloom-keys").children[keys.indexOf(key)].focus();
  }

  function add(added) {
    const fresh = added.filter((key) => !keys.includes(key));
    notice = keys.length + fresh.length > MOST_KEYS ? `More than ${MOST_KEYS} keys cannot be drawn.` : "";
    if (!notice) keys.push(...fresh);
    if (added.length === 1) shown = added[0];
    draw();
  }

  /// Queries names that were never added, and shows the first one that passes.
  function find() {
    const names = Array.from({ length: TRIED }, (_, i) => `fruit ${i + 1}`).filter((name) => !keys.includes(name));
    const answer = keys.length ? filter(names) : { asked: [] };
    const passed = answer.asked.filter((place) => place.maybe).length;
    const first = answer.asked.findIndex((place) => place.maybe);
    const asked = `Of ${names.length.toLocaleString("en")} absent keys ${passed.toLocaleString("en")} passed`;
    notice = passed ? `${asked}; this is the first.` : `${asked}. Add keys, or give fewer bits.`;
    if (passed) shown = names[first];
    draw();
  }

  function start() {
    const field = (form, input, act) => byId(form).addEventListener("submit", (event) => {
      event.preventDefault();
      const key = byId(input).value.trim();
      if (key) act(key);
      byId(input).select();
    });
    field("bloom-add", "bloom-key", (key) => add([key]));
    field("bloom-ask", "bloom-asked", (key) => show(key));
    byId("bloom-bits").addEventListener("input", () => { notice = ""; draw(); });
    byId("bloom-more").onclick = () => {
      const from = keys.filter((key) => key.startsWith("key ")).length;
      add(Array.from({ length: 25 }, (_, i) => `key ${from + i + 1}`));
    };
    byId("bloom-find").onclick = find;
    byId("bloom-clear").onclick = () => { keys = []; notice = ""; draw(); };
    draw();
  }

  return { start };
})();
