/* Times go on while a page stays open: "2 min ago" and "3m 07s so far" are of the moment in which the server wrote them.

   data-age and data-lasts hold the seconds as of then; what has passed since is this clock's, whatever it says the time is.
   The words are those of portal/templatetags/portal_ui.py and console/pages/words.py. */
"use strict";
(() => {
  const TICK_MS = 1000;
  const AGO = [[86400 * 2, 86400, "d"], [3600 * 2, 3600, "h"], [120, 60, "min"], [0, 1, "s"]];
  const seen = new WeakMap();

  const ago = (seconds) => {
    const size = Math.abs(seconds);
    if (size < 2) return "just now";
    const [, unit, name] = AGO.find(([least]) => size >= least);
    const words = `${Math.floor(size / unit)} ${name}`;
    return seconds < 0 ? `in ${words}` : `${words} ago`;
  };

  const padded = (number) => String(number).padStart(2, "0");
  const lasts = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 60) return `${whole}s`;
    if (whole < 3600) return `${Math.floor(whole / 60)}m ${padded(whole % 60)}s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)}h ${padded(Math.floor((whole % 3600) / 60))}m`;
    return `${Math.floor(whole / 86400)}d ${padded(Math.floor((whole % 86400) / 3600))}h`;
  };

  const tick = () => {
    const now = Date.now();
    for (const each of document.querySelectorAll("[data-age], [data-lasts]")) {
      if (!seen.has(each)) seen.set(each, now);
      const passed = (now - seen.get(each)) / 1000;
      const words = "age" in each.dataset ? ago(Number(each.dataset.age) + passed) : lasts(Number(each.dataset.lasts) + passed);
      // What stays as it is keeps a reader's selection.
      if (each.textContent !== words) each.textContent = words;
    }
  };

  // The server writes times in this zone from the next page on, unless the person has chosen one (pages/preferences.py).
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const kept = `portal-browser-zone=${encodeURIComponent(timeZone)}`;
  if (timeZone && !document.cookie.split("; ").includes(kept)) {
    document.cookie = `${kept}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
  }

  document.addEventListener("htmx:afterSwap", tick);
  setInterval(tick, TICK_MS);
  tick();
})();
