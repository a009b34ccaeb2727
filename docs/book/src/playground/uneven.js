// How many keys the lines of the library's Bloom filters get, and which lines the false positives
// come from.
"use strict";

const uneven = (() => {
  /// The number of filters, and the keys of each: as many as a request may have.
  const FILTERS = 60, KEYS = 400;
  const COLUMNS = 16;

  let timer = null;
  const bits = () => Number(byId("uneven-bits").value);

  /// For each line of all filters: its number of keys, and the share of absent keys that it lets
  /// through.
  function lines() {
    const all = [];
    for (let number = 0; number < FILTERS; number++) {
      const keys = Array.from({ length: KEYS }, (_, i) => `key ${number} ${i}`);
      const answer = ask(`bloom ${bits()}${keyLines(keys, [])}`);
      const counts = answer.lines.map(() => 0);
      answer.added.forEach((place) => counts[place.line]++);
      answer.lines.forEach((bytes, line) => {
        const set = [...bytes].reduce((sum, digit) => sum + [0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4][parseInt(digit, 16)], 0);
        all.push([counts[line], (set / 512) ** answer.k]);
      });
    }
    return all;
  }

  function draw() {
    byId("uneven-said").textContent = bits();
    const all = lines(), counts = all.map(([keys]) => keys);
    const least = Math.min(...counts), step = Math.max(1, Math.ceil((Math.max(...counts) - least + 1) / COLUMNS));
    const columns = Math.ceil((Math.max(...counts) - least + 1) / step);
    const shares = Array.from({ length: columns }, () => [0, 0]);
    const passed = all.reduce((sum, [, rate]) => sum + rate, 0);
    for (const [keys, rate] of all) {
      const column = shares[Math.floor((keys - least) / step)];
      column[0] += 1 / all.length;
      column[1] += rate / passed;
    }
    const wide = Math.max(Math.min(byId("uneven-picture").clientWidth, 760), 300), high = 300;
    const left = 46, right = 8, top = 24, bottom = 48;
    const most = Math.ceil(Math.max(...shares.flat()) * 10) / 10;
    const image = svg("svg", { width: wide, height: high, role: "img", "aria-label": "Lines by their keys. The text below has the rates." });
    const x = (column) => left + column * (wide - left - right) / columns, y = (share) => high - bottom - share / most * (high - top - bottom);
    for (let share = 0; share <= most + 1e-9; share += 0.1) {
      image.append(svg("path", { class: "grid", d: `M${left} ${y(share)}H${wide - right}` }), svg("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, Math.round(share * 100)));
    }
    const one = (x(1) - x(0) - 4) / 2;
    shares.forEach((pair, column) => {
      pair.forEach((share, i) => image.append(svg("rect", { class: i ? "of-passed" : "of-lines", x: x(column) + 2 + i * one, y: y(share), width: Math.max(one - 1, 1), height: high - bottom - y(share) })));
      if (column % Math.ceil(columns / 8) === 0) image.append(svg("text", { class: "small", x: (x(column) + x(column + 1)) / 2, y: high - bottom + 15, "text-anchor": "middle" }, least + column * step));
    });
    image.append(svg("path", { class: "axis", d: `M${left} ${high - bottom}H${wide - right}` }),
      svg("text", { x: 0, y: 12 }, "share (%)"),
      svg("text", { x: (left + wide - right) / 2, y: high - 10, "text-anchor": "middle" }, step > 1 ? `keys of the line (columns of ${step})` : "keys of the line"));
    byId("uneven-picture").replaceChildren(image);
    const rates = all.map(([, rate]) => rate).sort((a, b) => a - b);
    byId("uneven-facts").textContent = `${all.length} lines with ${least} to ${Math.max(...counts)} keys. The rate of a line: ${percent(rates[0])} to ${percent(rates.at(-1))}, ${percent(passed / all.length)} on average.`;
  }

  function start() {
    byId("uneven-bits").addEventListener("input", () => {
      byId("uneven-said").textContent = bits();
      clearTimeout(timer);
      timer = setTimeout(draw, 120);
    });
    onWidth(byId("uneven-picture"), draw);
    draw();
  }

  return { start };
})();
