// A lookup that falls through four runs, each with a filter of the library.
"use strict";

const falling = (() => {
  /// The runs from the newest to the oldest, each with its name and its number of keys. A filter of
  /// the page has at most 400 keys.
  const RUNS = [["level 0, a table", 25], ["level 0, a table", 25], ["level 5", 200], ["level 6", 400]];
  const LEFT = 150, ROW = 44, TOP = 14;

  /// The keys of each run, in the order of `RUNS`.
  const keys = [];
  /// What was looked up: its name, and its keys.
  let name = "user 700", asked = [name];

  const bits = () => Number(byId("falling-bits").value);

  /// For each run and each queried key: whether the run's filter says "maybe".
  const maybes = (asked) => keys.map((run) => bits() === 0 ? asked.map(() => true)
    : ask(`bloom ${bits()}${keyLines(run, asked)}`).asked.map((place) => place.maybe));

  /// For each key, the result in each run that its lookup searches: "no" of the filter, "vain" or
  /// "found".
  function falls(asked) {
    const answers = maybes(asked);
    return asked.map((key, i) => {
      const steps = [];
      for (let run = 0; run < RUNS.length; run++) {
        const step = !answers[run][i] ? "no" : keys[run].includes(key) ? "found" : "vain";
        steps.push(step);
        if (step === "found") break;
      }
      return steps;
    });
  }

  const blocks = (steps) => steps.filter((step) => step !== "no").length;
  const says = { no: "filter: no", vain: "block, in vain", found: "block, found" };

  /// The runs, with an arrow down to where the lookups end.
  function runs(wide, x, end, isFound) {
    const image = svg("svg", { width: wide, height: TOP + ROW * RUNS.length + 34, role: "img", "aria-label": `The way of ${name}. The text below sums it up.` });
    RUNS.forEach(([run, count], number) => {
      const y = middle(number);
      image.append(svg("rect", { class: "run", x: 0, y: y - 17, width: wide, height: 34, rx: 4 }),
        svg("text", { class: "strong", x: 10, y: y - 1 }, run),
        svg("text", { class: "small", x: 10, y: y + 12 }, `${count} keys`));
    });
    image.append(svg("path", { class: "axis", d: `M${x} 0V${end}` }));
    if (!isFound) {
      image.append(svg("path", { class: "axis", d: `M${x - 5} ${end - 7}l5 7l5 -7` }), svg("text", { x, y: end + 16, "text-anchor": "middle" }, "not found"));
    }
    return image;
  }

  const middle = (run) => TOP + ROW * (run + 0.5);
  const bottom = TOP + ROW * RUNS.length + 8;
  const width = () => Math.max(Math.min(byId("falling-picture").clientWidth, 760), 300);

  /// One lookup: a mark and a word for each run that it reaches.
  function one(steps) {
    const x = LEFT + 40, isFound = steps.at(-1) === "found";
    const image = runs(width(), x, isFound ? middle(steps.length - 1) : bottom, isFound);
    steps.forEach((step, run) => {
      const side = step === "no" ? 8 : 18, y = middle(run);
      image.append(svg("rect", { class: `step-${step}`, x: x - side / 2, y: y - side / 2, width: side, height: side }),
        svg("text", { x: x + 18, y: y + 4 }, says[step]));
    });
    return image;
  }

  /// Many lookups: for each run a bar as long as the share of the lookups that reach it, divided by
  /// what they find there.
  function many(all) {
    const wide = width(), room = wide - LEFT - 14;
    const image = runs(wide, LEFT - 8, bottom, all.every((steps) => steps.at(-1) === "found"));
    RUNS.forEach((_, run) => {
      const y = middle(run), said = [];
      let x = LEFT;
      for (const kind of Object.keys(says)) {
        const count = all.filter((steps) => steps[run] === kind).length;
        if (!count) continue;
        const part = Math.max(count / all.length * room, 1);
        image.append(svg("rect", { class: `step-${kind}`, x, y: y + 1, width: part, height: 12 }));
        said.push(`${count} ${{ no: "no", vain: "in vain", found: "found" }[kind]}`);
        x += part;
      }
      image.append(svg("text", { x: LEFT, y: y - 4 }, said.join(", ")));
    });
    return image;
  }

  function draw() {
    byId("falling-said").textContent = bits() || "no filters";
    const all = falls(asked), sum = all.reduce((sum, steps) => sum + blocks(steps), 0);
    byId("falling-picture").replaceChildren(all.length > 1 ? many(all) : one(all[0]));
    byId("falling-sum").textContent = all.length > 1
      ? `${name}: ${(sum / all.length).toFixed(2)} blocks read for each.` : `${name}: ${sum} blocks read.`;
  }

  function show(what, keys) {
    [name, asked] = [what, keys];
    draw();
  }

  function start() {
    let next = 0;
    RUNS.forEach(([, count], run) => { keys[run] = Array.from({ length: count }, () => `user ${++next}`); });
    byId("falling-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const key = byId("falling-key").value.trim();
      if (key) show(key, [key]);
    });
    byId("falling-bits").addEventListener("input", draw);
    const of = (make) => Array.from({ length: 1000 }, (_, i) => make(i));
    byId("falling-absent").onclick = () => show("1,000 absent keys", of((i) => `nobody ${i + 1}`));
    byId("falling-present").onclick = () => show("1,000 present keys", of((i) => `user ${i * 37 % 650 + 1}`));
    onWidth(byId("falling-picture"), draw);
    draw();
  }

  return { start };
})();
