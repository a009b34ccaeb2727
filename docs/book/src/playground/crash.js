// A write step by step, and a crash after any of the steps: where the write is, and what recovery finds.
"use strict";

const crash = (() => {
  const LANES = ["program", "system", "device"];
  /// The steps of a write and of the flush of its memtable. Each has a name and what it does to the
  /// copies of the write in the program's memory, in the operating system and on the device.
  const STEPS = [
    ["put is called", () => {}],
    ["its record is appended to the log", (at) => at.system.add("log")],
    ["the log is synced", (at) => at.device.add("log"), true],
    ["it enters the memtable: readers see it", (at) => at.program.add("memtable")],
    ["put returns", (at) => { at.isDone = true; }],
    ["the memtable is full and written to a table", (at) => at.system.add("table")],
    ["the table and its folder are synced", (at) => at.device.add("table")],
    ["the MANIFEST lists the table, synced", (at) => {
      for (const copies of [at.system, at.device]) {
        copies.delete("table");
        copies.add("listed table");
      }
    }],
    ["the memtable and the log are deleted", (at) => { at.program.clear(); at.system.delete("log"); at.device.delete("log"); }],
  ];

  const words = (copies) => [...copies].join(", ") || "–";
  const chosen = (name) => document.querySelector(`[name=crash-${name}]:checked`).value;

  /// The steps of a write with this durability.
  const steps = () => STEPS.filter(([, , isSync]) => !isSync || chosen("durability") === "sync");

  /// Where the write is after the first `count` steps.
  function after(count) {
    const at = { program: new Set(), system: new Set(), device: new Set(), isDone: false };
    steps().slice(0, count).forEach(([, does]) => does(at));
    return at;
  }

  /// What recovery finds, and why.
  function recovered(at) {
    const left = chosen("kind") === "kill" ? at.system : at.device;
    const orphan = left.has("table") ? " The table is not listed, so recovery deletes it." : "";
    if (left.has("listed table")) return [true, `The write is there, in the table that the MANIFEST lists.${left.has("log") ? " Its log is no longer needed." : ""}`];
    if (left.has("log")) return [true, `The write is there: recovery replays the log.${orphan}${at.isDone ? "" : " put had not returned, so its caller could not know."}`];
    if (!at.isDone) return [false, "The write is not there. put had not returned, so nothing was promised."];
    return [false, `The write may be lost, although put has returned: nobody had synced the log.${orphan} A buffered write promises to survive a killed process, not a power loss.`];
  }

  function draw() {
    const list = steps(), slider = byId("crash-at");
    slider.max = list.length;
    const count = Number(slider.value), at = after(count), [isThere, why] = recovered(at);
    const wide = Math.max(Math.min(byId("crash-picture").clientWidth, 760), 300), isNarrow = wide < 620;
    const left = isNarrow ? 8 : 310, row = isNarrow ? 44 : 26, top = 26;
    const y = (step) => top + row * step, lane = (i) => left + (wide - left) * [0, 0.24, 0.62][i];
    const image = svg("svg", { width: wide, height: y(list.length + 1) + 40, role: "img", "aria-label": "Where the write is after each step. The text below says what recovery finds." });
    LANES.forEach((name, i) => image.append(svg("text", { class: "strong", x: lane(i), y: 14 }, { program: "program", system: isNarrow ? "system" : "operating system", device: "device" }[name])));
    list.forEach(([name], step) => {
      const group = svg("g", { class: step < count ? "" : "not-reached" });
      const line = y(step) + (isNarrow ? 16 : 17), then = after(step + 1), before = after(step);
      group.append(svg("rect", { class: "run", x: 0, y: y(step) + 1, width: wide, height: row - 2, rx: 4 }), svg("text", { class: "strong", x: 8, y: line }, name));
      LANES.forEach((where, i) => {
        const text = words(then[where]), kind = text === words(before[where]) ? "" : "moving";
        group.append(svg("text", { class: kind, x: lane(i), y: line + (isNarrow ? 18 : 0) }, text));
      });
      group.onclick = () => { slider.value = step + 1; draw(); };
      image.append(group);
    });
    image.append(svg("path", { class: "crash", d: `M0 ${y(count)}H${wide}` }));
    const none = new Set(), kept = [none, chosen("kind") === "kill" ? at.system : none, at.device];
    const said = y(list.length) + (isNarrow ? 20 : 22);
    image.append(svg("text", { class: "strong", x: 8, y: said }, "left after the crash"));
    kept.forEach((what, i) => image.append(svg("text", { class: "strong", x: lane(i), y: said + (isNarrow ? 18 : 0) }, words(what))));
    byId("crash-picture").replaceChildren(image);
    byId("crash-said").textContent = count ? `after “${list[count - 1][0]}”` : "before put";
    byId("crash-facts").textContent = why;
    byId("crash-facts").className = `panel ${isThere ? "yes" : "no"}`;
  }

  function start() {
    byId("crash-at").addEventListener("input", draw);
    for (const choice of document.querySelectorAll("[name^=crash-]")) choice.addEventListener("change", draw);
    onWidth(byId("crash-picture"), draw);
    draw();
  }

  return { start };
})();
