"use strict";
// The titles of points, shown at once and also where there is no pointer that hovers.
(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
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
})();
