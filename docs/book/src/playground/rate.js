// The false-positive rate of four families against their bits a key: predicted curves and counted
// marks.
"use strict";

const rate = (() => {
  const FAMILIES = ["bloom", "ribbon", "burr", "fuse"];
  const LEAST = 1, MOST = 20;
  /// The lowest rate of the picture.
  const FLOOR = 1e-7;
  /// How many absent keys are queried: first a few, so that a mark appears at once, then more. Each
  /// count is short, because the slider waits until it has ended.
  const FIRST_ASKED = 20000, ASKED = 200000;

  /// By family: the predicted points in the order of their bits, and the counts by requested bits.
  let curves = {}, marks = {};
  /// The pieces of work to do, run one at a time, so that the page can handle input between them.
  let queue = [], busy = false;

  const keys = () => byId("rate-keys").value;
  const bits = () => Number(byId("rate-bits").value);
  const measure = (family, bits, asked) => ask(`rate ${family} ${bits} ${keys()} ${asked}`);

  /// Wilson's interval: the rates whose expected count is at most 1.96 standard deviations from the
  /// observed count.
  function interval(passed, asked) {
    const z = 1.959963984540054, share = passed / asked;
    const center = share + z * z / (2 * asked), scale = 1 + z * z / asked;
    const spread = z * Math.sqrt(share * (1 - share) / asked + z * z / (4 * asked * asked));
    return [Math.max(0, (center - spread) / scale), Math.min(1, (center + spread) / scale)];
  }

  function work() {
    // A piece that is no longer wanted returns false; the next piece is run at once.
    let piece = queue.shift();
    while (piece && piece() === false) piece = queue.shift();
    busy = piece !== undefined;
    if (busy) return setTimeout(work);
    byId("rate-all").disabled = false;
    draw();
  }

  function enqueue(pieces) {
    queue = [...queue, ...pieces];
    if (!busy) {
      busy = true;
      setTimeout(work);
    }
  }

  /// Computes the marks for the slider's bits before all else. Marks for bits that the slider has
  /// left meanwhile are not computed.
  function chosen() {
    const here = bits(), isHere = () => bits() === here;
    queue = [...counts([here], FIRST_ASKED, isHere), ...counts([here], ASKED, isHere), ...queue];
    enqueue([]);
  }

  // -- what is computed --------------------------------------------------------------------------------

  function predict() {
    queue = [];
    curves = Object.fromEntries(FAMILIES.map((family) => [family, []]));
    marks = Object.fromEntries(FAMILIES.map((family) => [family, new Map()]));
    for (let bits = LEAST; bits <= MOST; bits += 0.5) {
      for (const family of FAMILIES) {
        queue.push(() => {
          const built = measure(family, bits, 0);
          if (!built.error) curves[family].push([built.bits, built.rate]);
          if (bits % 2 === 1 && family === FAMILIES[FAMILIES.length - 1]) draw();
        });
      }
    }
    chosen();
  }

  /// Pieces of work that count passing keys. They do nothing once `isWanted` returns false.
  function counts(sizes, asked, isWanted = () => true) {
    return sizes.flatMap((bits) => FAMILIES.map((family) => () => {
      const known = marks[family].get(bits);
      if (!isWanted() || known && known.asked >= asked) return false;
      marks[family].set(bits, measure(family, bits, asked));
      return draw();
    }));
  }

  // -- what is drawn -------------------------------------------------------------------------------------

  /// Each family has a mark of its own shape, for readers who cannot tell the colors apart.
  function mark(family, x, y, now) {
    const kind = now ? "mark now" : "mark";
    if (family === "bloom") return svg("circle", { class: kind, cx: x, cy: y, r: 4 });
    if (family === "ribbon") return svg("rect", { class: kind, x: x - 3.6, y: y - 3.6, width: 7.2, height: 7.2 });
    if (family === "fuse") return svg("path", { class: kind, d: `M${x} ${y - 5}l5 5l-5 5l-5 -5z` });
    return svg("path", { class: kind, d: `M${x} ${y - 5}l5 8.5h-10z` });
  }

  function picture() {
    const wide = Math.min(byId("rate-picture").clientWidth, 860), high = wide < 500 ? 340 : 420;
    const left = 76, right = 12, top = 30, bottom = 44;
    const x = (bits) => left + (bits - LEAST) / (MOST - LEAST) * (wide - left - right);
    const y = (rate) => top + Math.log10(Math.max(rate, FLOOR)) / Math.log10(FLOOR) * (high - top - bottom);
    const image = svg("svg", { width: wide, height: high, role: "img", "aria-label": "False-positive rate against bits per key. The table below has the figures." });
    const text = (x, y, said, anchor) => image.append(svg("text", { x, y, "text-anchor": anchor }, said));
    for (let power = 0; power >= Math.round(Math.log10(FLOOR)); power--) {
      const at = y(10 ** power);
      image.append(svg("path", { class: "grid", d: `M${left} ${at}H${wide - right}` }));
      text(left - 8, at + 4, percent(10 ** power), "end");
    }
    for (let bits = LEAST; bits <= MOST; bits++) {
      const marked = bits === 1 || bits % 5 === 0;
      image.append(svg("path", { class: "axis", d: `M${x(bits)} ${high - bottom}v${marked ? 6 : 3}` }));
      if (marked) text(x(bits), high - bottom + 20, bits, "middle");
    }
    image.append(svg("path", { class: "axis", d: `M${left} ${top}V${high - bottom}H${wide - right}` }));
    text((left + wide - right) / 2, high - 6, "stored bits per key", "middle");
    text(0, 12, "false-positive rate (% of absent keys)", "start");
    image.append(svg("path", { class: "chosen", d: `M${x(bits())} ${top}V${high - bottom}` }));
    image.append(svg("path", { class: "curve bound", d: `M${x(LEAST)} ${y(2 ** -LEAST)}L${x(MOST)} ${y(2 ** -MOST)}` }));
    const inside = ([bits]) => bits >= LEAST && bits <= MOST + 0.3;
    for (const family of FAMILIES) {
      const points = curves[family].filter(inside).map(([bits, rate]) => `${x(bits).toFixed(1)} ${y(rate).toFixed(1)}`);
      const group = svg("g", { class: `in-${family}` });
      if (points.length) group.append(svg("path", { class: "curve", d: `M${points.join("L")}` }));
      for (const [asked, seen] of marks[family]) {
        if (seen.error || !inside([seen.bits])) continue;
        const [low, high] = interval(seen.passed, seen.asked);
        const at = x(seen.bits);
        group.append(svg("path", { class: "interval", d: `M${at} ${y(low)}V${y(high)}m-3 0h6` }));
        if (seen.passed) group.append(mark(family, at, y(seen.passed / seen.asked), asked === bits()));
      }
      image.append(group);
    }
    return image;
  }

  function legend() {
    const sample = (kind, curve, ...marks) => svg("svg", { class: "curve-sample", viewBox: "0 0 34 15" },
      svg("g", { class: kind }, svg("path", { class: curve, d: "M1 8H33" }), ...marks));
    byId("rate-legend").replaceChildren(
      ...FAMILIES.map((family) => html("span", {}, sample(`in-${family}`, "curve", mark(family, 17, 8)), family)),
      html("span", {}, sample("", "curve bound"), "lower bound of any filter"));
  }

  function table() {
    const head = ["family", "stored bits", "predicted", "counted, 95 % interval"];
    const rows = FAMILIES.map((family) => {
      const seen = marks[family].get(bits());
      if (!seen || seen.error) return [family, "–", "–", seen ? "cannot be built" : "…", ""];
      const [low, high] = interval(seen.passed, seen.asked);
      const range = html("small", { textContent: `${percent(low)} to ${percent(high)}` });
      const passed = html("small", { textContent: `${seen.passed.toLocaleString("en")} passed` });
      const name = seen.family === family ? family : html("span", {}, family, html("small", { textContent: `built: ${seen.family}` }));
      return [name, seen.bits.toFixed(2), percent(seen.rate), html("span", {}, percent(seen.passed / seen.asked), range, passed)];
    });
    byId("rate-table").replaceChildren(
      html("thead", {}, html("tr", {}, ...head.map((title) => html("th", { textContent: title, scope: "col" })))),
      html("tbody", {}, ...rows.map((row) => html("tr", {}, ...row.map((cell) => html("td", {}, cell))))));
    const seen = marks.bloom.get(bits());
    byId("rate-note").textContent = seen && !seen.error
      ? `${Number(keys()).toLocaleString("en")} keys in each filter, ${seen.asked.toLocaleString("en")} absent keys asked of each.` : "";
  }

  function draw() {
    byId("rate-bits-said").textContent = bits();
    byId("rate-picture").replaceChildren(picture());
    table();
  }

  function start() {
    legend();
    byId("rate-bits").addEventListener("input", () => {
      draw();
      chosen();
    });
    byId("rate-keys").addEventListener("change", predict);
    byId("rate-all").onclick = () => {
      byId("rate-all").disabled = true;
      enqueue(counts(Array.from({ length: MOST }, (_, i) => i + 1), ASKED));
    };
    byId("rate-clear").onclick = () => {
      FAMILIES.forEach((family) => marks[family].clear());
      chosen();
    };
    onWidth(byId("rate-picture"), draw);
    predict();
  }

  return { start };
})();
