// A ribbon of a few keys, step by step. The response of the filters has the rows of every addition,
// in a band for each seed or layer. This file makes frames of them, and a picture of each frame.
"use strict";

const ribbon = (() => {
  const WIDTH = 8;
  const FRAME_MS = 1100;
  /// The buttons, by the last part of their ids.
  const STEPS = ["first", "back", "play", "next", "last"];

  let frames = [], at = 0, keys = [], answer = null, timer = null;

  const mode = () => document.querySelector("input[name=ribbon-mode]:checked").value;
  const slotName = (slot) => slot.toString(16);
  const bitsOf = (number) => number.toString(2).padStart(4, "0");

  // -- from the answer to frames ---------------------------------------------------------------------

  /// Makes the frames. A frame has a caption, the rows in their slots, the row that is being added,
  /// what is marked, and the solved slots.
  function makeFrames() {
    frames = [];
    const fate = keys.map(() => ({ kind: "", text: "" }));
    answer.bands.forEach((band, number) => {
      const rows = Array(band.slots).fill(null), values = Array(band.slots).fill(null);
      const frame = (caption, more = {}) => frames.push({
        number, band, caption, rows: [...rows], values: [...values], fate: fate.map((f) => ({ ...f })), ...more,
      });
      const keysHere = new Set(band.steps.flatMap((step) => step.bumped || [step.key]));
      keysHere.forEach((key) => { fate[key] = { kind: "", text: "" }; });
      frame(beginning(band, keysHere.size));
      for (const step of band.steps) {
        if (step.bumped) bump(step, rows, fate, frame, band);
        else eliminate(step, rows, fate, frame, band);
      }
      if (band.solution) substitute(band, rows, values, frame, keysHere.size);
    });
    conclude(fate);
  }

  function beginning(band, count) {
    const slots = `${band.slots} empty slots for ${count} key${count === 1 ? "" : "s"}`;
    return mode() === "burr"
      ? `Layer ${band.seed}: ${slots}. Two start positions are a bucket. It stays or is bumped as a whole.`
      : `Seed ${band.seed}: ${slots}. The seed and a key’s hash give its row.`;
  }

  function eliminate(step, rows, fate, frame, band) {
    const name = keys[step.key];
    const layer = mode() === "burr" && band.seed > 0 ? ` of layer ${band.seed}` : "";
    fate[step.key] = { kind: "moving", text: "" };
    const [first] = step.rows;
    let caption = `${name} starts in slot ${slotName(first[0])}; its fingerprint is ${bitsOf(first[2])}. `;
    step.rows.forEach((row, i) => {
      const [slot, coefficients, fingerprint] = row;
      const free = coefficients !== 0 && rows[slot] === null;
      if (i > 0) {
        const before = step.rows[i - 1][0];
        caption = `The row of slot ${slotName(before)} is added to ${name}. `;
        if (coefficients !== 0) caption += `What is left starts in slot ${slotName(slot)}. `;
      }
      if (coefficients === 0) {
        const agrees = fingerprint === 0;
        caption += agrees ? "Nothing is left, and the fingerprint is 0000: it says nothing new."
          : `No coefficient is left, but the fingerprint is ${bitsOf(fingerprint)}, not 0000: a contradiction.`;
        fate[step.key] = agrees ? { kind: "placed", text: "follows" } : { kind: "bumped", text: "contradicts" };
        frame(caption, { moving: { key: step.key, row }, meets: null });
      } else if (free) {
        fate[step.key] = { kind: "placed", text: `${slotName(slot)}${layer}` };
        rows[slot] = { key: step.key, row };
        frame(`${caption}That slot is free: the row stays there.`, { settled: slot });
      } else {
        frame(`${caption}That slot is taken.`, { moving: { key: step.key, row }, meets: slot });
      }
    });
  }

  function bump(step, rows, fate, frame, band) {
    rows.forEach((there, slot) => { if (there && step.bumped.includes(there.key)) rows[slot] = null; });
    step.bumped.forEach((key) => { fate[key] = { kind: "bumped", text: "bumped" }; });
    const from = step.bucket * 2, to = Math.min(from + 1, band.slots - WIDTH);
    const starts = from === to ? `start ${slotName(from)}` : `starts ${slotName(from)} and ${slotName(to)}`;
    frame(`Bucket ${step.bucket} (${starts}) is bumped: its rows are taken out, and its keys go to the next layer.`,
      { bumped: step.bucket });
  }

  function substitute(band, rows, values, frame, count) {
    for (let slot = band.slots - 1; slot >= 0; slot--) {
      const value = values[slot] = band.solution[slot];
      const name = slotName(slot);
      if (!rows[slot]) {
        frame(`Solving from below: slot ${name} is free and gets 0000.`, { solving: slot, picks: [] });
        continue;
      }
      const [start, coefficients, fingerprint] = rows[slot].row;
      const picks = picked(start, coefficients).filter((other) => other !== slot);
      const sum = picks.map((other) => ` ⊕ ${bitsOf(values[other])}`).join("");
      const from = picks.length ? `the fingerprint ⊕ slot${picks.length > 1 ? "s" : ""} ${picks.map(slotName).join(", ")}` : "the fingerprint alone";
      frame(`Solving from below: slot ${name} is ${from}: ${bitsOf(fingerprint)}${sum}${sum ? ` = ${bitsOf(value)}` : ""}.`,
        { solving: slot, picks });
    }
    const what = mode() === "burr" ? `Layer ${band.seed}` : "The filter";
    frame(`${what} is solved. It stores ${band.slots} slots of 4 bits for ${count} keys.`);
  }

  const picked = (start, coefficients) =>
    Array.from({ length: WIDTH }, (_, i) => start + i).filter((_, i) => (coefficients >> i) & 1);

  /// Adds the outcome to the last frame.
  function conclude(fate) {
    const last = frames[frames.length - 1];
    if (!answer.bands[answer.bands.length - 1].solution) {
      last.caption += ` ${answer.bands.length} seeds have failed: give the keys more slots, or bump.`;
    }
    if (mode() === "burr") {
      answer.tags.forEach((key) => { fate[key] = { kind: "placed", text: "spelled out" }; });
      last.fate = fate;
      if (answer.tags.length) last.caption += ` The rest is spelled out: ${answer.tags.map((key) => keys[key]).join(", ")}.`;
      else if (answer.bands.length > 1) last.caption += " No key is left.";
    }
  }

  // -- from a frame to a picture -----------------------------------------------------------------------

  /// Where a row begins. Left of it are the number of its slot and the name of its key.
  const LEFT = 66, NAME_WIDTH = 38;
  const pen = document.createElement("canvas").getContext("2d");

  /// The name, cut to the width that is free beside its row.
  function short(name) {
    pen.font = "600 12px system-ui, 'Liberation Sans', sans-serif";
    if (pen.measureText(name).width <= NAME_WIDTH) return name;
    const letters = [...name];
    while (pen.measureText(`${letters.join("")}…`).width > NAME_WIDTH) letters.pop();
    return `${letters.join("")}…`;
  }

  function cells(row, slots, cell) {
    const group = svg("g");
    for (let slot = 0; slot < slots; slot++) {
      const i = row ? slot - row[0] : -1;
      const inside = row && i >= 0 && i < WIDTH;
      const kind = !inside ? "cell outside" : (row[1] >> i) & 1 ? "cell one" : "cell";
      const size = inside ? cell - 4 : 3;
      const margin = (cell - size) / 2;
      group.append(svg("rect", { class: kind, x: slot * cell + margin, y: margin, width: size, height: size, rx: inside ? 2 : 1.5 }));
    }
    return group;
  }

  function picture(frame) {
    const room = byId("ribbon-picture").clientWidth;
    const { band } = frame, slots = band.slots;
    const left = LEFT, gap = room < 500 ? 64 : 80, right = gap + 40;
    const cell = Math.max(8, Math.min(24, Math.floor((room - left - right) / slots)));
    const wide = left + slots * cell + right, high = Math.max(cell, 19);
    const bitsAt = left + slots * cell + 8, valueAt = bitsAt + gap;
    const bandAt = 24 + high + 14;
    const image = svg("svg", { width: wide, height: bandAt + slots * high + 6, role: "img", "aria-label": frame.caption });
    const put = (x, y, what) => { image.append(svg("g", { transform: `translate(${x} ${y})` }, what)); };
    const text = (x, y, said, kind = "", anchor = "start") => image.append(
      svg("text", { x, y, class: kind, "text-anchor": anchor, "dominant-baseline": "central" }, said));

    for (let slot = 0; slot < slots; slot++) text(left + (slot + 0.5) * cell, 9, slotName(slot), "", "middle");
    if (mode() === "burr") buckets(frame, image, left, cell);
    text(bitsAt, 9, "fingerprint", "small");
    text(valueAt, 9, "slot", "small");

    const { moving } = frame;
    if (moving) {
      const group = svg("g", { class: "moving", transform: `translate(${left} 22)` }, cells(moving.row, slots, cell));
      image.append(group);
      text(left - 8, 22 + cell / 2, short(keys[moving.key]), "moving", "end");
      text(bitsAt, 22 + cell / 2, bitsOf(moving.row[2]), "bits");
    }
    for (let slot = 0; slot < slots; slot++) {
      const y = bandAt + slot * high, middle = y + high / 2;
      const marked = [frame.meets, frame.settled, frame.solving].includes(slot);
      if (marked) {
        const kind = frame.solving === slot ? "highlight solving" : "highlight";
        image.append(svg("rect", { class: kind, x: 0, y, width: wide, height: high, rx: 4 }));
      }
      const there = frame.rows[slot];
      text(10, middle, slotName(slot), marked ? "strong" : "", "middle");
      text(left - 8, middle, there ? short(keys[there.key]) : "", marked ? "strong" : "", "end");
      put(left, y + (high - cell) / 2, cells(there && there.row, slots, cell));
      if (there) text(bitsAt, middle, bitsOf(there.row[2]), "bits");
      const value = frame.values[slot];
      if (value !== null) text(valueAt, middle, bitsOf(value), "bits solved");
      if ((frame.picks || []).includes(slot)) {
        image.append(svg("rect", { class: "picked", x: valueAt - 4, y: middle - 9, width: 38, height: 18, rx: 4 }));
        const column = left + slot * cell, row = bandAt + frame.solving * high;
        image.append(svg("rect", { class: "picked", x: column + 1, y: row + (high - cell) / 2 + 1, width: cell - 2, height: cell - 2, rx: 3 }));
      }
    }
    return image;
  }

  /// Draws the buckets as bars below the numbers of the slots: each covers its start positions.
  function buckets(frame, image, left, cell) {
    const starts = frame.band.slots - WIDTH + 1;
    const done = frame.band.steps.filter((step) => step.bumped).map((step) => step.bucket);
    const before = frames.slice(0, at + 1).filter((other) => other.number === frame.number && other.bumped !== undefined);
    const gone = new Set(before.map((other) => other.bumped).filter((bucket) => done.includes(bucket)));
    for (let bucket = 0; bucket * 2 < starts; bucket++) {
      const from = bucket * 2, to = Math.min(from + 2, starts);
      image.append(svg("path", {
        class: gone.has(bucket) ? "bucket gone" : "bucket",
        d: `M${left + from * cell + 3} 18.5H${left + to * cell - 3}`,
      }));
    }
  }

  // -- the page ------------------------------------------------------------------------------------------

  function draw() {
    const frame = frames[at];
    if (!frame) return;
    byId("ribbon-play").removeAttribute("aria-disabled");
    const of = mode() === "burr" ? `Layer ${frame.band.seed}` : `Seed ${frame.band.seed}`;
    byId("ribbon-title").textContent = `${of} · ${frame.band.slots} slots · ${frame.rows.filter(Boolean).length} taken`;
    byId("ribbon-caption").textContent = frame.caption;
    byId("ribbon-at").max = frames.length - 1;
    byId("ribbon-at").value = at;
    byId("ribbon-at").setAttribute("aria-valuetext", `${at + 1} of ${frames.length}`);
    byId("ribbon-count").textContent = `${at + 1} of ${frames.length}`;
    // `aria-disabled` and not `disabled`: a disabled button would lose the keyboard's focus.
    const ends = { first: 0, back: 0, next: frames.length - 1, last: frames.length - 1 };
    for (const [name, end] of Object.entries(ends)) byId(`ribbon-${name}`).setAttribute("aria-disabled", at === end);
    byId("ribbon-picture").replaceChildren(picture(frame));
    byId("ribbon-chips").replaceChildren(...keys.map((key, i) => {
      const { kind, text } = frame.fate[i];
      return html("span", { className: `chip ${kind}`, textContent: text ? `${key} → ${text}` : key });
    }));
  }

  function go(to) {
    at = Math.max(0, Math.min(frames.length - 1, to));
    draw();
  }

  function play(on) {
    clearInterval(timer);
    timer = null;
    on &&= frames.length > 0;
    byId("ribbon-play").textContent = on ? "Pause" : "Play";
    byId("ribbon-play").setAttribute("aria-label", on ? "Pause" : "Play");
    // While the frames play, a screen reader does not read each caption.
    byId("ribbon-caption").setAttribute("aria-live", on ? "off" : "polite");
    if (!on) return;
    if (at === frames.length - 1) go(0);
    timer = setInterval(() => {
      go(at + 1);
      if (at === frames.length - 1) play(false);
    }, FRAME_MS);
  }

  /// Clears the picture and its texts, and shows why there is none.
  function nothing(why) {
    [frames, keys, at] = [[], [], 0];
    for (const id of ["ribbon-title", "ribbon-count"]) byId(id).textContent = "";
    for (const id of ["ribbon-picture", "ribbon-chips", "ribbon-answer"]) byId(id).replaceChildren();
    for (const name of STEPS) byId(`ribbon-${name}`).setAttribute("aria-disabled", true);
    byId("ribbon-at").max = 0;
    byId("ribbon-caption").textContent = why;
  }

  /// Solves again, and shows the frame in which two rows first meet. In the frames before it, each
  /// row finds its slot free.
  function solve() {
    play(false);
    const slots = byId("ribbon-slots").value;
    byId("ribbon-slots-said").textContent = slots;
    const given = byId("ribbon-keys").value.split(/[\s,]+/).filter(Boolean);
    const solved = ask(`${mode()} ${slots}${keyLines(given, [])}`);
    if (solved.error) return nothing(`${solved.error[0].toUpperCase()}${solved.error.slice(1)}: there are ${given.length}.`);
    answer = solved;
    keys = given;
    makeFrames();
    const meeting = frames.findIndex((frame) => frame.meets !== undefined);
    go(Math.max(meeting, 0));
    question();
  }

  function question() {
    const key = byId("ribbon-asked").value.trim();
    const panel = byId("ribbon-answer");
    if (!key || !keys.length) return panel.replaceChildren();
    const [said] = ask(`${mode()} ${byId("ribbon-slots").value}${keyLines(keys, [key])}`).asked;
    const bold = (text, className = "") => html("strong", { textContent: text, className });
    const verdict = bold(said.maybe ? "maybe" : "no", said.maybe ? "yes" : "no");
    if (said.band === null) {
      const why = mode() === "burr" ? "its bucket was bumped in every layer; only the keys that are spelled out pass" : "no seed was solved, so there is no filter, and every key may be there";
      return panel.replaceChildren(bold(key), ": ", verdict, `, as ${why}.`);
    }
    const band = answer.bands[said.band];
    const [start, coefficients, fingerprint] = said.row;
    const where = mode() === "burr" ? `layer ${band.seed}` : `seed ${band.seed}`;
    const picks = picked(start, coefficients);
    const sum = picks.map((slot) => bitsOf(band.solution[slot])).join(" ⊕ ");
    panel.replaceChildren(bold(key), ": ", verdict, `. With ${where} it picks slots ${picks.map(slotName).join(", ")}. `,
      html("span", { className: "mono", textContent: `${sum} = ${bitsOf(said.sum)}` }),
      `; its fingerprint is ${bitsOf(fingerprint)}.`, said.maybe && !keys.includes(key) ? " It was never added: a false positive, one in 16." : "");
  }

  function start() {
    byId("ribbon-form").addEventListener("submit", (event) => { event.preventDefault(); solve(); });
    byId("ribbon-keys").addEventListener("input", solve);
    byId("ribbon-slots").addEventListener("input", solve);
    for (const choice of document.querySelectorAll("input[name=ribbon-mode]")) {
      choice.addEventListener("change", () => {
        byId("ribbon-slots").value = mode() === "burr" ? Math.max(WIDTH, Math.min(16, keys.length - 1)) : Math.min(16, Math.max(WIDTH, keys.length + 2));
        solve();
      });
    }
    byId("ribbon-first").onclick = () => { play(false); go(0); };
    byId("ribbon-back").onclick = () => { play(false); go(at - 1); };
    byId("ribbon-next").onclick = () => { play(false); go(at + 1); };
    byId("ribbon-last").onclick = () => { play(false); go(frames.length - 1); };
    byId("ribbon-play").onclick = () => play(timer === null);
    byId("ribbon-at").addEventListener("input", () => { play(false); go(Number(byId("ribbon-at").value)); });
    byId("ribbon-ask").addEventListener("submit", (event) => { event.preventDefault(); question(); byId("ribbon-asked").select(); });
    onWidth(byId("ribbon-picture"), () => frames.length && draw());
    solve();
  }

  return { start };
})();
