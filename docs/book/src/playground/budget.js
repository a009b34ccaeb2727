// Bits for each run of a tree, as bars to drag, and the division that wastes the fewest reads.
"use strict";

const budget = (() => {
  const RUNS = [100, 1000, 10000, 100000];
  const MOST = 30, EQUAL = 10, STEP = 0.1;
  const LEFT = 110, ROW = 54, TOP = 26;

  let bits = RUNS.map(() => EQUAL);
  /// The elements of the bars. They are kept when the picture is redrawn, so that the focused bar
  /// keeps the focus.
  let bars = [];
  /// Logarithms of the rates for 0, 0.5, 1 … bits.
  const rates = [0];

  /// The rate of a filter of `bits` bits a key, interpolated between the multiples of half a bit.
  function rate(bits) {
    const at = Math.min(bits, MOST) * 2, low = Math.floor(at);
    return Math.exp(rates[low] + (rates[Math.min(low + 1, rates.length - 1)] - rates[low]) * (at - low));
  }

  const memory = (bits) => bits.reduce((sum, bits, run) => sum + bits * RUNS[run], 0) / 8;
  const wasted = (bits) => bits.reduce((sum, bits) => sum + rate(bits), 0);

  /// The fewest bits a key whose rate is at most `wanted`.
  function bitsFor(wanted) {
    let low = 0, high = MOST;
    for (let i = 0; i < 40; i++) {
      const middle = (low + high) / 2;
      if (rate(middle) > wanted) low = middle; else high = middle;
    }
    return high;
  }

  /// The bits a key of each run by Monkey's rule, for filters of `bytes` bytes in all: the rate of
  /// a run is proportional to its number of keys.
  function best(bytes) {
    const divided = (log) => RUNS.map((keys) => bitsFor(Math.min(1, Math.max(1e-4, Math.exp(log) * keys))));
    let low = -40, high = 0;
    for (let i = 0; i < 60; i++) {
      const middle = (low + high) / 2;
      if (memory(divided(middle)) > bytes) low = middle; else high = middle;
    }
    return divided(high);
  }

  function set(run, wanted) {
    bits[run] = Math.round(Math.min(MOST, Math.max(0, wanted)) / STEP) * STEP;
    draw();
  }

  /// A bar: a slider that can be dragged, or moved by the arrow keys.
  function bar(run) {
    const element = svg("g", { class: "bar", role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuemax": MOST, "aria-label": `bits per key of the run of ${RUNS[run].toLocaleString("en")} keys` });
    element.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 0.5, ArrowUp: 0.5, ArrowLeft: -0.5, ArrowDown: -0.5, PageUp: 2, PageDown: -2 }[event.key];
      if (steps === undefined) return;
      event.preventDefault();
      set(run, bits[run] + steps);
    });
    const drag = (event) => {
      const image = element.ownerSVGElement.getBoundingClientRect();
      set(run, (event.clientX - image.left - LEFT) / unit());
    };
    element.addEventListener("pointerdown", (event) => {
      element.setPointerCapture(event.pointerId);
      drag(event);
    });
    element.addEventListener("pointermove", (event) => { if (element.hasPointerCapture(event.pointerId)) drag(event); });
    return element;
  }

  const wide = () => Math.max(Math.min(byId("budget-picture").clientWidth, 760), 300);
  const unit = () => (wide() - LEFT - 20) / MOST;

  function draw() {
    const image = byId("budget-picture").firstChild, high = TOP + ROW * RUNS.length + 40;
    image.setAttribute("width", wide());
    image.setAttribute("height", high);
    const bottom = TOP + ROW * RUNS.length;
    const still = [];
    for (let tick = 0; tick <= MOST; tick += 5) {
      const x = LEFT + tick * unit();
      still.push(svg("path", { class: "grid", d: `M${x} ${TOP - 8}V${bottom}` }), svg("text", { x, y: bottom + 16, "text-anchor": "middle" }, tick));
    }
    still.push(svg("text", { x: LEFT + MOST * unit() / 2, y: high - 6, "text-anchor": "middle" }, "bits per key"));
    const optimum = best(memory(bits));
    RUNS.forEach((keys, run) => {
      const y = TOP + ROW * run, end = LEFT + bits[run] * unit();
      still.push(svg("text", { x: LEFT - 10, y: y + 30, "text-anchor": "end" }, `${keys.toLocaleString("en")} keys`));
      bars[run].setAttribute("aria-valuenow", bits[run].toFixed(1));
      bars[run].replaceChildren(
        svg("rect", { class: "reach", x: LEFT, y: y - 4, width: MOST * unit(), height: ROW - 4 }),
        // The figures are above the bar, so that neither the bar nor the optimum covers them.
        svg("text", { class: "strong over", x: LEFT, y: y + 9 }, `${bits[run].toFixed(1)} bits, ${percent(rate(bits[run]))}`),
        svg("rect", { class: "of-lines", x: LEFT, y: y + 16, width: end - LEFT, height: 20, rx: 3 }),
        svg("path", { class: "optimum", d: `M${LEFT + optimum[run] * unit()} ${y + 13}v26` }));
    });
    image.replaceChildren(...still, ...bars);
    const size = memory(bits), equal = memory(RUNS.map(() => EQUAL));
    const kb = (bytes) => `${(bytes / 1000).toFixed(1)} KB`;
    byId("budget-facts").textContent = `${kb(size)} of filters (10 bits for all: ${kb(equal)}). An absent lookup reads ${wasted(bits).toFixed(4)} blocks in vain; with Monkey’s optimum for the same memory (the lines across the bars) ${wasted(optimum).toFixed(4)}.`;
  }

  function start() {
    for (let half = 1; half <= 2 * MOST; half++) rates.push(Math.log(ask(`rate bloom ${half / 2} 20000 0`).rate));
    bars = RUNS.map((_, run) => bar(run));
    byId("budget-picture").append(svg("svg", { role: "group", "aria-label": "Bits per key of each run" }));
    byId("budget-equal").onclick = () => { bits = RUNS.map(() => EQUAL); draw(); };
    byId("budget-best").onclick = () => { bits = best(memory(bits)); draw(); };
    onWidth(byId("budget-picture"), draw);
    draw();
  }

  return { start };
})();
