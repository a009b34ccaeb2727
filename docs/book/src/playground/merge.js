// Two compactions, one key at a time: which entries are dropped, and when a tombstone leaves.
"use strict";

const merge = (() => {
  const KEYS = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"];
  /// The runs from the newest to the oldest. An entry is the number of its write; a negative one is a tombstone.
  const RUNS = [
    ["level 0, newer", { bee: -15, cat: 14, gnu: 13 }],
    ["level 0, older", { ant: 12, bee: 11, dog: -10, eel: 9 }],
    ["level 1", { ant: 7, bee: 6, cat: 5, fox: 4 }],
    ["level 2", { dog: 3, eel: 2, hen: 1 }],
  ];
  /// The merges: the first and the last of the runs that each reads, and where its output goes.
  const MERGES = [[0, 2, "level 1"], [2, 3, "level 2"]];
  const LEFT = 98, ROW = 38, TOP = 24;

  /// The states from the first to the last: the runs, the output, the current key, what was dropped
  /// at it, and a caption.
  const states = [];

  const named = (entry) => entry < 0 ? `the tombstone ${-entry}` : `the value ${entry}`;

  /// What a merge does with one key, whose entries come newest first.
  function decide(key, entries, older) {
    const [newest, ...hidden] = entries;
    const dropped = hidden.length ? ` It hides ${hidden.map(named).join(" and ")}, which ${hidden.length > 1 ? "are" : "is"} dropped.` : "";
    if (newest > 0) return [newest, `${key}: the newest entry is ${named(newest)}. It is kept.${dropped}`];
    const range = older && Object.keys(older);
    const mayBe = range && key >= range[0] && key <= range.at(-1);
    const why = mayBe ? `It stays, because ${key} is in the key range of level 2, which may have an older entry.`
      : older ? `Level 2, from ${range[0]} to ${range.at(-1)}, cannot have ${key}. So the tombstone leaves too.`
        : "No run is older, so the tombstone leaves too.";
    return [mayBe ? newest : null, `${key}: the newest entry is ${named(newest)}.${dropped} ${why}`];
  }

  function play() {
    let runs = RUNS.map(([name, entries]) => ({ name, entries }));
    const add = (state) => states.push({ runs, output: null, key: null, dropped: [], ...state });
    add({ caption: "Numbers count the writes: a larger one is newer. Squares are values, circles are tombstones. The first compaction merges level 0 into level 1." });
    for (const [first, last, name] of MERGES) {
      const from = runs.findIndex((run) => run.name === RUNS[first][0]), to = runs.findIndex((run) => run.name === RUNS[last][0]);
      const inputs = runs.slice(from, to + 1), older = runs[to + 1]?.entries;
      const output = {};
      for (const key of KEYS) {
        const entries = inputs.map((run) => run.entries[key]).filter((entry) => entry !== undefined);
        if (!entries.length) continue;
        const [kept, caption] = decide(key, entries, older);
        if (kept !== null) output[key] = kept;
        add({ output: { name: `new ${name}`, entries: { ...output } }, from, to, key, dropped: entries.filter((entry) => entry !== kept), caption });
      }
      runs = [...runs.slice(0, from), { name, entries: output }, ...runs.slice(to + 1)];
      const next = runs.length > 1 ? "The next compaction merges it into level 2." : "The whole tree is one run, without a tombstone.";
      add({ caption: `The inputs are deleted, and the new ${name} takes their place. ${next}` });
    }
  }

  function entry(x, y, number, kind) {
    const group = svg("g", { class: `entry ${kind}` });
    group.append(number < 0 ? svg("circle", { class: "of-tombstones", cx: x, cy: y, r: 12 })
      : svg("rect", { class: "of-alive", x: x - 12, y: y - 12, width: 24, height: 24, rx: 3 }));
    group.append(svg("text", { class: "inside", x, y: y + 4, "text-anchor": "middle" }, Math.abs(number)));
    return group;
  }

  function draw() {
    const at = Number(byId("merge-at").value), state = states[at];
    const wide = Math.max(Math.min(byId("merge-picture").clientWidth, 620), 318), column = (wide - LEFT - 4) / KEYS.length;
    const image = svg("svg", { width: wide, height: TOP + ROW * (RUNS.length + 1) + 8, role: "img", "aria-label": "The entries of each run. The text above says what the step does." });
    const x = (key) => LEFT + column * (KEYS.indexOf(key) + 0.5);
    for (const key of KEYS) {
      image.append(svg("text", { class: key === state.key ? "moving" : "", x: x(key), y: 14, "text-anchor": "middle" }, key));
    }
    if (state.key) image.append(svg("rect", { class: "highlight", x: x(state.key) - column / 2, y: 0, width: column, height: TOP + ROW * (RUNS.length + 1) + 8 }));
    const rows = [...state.runs.map((run, i) => ({ ...run, reads: state.output && i >= state.from && i <= state.to }))];
    if (state.output) rows.push({ ...state.output, isOutput: true });
    rows.forEach((run, row) => {
      const y = TOP + ROW * (row + 0.5) + (run.isOutput ? 8 : 0);
      image.append(svg("rect", { class: run.isOutput ? "reach framed" : "run", x: 0, y: y - 16, width: wide, height: 32, rx: 4 }),
        svg("text", { class: run.reads || run.isOutput ? "strong" : "", x: 6, y: y + 4 }, run.name));
      for (const [key, number] of Object.entries(run.entries)) {
        const isOver = run.reads && state.key && key < state.key;
        const kind = run.reads && key === state.key && state.dropped.includes(number) ? "dropped" : isOver ? "over" : "";
        image.append(entry(x(key), y, number, kind));
      }
    });
    byId("merge-picture").replaceChildren(image);
    byId("merge-caption").textContent = state.caption;
    byId("merge-count").textContent = `step ${at} of ${states.length - 1}`;
    byId("merge-back").disabled = at === 0;
    byId("merge-next").disabled = at === states.length - 1;
    const entries = state.runs.flatMap((run) => Object.values(run.entries));
    byId("merge-facts").textContent = `Entries in the tree: ${entries.length}. Tombstones: ${entries.filter((number) => number < 0).length}.`;
  }

  function start() {
    play();
    byId("merge-at").max = states.length - 1;
    byId("merge-at").addEventListener("input", draw);
    const step = (by) => { byId("merge-at").value = Number(byId("merge-at").value) + by; draw(); };
    byId("merge-back").onclick = () => step(-1);
    byId("merge-next").onclick = () => step(1);
    onWidth(byId("merge-picture"), draw);
    draw();
  }

  return { start };
})();
