// A lookup that falls through four runs, each with a filter of the library.
"use strict";

const falling = (() => {
  /// The runs from the newest to the oldest, each with its name and its number of keys. A filter of
  /// the page has at most 400 keys.
  const RUNS = [["level 0, a table", 25], ["level 0, a table", 25], ["level 5", 200], ["level 6", 400]];
  const LEFT = 150, ROW = 44, TOP = 14;

  /// The keys of each run, in the order of `RUNS`.
  const keys = [];
  let shown = "user 700";

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

  function picture(steps) {
    const wide = Math.max(Math.min(byId("falling-picture").clientWidth, 760), 300), x = LEFT + 40;
    const high = TOP + ROW * RUNS.length + 34;
    const image = svg("svg", { width: wide, height: high, role: "img", "aria-label": `The way of ${shown}. The text below sums it up.` });
    const y = (run) => TOP + ROW * (run + 0.5);
    RUNS.forEach(([name, count], run) => {
      image.append(svg("rect", { class: "run", x: 0, y: y(run) - 17, width: wide, height: 34, rx: 4 }),
        svg("text", { class: "strong", x: 10, y: y(run) - 1 }, name),
        svg("text", { class: "small", x: 10, y: y(run) + 12 }, `${count} keys`));
    });
    const isFound = steps.at(-1) === "found";
    const end = isFound ? y(steps.length - 1) : TOP + ROW * RUNS.length + 8;
    image.append(svg("path", { class: "axis", d: `M${x} 0V${end}` }));
    if (!isFound) {
      image.append(svg("path", { class: "axis", d: `M${x - 5} ${end - 7}l5 7l5 -7` }), svg("text", { x, y: end + 16, "text-anchor": "middle" }, "not found"));
    }
    const says = { no: "filter: no", vain: "block, in vain", found: "block, found" };
    steps.forEach((step, run) => {
      const side = step === "no" ? 8 : 18;
      image.append(svg("rect", { class: `step-${step}`, x: x - side / 2, y: y(run) - side / 2, width: side, height: side }),
        svg("text", { x: x + 18, y: y(run) + 4 }, says[step]));
    });
    return image;
  }

  const blocks = (steps) => steps.filter((step) => step !== "no").length;

  function draw() {
    byId("falling-said").textContent = bits() || "no filters";
    const steps = falls([shown])[0];
    byId("falling-picture").replaceChildren(picture(steps));
    byId("falling-sum").textContent = `${shown}: ${blocks(steps)} blocks read.`;
  }

  function many(what, asked) {
    const all = falls(asked), sum = all.reduce((sum, steps) => sum + blocks(steps), 0);
    shown = asked[0];
    draw();
    byId("falling-sum").textContent = `${asked.length.toLocaleString("en")} ${what} keys: ${(sum / asked.length).toFixed(2)} blocks read for each.`;
  }

  function start() {
    let next = 0;
    RUNS.forEach(([, count], run) => { keys[run] = Array.from({ length: count }, () => `user ${++next}`); });
    byId("falling-form").addEventListener("submit", (event) => {
      event.preventDefault();
      shown = byId("falling-key").value.trim() || shown;
      draw();
    });
    byId("falling-bits").addEventListener("input", draw);
    const of = (make) => Array.from({ length: 1000 }, (_, i) => make(i));
    byId("falling-absent").onclick = () => many("absent", of((i) => `nobody ${i + 1}`));
    byId("falling-present").onclick = () => many("present", of((i) => `user ${i * 37 % 650 + 1}`));
    onWidth(byId("falling-picture"), draw);
    draw();
  }

  return { start };
})();
