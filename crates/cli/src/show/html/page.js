"use strict";
// Shows the title of a point at once, also where there is no pointer that hovers: the Tab key stops
// at one point of each plot, and the arrow keys move to the other points.
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  let shown = null;
  for (const title of document.querySelectorAll("svg .point > title, svg rect > title")) {
    const point = title.parentElement;
    point.dataset.says = title.textContent;
    title.remove();
  }
  const hide = () => {
    if (shown) shown.classList.remove("on");
    shown = null;
    tip.hidden = true;
  };
  const show = (point) => {
    hide();
    shown = point;
    point.classList.add("on");
    tip.textContent = point.dataset.says;
    tip.hidden = false;
    const at = point.getBoundingClientRect(), page = document.documentElement;
    const left = at.left + at.width / 2 - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(4, Math.min(left, page.clientWidth - tip.offsetWidth - 4)) + scrollX}px`;
    const above = at.top - tip.offsetHeight - 4;
    tip.style.top = `${(above > 0 ? above : at.bottom + 4) + scrollY}px`;
  };
  const follow = (event) => {
    const point = event.target.closest ? event.target.closest("[data-says]") : null;
    if (point) show(point);
    else hide();
  };
  document.addEventListener("pointerover", follow);
  document.addEventListener("click", follow);
  document.addEventListener("focusin", follow);
  document.addEventListener("focusout", hide);

  for (const plot of document.querySelectorAll("svg.plot")) {
    const rows = [...plot.querySelectorAll(".series")]
      .map((series) => [...series.querySelectorAll(".point")]).filter((row) => row.length);
    rows.flat().forEach((point, i) => {
      point.setAttribute("tabindex", i === 0 ? 0 : -1);
      point.setAttribute("role", "img");
      point.setAttribute("aria-label", point.dataset.says);
    });
    plot.addEventListener("keydown", (event) => {
      const row = rows.findIndex((points) => points.includes(event.target));
      if (row < 0) return;
      const at = rows[row].indexOf(event.target);
      const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [0, 0];
      if (event.key === "Escape") hide();
      const to = rows[row + down];
      const next = to && to[down ? Math.min(at, to.length - 1) : at + right];
      if (!next || next === event.target) return;
      event.preventDefault();
      event.target.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    });
  }

  // Folded parts are opened for printing, because paper cannot be unfolded.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.part:not([open])")];
    opened.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));
})();
