/* Costs go on while a page stays open: data-cost is what something had cost when the server wrote it, in micro-USD, and
   data-cost-hour what it costs an hour since. Once nothing is charged any more, the next event brings a cost without them.

   The amounts are written as by foundation/money.py. Who wants less motion sees a new figure every half minute only. */
"use strict";
(() => {
  const TICK_MS = 1000;
  const CALM_TICKS = 30;
  const HOUR_MS = 3600000;
  const MICRO = 1000000;
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  const seen = new WeakMap();
  let ticks = 0;

  const usd = (micro, places) => {
    const step = 10 ** (6 - places);
    const rounded = Math.floor((micro + Math.floor(step / 2)) / step) * step;
    const least = micro > 0 && rounded === 0;
    const shown = least ? step : rounded;
    const whole = Math.floor(shown / MICRO).toLocaleString("en-US");
    const rest = String(shown % MICRO).padStart(6, "0").slice(0, places);
    return `${least ? "<" : ""}$${whole}${places ? `.${rest}` : ""}`;
  };

  const tick = () => {
    const now = Date.now();
    for (const each of document.querySelectorAll("[data-cost]")) {
      const { cost, costHour, costPlaces } = each.dataset;
      // A figure that the server wrote anew begins anew, in a new element or in this one.
      if (seen.get(each)?.cost !== cost) seen.set(each, { cost, at: now });
      const passed = Math.max(0, now - seen.get(each).at);
      const words = usd(Number(cost) + Math.floor((Number(costHour) * passed) / HOUR_MS), Number(costPlaces));
      // What stays as it is keeps a reader's selection.
      if (each.textContent !== words) each.textContent = words;
    }
  };

  document.addEventListener("htmx:afterSwap", tick);
  setInterval(() => {
    ticks += 1;
    if (!calm.matches || ticks % CALM_TICKS === 0) tick();
  }, TICK_MS);
  tick();
})();
