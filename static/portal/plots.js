/* Plots: drawing over one zooms into that time.

   What is drawn is sent by the form of templates/portal/range_bar.html; its links and fields do the same without a pointer. */
"use strict";
(() => {
  const LEAST_PX = 6;
  const LEAST_MS = 5 * 60 * 1000;

  let drawing = null;
  const place = (plot, event) => {
    const box = plot.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const shape = () => {
    const [left, right] = [drawing.began, drawing.at].sort((a, b) => a - b);
    drawing.box.setAttribute("x", `${left * 100}%`);
    drawing.box.setAttribute("width", `${(right - left) * 100}%`);
    return [left, right];
  };
  const end = () => {
    drawing?.box.remove();
    drawing = null;
  };
  document.addEventListener("pointerdown", (event) => {
    const plot = event.target.closest?.(".chart-plot[data-from]");
    if (!plot || event.button !== 0 || !document.getElementById("range-drawn")) return;
    event.preventDefault();
    const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    box.setAttribute("class", "chart-drawn");
    box.setAttribute("y", "0");
    box.setAttribute("height", "100%");
    plot.append(box);
    const at = place(plot, event);
    drawing = { plot, box, began: at, at };
  });
  document.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    drawing.at = place(drawing.plot, event);
    shape();
  });
  document.addEventListener("pointercancel", end);
  document.addEventListener("keydown", (event) => event.key === "Escape" && end());
  document.addEventListener("pointerup", (event) => {
    if (!drawing) return;
    const { plot } = drawing;
    drawing.at = place(plot, event);
    const [left, right] = shape();
    end();
    if ((right - left) * plot.getBoundingClientRect().width < LEAST_PX) return;
    const [first, last] = [Date.parse(plot.dataset.from), Date.parse(plot.dataset.to)];
    let [from, to] = [first + (last - first) * left, first + (last - first) * right];
    // What is shorter than can be shown is widened around its middle.
    const missing = LEAST_MS - (to - from);
    if (missing > 0) [from, to] = [from - missing / 2, to + missing / 2];
    const form = document.getElementById("range-drawn");
    const text = (moment) => new Date(moment).toISOString().replace(/\.\d+Z$/, "Z");
    form.elements.namedItem("from").value = text(from);
    form.elements.namedItem("to").value = text(to);
    form.requestSubmit();
  });
})();
