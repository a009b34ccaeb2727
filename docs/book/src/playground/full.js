// A ribbon of the library at full size: its first equations, eliminated and solved, and its layers.
// The response of the filters has the equations and the solved slots. This file computes the steps
// from the equations to the slots.
"use strict";

const full = (() => {
  const STEP_MS = 60;

  let answer = null, rows = [], asked = 0, timer = null, late = null;

  const family = () => byId("full-family").value;
  const bits = () => Number(byId("full-bits").value);
  const keys = () => Number(byId("full-keys").value);
  const number = (count) => count.toLocaleString("en");

  // -- the band --------------------------------------------------------------------------------------

  /// The rows in their slots after the first `count` rows are added. `last` says how many additions
  /// the last of these rows took, and which slot it got.
  function eliminated(count) {
    const band = [];
    let last = null;
    for (const row of rows.slice(0, count)) {
      let { start, coefficients, sum } = row, additions = 0;
      while (coefficients !== 0n && band[start]) {
        coefficients ^= band[start].coefficients;
        sum ^= band[start].sum;
        additions++;
        if (coefficients === 0n) break;
        while (!(coefficients & 1n)) {
          coefficients >>= 1n;
          start++;
        }
      }
      last = { additions, slot: coefficients ? start : null, first: row.start };
      if (coefficients) band[start] = { start, coefficients, sum };
    }
    return { band, last };
  }

  /// A path of squares, one unit wide, at the cells of `list`.
  function cells(list) {
    return list.map(([x, y]) => `M${x} ${y}h1v1h-1z`).join("");
  }

  const ones = (bits, x, y) => Array.from({ length: answer.columns }, (_, i) => i).filter((i) => bits >> i & 1).map((i) => [x + i, y]);

  function coefficientsOf(row, y) {
    const found = [];
    for (let i = 0; i < answer.width && row.start + i < answer.shown; i++) {
      if (row.coefficients >> BigInt(i) & 1n) found.push([row.start + i, y]);
    }
    return found;
  }

  /// The size of a cell. The panels are next to each other, or one below the other on a narrow
  /// screen.
  function unit() {
    const room = byId("full-band").clientWidth, rows = answer.shown + 3 + answer.columns;
    const beside = (room - 56) / (2 * rows + answer.columns);
    return Math.min(3.6, beside > 2.2 ? beside : room / rows);
  }

  /// A panel of lines. Each line has a row or none, and a CSS class.
  function panel(name, lines, hasRows) {
    const left = hasRows ? answer.shown + 3 : 0;
    const wide = left + answer.columns, high = Math.max(answer.shown, lines.length);
    const image = svg("svg", { width: wide * unit(), height: high * unit(), viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${name}. The text above says what happens.` });
    for (const kind of ["pending", "there", "moving"]) {
      const of = lines.map((line, y) => [line, y]).filter(([line]) => line && line.kind === kind);
      const picked = hasRows ? of.flatMap(([line, y]) => coefficientsOf(line.row, y)) : [];
      const sums = of.flatMap(([line, y]) => ones(line.sum, left, y));
      image.append(svg("path", { class: `of-${kind}`, d: cells(picked) }), svg("path", { class: `of-sums ${kind}`, d: cells(sums) }));
    }
    return html("figure", {}, html("figcaption", { textContent: name }), image);
  }

  function caption(added, solved, last) {
    if (added + solved === 0) return "No row is added yet.";
    if (solved > 0) {
      const slot = answer.shown - solved, row = eliminated(rows.length).band[slot];
      return row ? `Slot ${slot} is solved: with the slots below that its row picks, it gives the row’s sum.`
        : `Slot ${slot} is solved: it has no row, so it is 0.`;
    }
    const begins = `Row ${added} of ${rows.length} begins in slot ${last.first}. `;
    if (last.slot === null) return `${begins}${last.additions} rows are added to it, and nothing is left: it follows from the others.`;
    return begins + (last.additions === 0 ? "That slot is free."
      : `${last.additions} row${last.additions === 1 ? " is" : "s are"} added to it, and it takes slot ${last.slot}.`);
  }

  function drawBand() {
    const step = Number(byId("full-at").value);
    const added = Math.min(step, rows.length), solved = step - added;
    const { band, last } = eliminated(added);
    const kind = (isLast) => (isLast && solved === 0 ? "moving" : "there");
    const equations = rows.map((row, i) => ({ row, sum: row.sum, kind: i >= added ? "pending" : kind(i === added - 1) }));
    const of = (slot) => band[slot] && { row: band[slot], sum: band[slot].sum, kind: kind(last && slot === last.slot) };
    const slots = Array.from({ length: answer.shown }, (_, slot) => slot);
    const stored = slots.map((slot) => slot >= answer.shown - solved && { sum: answer.slots[slot], kind: "there" });
    byId("full-count").textContent = `${step} of ${rows.length + answer.shown}`;
    byId("full-caption").textContent = caption(added, solved, last);
    byId("full-band").replaceChildren(panel("Equations: a row for each key", equations, true),
      panel("Eliminated: a row for each slot", slots.map(of), true), panel("Slots", stored, false));
  }

  // -- the layers ------------------------------------------------------------------------------------

  function drawLayers() {
    const wide = Math.max(Math.min(byId("full-layers").clientWidth, 900), 280), row = 74;
    const unit = wide / answer.layers[0].starts, high = row * answer.layers.length;
    const image = svg("svg", { width: wide, height: high, role: "img", "aria-label": "Layers and their buckets. The text above has the numbers." });
    let came = keys();
    answer.layers.forEach((layer, level) => {
      const top = row * level + 20;
      image.append(svg("text", { x: 0, y: top - 6 }, `layer ${level}: ${number(came)} keys, ${number(layer.stay)} stay in ${number(layer.slots)} slots`));
      came -= layer.stay;
      const bucket = answer.bucket || layer.starts;
      for (let first = 0; first < layer.starts; first += bucket) {
        const starts = Math.min(bucket, layer.starts - first);
        const kept = answer.bucket ? answer.kept[layer.thresholds[first / bucket]] : starts;
        const bumped = Math.min(bucket - Math.min(kept, bucket), starts);
        const gap = Math.min(1, unit * starts / 4);
        image.append(svg("rect", { class: "of-lines", x: unit * (first + bumped), y: top, width: Math.max(unit * (starts - bumped) - gap, 0), height: 30 }));
        if (bumped) image.append(svg("rect", { class: "of-passed", x: unit * first, y: top, width: unit * bumped, height: 30 }));
      }
      const start = answer.asked.starts[level];
      if (start !== undefined) {
        const x = unit * (start + 0.5);
        image.append(svg("path", { class: "visited", d: `M${x} ${top - 3}V${top + 33}` }), svg("path", { class: "visited", d: `M${x - 4} ${top + 38}l4 -5l4 5` }));
      }
    });
    byId("full-layers").replaceChildren(image);
    const { starts, tags, maybe } = answer.asked;
    const kind = asked < keys() ? "present" : "absent";
    const places = starts.map((start, level) => `start ${number(start)} of layer ${level}`).join(", then ");
    const bumps = tags ? "All layers bump it, so the tags are searched. " : starts.length > 1 ? `${starts.length === 2 ? "One layer bumps" : `${starts.length - 1} layers bump`} it. ` : "";
    byId("full-path").textContent = `Key ${number(asked)}, which is ${kind}: ${places}. ${bumps}The answer is ${maybe ? "maybe" : "no"}.`;
  }

  function draw() {
    byId("full-said").textContent = bits();
    if (answer) {
      drawBand();
      drawLayers();
    }
  }

  // -- what the reader does --------------------------------------------------------------------------

  function play(on) {
    clearInterval(timer);
    timer = null;
    byId("full-play").textContent = on ? "Pause" : "Play";
    byId("full-caption").setAttribute("aria-live", on ? "off" : "polite");
    if (!on) return;
    const at = byId("full-at");
    if (at.value === at.max) at.value = 0;
    timer = setInterval(() => {
      at.value = Number(at.value) + 1;
      drawBand();
      if (at.value === at.max) play(false);
    }, STEP_MS);
  }

  function build() {
    const built = ask(`full ${family()} ${bits()} ${keys()} ${asked}`);
    byId("full-facts").textContent = built.error ? `${built.error[0].toUpperCase()}${built.error.slice(1)}.`
      : `${family()}(${bits()}) of ${number(keys())} keys: rows of ${built.width} coefficients, ${built.columns} columns in the first blocks, ${built.tags} keys spelled out as tags.`;
    if (built.error) return;
    answer = built;
    rows = built.rows.map(([start, coefficients, sum]) => ({ start, coefficients: BigInt(`0x${coefficients}`), sum }));
    byId("full-more").disabled = built.bumped.length === 0;
    byId("full-at").max = rows.length + built.shown;
    draw();
  }

  /// Builds another filter, and shows its last step.
  function rebuild() {
    play(false);
    asked = Math.min(asked, 2 * keys() - 1);
    build();
    byId("full-at").value = byId("full-at").max;
    draw();
  }

  function start() {
    byId("full-bits").addEventListener("input", () => {
      byId("full-said").textContent = bits();
      clearTimeout(late);
      late = setTimeout(rebuild, 80);
    });
    byId("full-family").addEventListener("change", rebuild);
    byId("full-keys").addEventListener("change", rebuild);
    byId("full-at").addEventListener("input", () => { play(false); drawBand(); });
    byId("full-play").onclick = () => play(timer === null);
    let next = 0;
    byId("full-more").onclick = () => { asked = answer.bumped[next++ % answer.bumped.length]; build(); };
    byId("full-absent").onclick = () => { asked = keys() + Math.floor(Math.random() * keys()); build(); };
    onWidth(byId("full-layers"), draw);
    rebuild();
  }

  return { start };
})();
