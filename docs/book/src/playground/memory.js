// Filters that are larger than the cache, whole and in parts: a model of what the cache evicts. The
// filters have the sizes of the library's.
"use strict";

const memory = (() => {
  const TABLES = 8, KEYS = 33000, PART_KIB = 4, BLOCK_KIB = 4;

  /// The size of a table's filter in KiB, and its false-positive rate.
  let size = 0, rate = 0;
  let forms = {};

  /// An empty cache that evicts the least recently used unit. The `units` have `kib` KiB each.
  const empty = (units, kib) => ({ units, kib, used: new Map(), read: 0, lookups: 0, now: -1 });

  /// A pseudorandom number from 0 to `end - 1`. Each opening of the page has the same sequence.
  let state = 1;
  function random(end) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * end);
  }

  const cache = () => Number(byId("memory-cache").value);

  function use(form, unit) {
    if (form.used.has(unit)) form.used.delete(unit);
    else form.read += form.kib;
    form.used.set(unit, true);
    while (form.used.size > 0 && form.used.size * form.kib > cache()) form.used.delete(form.used.keys().next().value);
    form.now = unit;
  }

  /// Looks up an absent key, which is in the range of one random table, and of one random part of
  /// that table's filter.
  function lookUp() {
    const parts = Math.ceil(size / PART_KIB), table = random(TABLES), part = random(parts);
    const passes = random(1e6) < rate * 1e6;
    use(forms.whole, table);
    use(forms.parts, table * parts + part);
    for (const form of Object.values(forms)) {
      form.lookups++;
      if (passes) form.read += BLOCK_KIB;
    }
  }

  function clear() {
    const parts = Math.ceil(size / PART_KIB);
    forms = { whole: empty(TABLES, size), parts: empty(TABLES * parts, PART_KIB) };
  }

  function draw() {
    byId("memory-said").textContent = `${cache()} KiB, of ${Math.round(size * TABLES)} KiB`;
    const parts = Math.ceil(size / PART_KIB), cell = 13, left = 70, column = Math.max(left + parts * cell + 30, 330);
    const stacked = byId("memory-picture").clientWidth < 2 * column;
    const high = 50 + TABLES * 18;
    const image = svg("svg", { width: stacked ? column : 2 * column, height: stacked ? 2 * high : high, role: "img", "aria-label": "Filters in memory. The captions have the figures." });
    Object.entries(forms).forEach(([name, form], number) => {
      const [x, y] = stacked ? [0, number * high] : [number * column, 0];
      const read = form.lookups ? `${(form.read / form.lookups).toFixed(2)} KiB read a lookup` : "";
      image.append(svg("text", { class: "strong", x, y: y + 14 }, name === "whole" ? "whole filters" : "in parts"), svg("text", { x: x + 110, y: y + 14 }, read));
      for (let table = 0; table < TABLES; table++) {
        const top = y + 28 + table * 18;
        image.append(svg("text", { class: "small", x: x + left - 8, y: top + 10, "text-anchor": "end" }, `table ${table + 1}`));
        for (let part = 0; part < parts; part++) {
          const unit = name === "whole" ? table : table * parts + part;
          const kind = (form.used.has(unit) ? "resident" : "evicted") + (form.now === unit ? " now" : "");
          image.append(svg("rect", { class: kind, x: x + left + part * cell, y: top, width: 11, height: 11 }));
        }
      }
    });
    byId("memory-picture").replaceChildren(image);
  }

  function start() {
    const built = ask(`rate bloom 10 ${KEYS} 0`);
    size = built.bits * KEYS / 8 / 1024;
    rate = built.rate;
    const run = (lookups) => { for (let i = 0; i < lookups; i++) lookUp(); draw(); };
    const restart = () => { clear(); for (let i = 0; i < 200; i++) lookUp(); Object.values(forms).forEach((form) => { form.read = form.lookups = 0; }); run(1000); };
    byId("memory-cache").addEventListener("input", restart);
    byId("memory-one").onclick = () => run(1);
    byId("memory-many").onclick = () => run(1000);
    onWidth(byId("memory-picture"), draw);
    restart();
  }

  return { start };
})();
