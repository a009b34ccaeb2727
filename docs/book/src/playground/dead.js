// What a table holds after deletions, before a merge and after it. The bytes are computed, without
// compression.
"use strict";

const dead = (() => {
  const KEY = 20, TRAILER = 8;

  function draw() {
    const part = Number(byId("dead-part").value) / 100, value = Number(byId("dead-value").value);
    byId("dead-part-said").textContent = `${Math.round(part * 100)} % of the keys`;
    byId("dead-value-said").textContent = value;
    const entry = KEY + TRAILER + value, tombstone = KEY + TRAILER;
    const alive = (1 - part) * entry, hidden = part * entry, tombstones = part * tombstone;
    const all = alive + hidden + tombstones, share = (hidden + tombstones) / all;
    const wide = Math.max(Math.min(byId("dead-picture").clientWidth, 760), 300), left = 104, most = entry + tombstone;
    const image = svg("svg", { width: wide, height: 128, role: "img", "aria-label": "Bytes before and after a merge. The text below has the figures." });
    const x = (bytes) => left + bytes / most * (wide - left - 10);
    const bar = (y, name, pieces) => {
      image.append(svg("text", { x: left - 10, y: y + 19, "text-anchor": "end" }, name));
      let from = 0;
      for (const [kind, bytes] of pieces) {
        image.append(svg("rect", { class: kind, x: x(from), y, width: x(from + bytes) - x(from), height: 28 }));
        from += bytes;
      }
    };
    bar(8, "before a merge", [["of-alive", alive], ["of-passed", hidden], ["of-tombstones", tombstones]]);
    bar(46, "after it", [["of-alive", alive]]);
    for (let percent = 0; percent <= 100; percent += 50) {
      const at = x(entry * percent / 100);
      image.append(svg("path", { class: "axis", d: `M${at} 84v5` }), svg("text", { x: at, y: 102, "text-anchor": "middle" }, `${percent} %`));
    }
    image.append(svg("path", { class: "axis", d: `M${left} 84H${wide - 10}` }), svg("text", { x: (left + wide) / 2, y: 122, "text-anchor": "middle" }, "bytes (% of those before the deletions)"));
    byId("dead-picture").replaceChildren(image);
    const worth = share >= 1 / 3 ? "worth a merge even while writes go on" : share >= 0.1 ? "worth a merge when nothing is written" : "not worth a merge yet";
    const passed = part < 1 ? `A scan passes ${(2 * part / (1 - part)).toFixed(2)} dead entries for each living one.` : "A scan passes all of them and finds nothing.";
    byId("dead-facts").textContent = `Alive ${percent(alive / all)}, hidden entries ${percent(hidden / all)}, tombstones ${percent(tombstones / all)}. Dead share ${percent(share)}: ${worth}. ${passed}`;
  }

  function start() {
    for (const id of ["dead-part", "dead-value"]) byId(id).addEventListener("input", draw);
    onWidth(byId("dead-picture"), draw);
    draw();
  }

  return { start };
})();
