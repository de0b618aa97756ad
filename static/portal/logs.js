/* <log-viewer>: comforts of a log. The server finds, filters and links lines; every link works without this file.

   Here: it follows its end until the reader scrolls up, marks the lines that an address names (#L120-L130), copies their link,
   shows times as the reader likes them, wraps, fills the screen. How is remembered by the browser. The element comes anew with
   each search, so what outlives one stands outside of it. */
"use strict";
(() => {
  const SLACK_PX = 40;
  const LINES_MAX = 5000;
  const COPIED_MS = 1500;
  const PREFERENCES = "portal-log";
  const RANGE = /^#((?:[a-z0-9.-]*(?::[a-z0-9-]+)?-)?)L(\d{1,9})(?:-((?:[a-z0-9.-]*(?::[a-z0-9-]+)?-)?)L(\d{1,9}))?$/;

  let full = false;
  let inerted = [];

  const preferences = () => {
    try {
      return { wrap: true, times: "utc", ...JSON.parse(localStorage.getItem(PREFERENCES) ?? "{}") };
    } catch {
      return { wrap: true, times: "utc" };
    }
  };
  const prefer = (changes) => {
    try {
      localStorage.setItem(PREFERENCES, JSON.stringify({ ...preferences(), ...changes }));
    } catch {
      // A browser that keeps nothing: it is so until the page is left.
    }
  };

  const two = (number) => String(number).padStart(2, "0");
  const clockOf = (at) => [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  const sinceOf = (ms) => {
    const seconds = Math.max(0, Math.floor(ms / 1000));
    return `+${Math.floor(seconds / 3600)}:${two(Math.floor((seconds % 3600) / 60))}:${two(seconds % 60)}`;
  };
  const ZONES = { utc: " Times are UTC.", local: " Times are yours.", since: " Times count from its start.", none: "" };

  class LogViewer extends HTMLElement {
    #pinned = true;
    #fresh = 0;
    #ended = null;
    #range = [];
    #anchor = null;

    connectedCallback() {
      this.#ended = new AbortController();
      const { signal } = this.#ended;
      this.addEventListener("click", (event) => this.#clicked(event), { signal });
      this.addEventListener("change", (event) => this.#changed(event), { signal });
      document.addEventListener("keydown", (event) => event.key === "Escape" && full && this.#fill(false), { signal });
      this.addEventListener("htmx:beforeSwap", (event) => this.#beforeSwap(event), { signal });
      this.addEventListener("htmx:afterSwap", (event) => this.#afterSwap(event), { signal });
      window.addEventListener("hashchange", () => this.#goTo(location.hash), { signal });
      this.#log?.addEventListener("scroll", () => this.#scrolled(), { signal, passive: true });
      for (const tool of this.querySelectorAll(".log-tool")) tool.hidden = false;
      this.#show(preferences());
      this.#fill(full);
      this.#begin();
      // htmx gives new elements the attributes of those that they replace, until they settle.
      const settled = ({ target }) => target.contains(this) && this.#begin();
      document.body.addEventListener("htmx:afterSettle", settled, { signal });
    }

    #begin() {
      const marked = this.querySelector(".log-line.marked");
      if (RANGE.test(location.hash)) this.#goTo(location.hash);
      else if (marked) this.#choose(marked, marked);
      else this.#toEnd();
    }

    disconnectedCallback() {
      this.#ended?.abort();
      // Its successor has the screen, if there is one.
      if (!document.querySelector("log-viewer")) this.#fill(false);
    }

    get #log() {
      return this.querySelector(".log");
    }

    get #lines() {
      return this.querySelectorAll(".log-line");
    }

    // --- its end

    #toEnd() {
      const log = this.#log;
      if (!log) return;
      this.#pinned = true;
      this.#fresh = 0;
      log.scrollTop = log.scrollHeight;
      this.#offer();
    }

    #scrolled() {
      const log = this.#log;
      this.#pinned = log.scrollHeight - log.scrollTop - log.clientHeight < SLACK_PX;
      if (this.#pinned) this.#fresh = 0;
      this.#offer();
    }

    #offer() {
      const button = this.querySelector(".log-follow");
      if (!button) return;
      const follows = this.querySelector("[data-live-log]");
      button.hidden = this.#pinned;
      const fresh = this.#fresh ? `${this.#fresh} new line${this.#fresh === 1 ? "" : "s"}` : "";
      button.querySelector("span").textContent = fresh || (follows ? "Follow" : "To the end");
    }

    #beforeSwap({ detail }) {
      const log = this.#log;
      if (!log) return;
      this.kept = { height: log.scrollHeight, top: log.scrollTop, lines: this.#lines.length, older: detail.target.id === "log-older" };
    }

    #afterSwap() {
      const log = this.#log;
      if (!log || !this.kept) return;
      const { height, top, lines, older } = this.kept;
      this.kept = null;
      this.#stamp(preferences().times);
      if (older) {
        log.scrollTop = top + log.scrollHeight - height;
        this.#mark();
        return;
      }
      this.#fresh += this.#lines.length - lines;
      if (!this.#pinned) return this.#offer();
      this.#trim();
      this.#toEnd();
    }

    // What has long been read goes, and may be asked for again.
    #trim() {
      const lines = this.#lines;
      if (lines.length <= LINES_MAX) return;
      for (const line of [...lines].slice(0, lines.length - LINES_MAX)) line.remove();
      const query = new URLSearchParams(this.dataset.link);
      query.set("before", this.querySelector(".log-line").id);
      const address = `${this.dataset.page}?${query}`;
      const older = document.createElement("div");
      for (const [name, value] of [["id", "log-older"], ["class", "log-end"], ["hx-get", address], ["hx-trigger", "click, intersect root:#log"], ["hx-target", "this"], ["hx-swap", "outerHTML"]]) older.setAttribute(name, value);
      const link = document.createElement("a");
      link.href = address;
      link.textContent = "Older lines";
      older.append(link);
      document.getElementById("log-older").replaceWith(older);
      window.htmx?.process(older);
    }

    // --- lines that an address names

    #goTo(hash) {
      const [, prefix, first, lastPrefix, last] = RANGE.exec(hash) ?? [];
      if (!first) return;
      const begin = document.getElementById(`${prefix}L${first}`);
      const end = last ? document.getElementById(`${lastPrefix || prefix}L${last}`) : begin;
      if (begin && this.contains(begin)) return this.#choose(begin, end && this.contains(end) ? end : begin);
      // It is not among those that are shown: the server looks for it, once.
      const query = new URLSearchParams(this.dataset.link);
      query.set("line", `${prefix}L${first}`);
      const marked = this.querySelector(".log-line.marked");
      if (marked) return this.#choose(marked, marked);
      if (!window.htmx) return this.#toEnd();
      window.htmx.ajax("GET", `${this.dataset.page}?${query}`, { target: "#log-view", swap: "outerHTML settle:0ms" });
    }

    #choose(begin, end) {
      this.#anchor = begin;
      this.#range = [begin.id, end.id];
      this.#mark();
      const log = this.#log;
      const place = begin.getBoundingClientRect().top - log.getBoundingClientRect().top;
      if (place < 0 || place > log.clientHeight - begin.clientHeight) log.scrollTop += place - log.clientHeight / 3;
      this.#scrolled();
    }

    #mark() {
      const [begin, end] = this.#range.map((id) => document.getElementById(id));
      if (!begin || !end) return;
      const backwards = begin.compareDocumentPosition(end) & Node.DOCUMENT_POSITION_PRECEDING;
      let [line, last] = backwards ? [end, begin] : [begin, end];
      this.#range = [line.id, last.id];
      for (const each of this.querySelectorAll(".log-line.marked")) {
        each.classList.remove("marked");
        each.removeAttribute("aria-current");
      }
      for (; line; line = line.nextElementSibling) {
        line.classList.add("marked");
        line.setAttribute("aria-current", "true");
        if (line === last) break;
      }
      const button = this.querySelector(".log-copy");
      if (!button) return;
      button.hidden = !navigator.clipboard;
      button.querySelector("span").textContent = begin === end ? "Copy link to the line" : "Copy link to the lines";
    }

    get #address() {
      const [first, last] = this.#range;
      const query = new URLSearchParams(this.dataset.link);
      query.set("line", first);
      const prefix = first.slice(0, first.lastIndexOf("L"));
      const until = first === last ? "" : `-${last.startsWith(prefix) ? last.slice(prefix.length) : last}`;
      return `${this.dataset.page}?${query}#${first}${until}`;
    }

    #number(event, link) {
      const line = link.closest(".log-line");
      // Where only what matches is shown, the number leads to the line among all.
      if (link.getAttribute("href").startsWith("/") && !event.shiftKey) return;
      event.preventDefault();
      const anchor = event.shiftKey && this.#anchor?.isConnected ? this.#anchor : line;
      this.#range = [anchor.id, line.id];
      this.#anchor = anchor;
      this.#mark();
      history.replaceState(history.state, "", this.#address);
    }

    // --- how it looks

    #clicked(event) {
      const link = event.target.closest("a.log-n");
      if (link) return this.#number(event, link);
      const button = event.target.closest("button");
      if (!button) return;
      if (button.classList.contains("log-follow")) this.#toEnd();
      else if (button.classList.contains("log-full")) this.#fill(!full);
      else if (button.classList.contains("log-copy")) this.#copy(button.querySelector("span"));
    }

    async #copy(label) {
      await navigator.clipboard.writeText(new URL(this.#address, location.href).href);
      const before = label.textContent;
      label.textContent = "Copied";
      setTimeout(() => (label.textContent = before), COPIED_MS);
    }

    #changed({ target }) {
      if (target.classList.contains("log-wrap")) prefer({ wrap: target.checked });
      else if (target.name === "log-times") prefer({ times: target.value });
      else return;
      this.#show({ ...preferences(), wrap: this.querySelector(".log-wrap").checked, times: this.querySelector("[name=log-times]:checked").value });
    }

    #show({ wrap, times }) {
      const chosen = times in ZONES ? times : "utc";
      this.querySelector(".log-wrap").checked = wrap;
      this.querySelector(`[name=log-times][value=${chosen}]`).checked = true;
      document.documentElement.classList.toggle("log-unwrapped", !wrap);
      document.documentElement.classList.toggle("log-timeless", chosen === "none");
      const zone = this.querySelector("[data-log-zone]");
      if (zone) zone.textContent = ZONES[chosen];
      this.#stamp(chosen);
      if (this.#pinned) this.#toEnd();
    }

    #stamp(times) {
      const began = Date.parse(this.dataset.began ?? this.querySelector(".log-line time")?.dateTime ?? "");
      for (const each of this.querySelectorAll(".log-line time")) {
        if (each.dataset.as === times) continue;
        const at = new Date(each.dateTime);
        each.textContent = times === "local" ? clockOf(at) : times === "since" ? sinceOf(at - began) : each.dateTime.slice(11, 19);
        each.title = times === "local" ? at.toString() : `${each.dateTime.slice(0, 10)} ${each.dateTime.slice(11, 19)} UTC`;
        each.dataset.as = times;
      }
    }

    // The rest of the page is still there, and out of reach meanwhile.
    #fill(wanted) {
      full = wanted;
      document.documentElement.classList.toggle("log-fills", full);
      for (const each of inerted) each.inert = false;
      inerted = [];
      for (let node = this; full && node !== document.body; node = node.parentElement) {
        inerted.push(...[...node.parentElement.children].filter((each) => each !== node && !each.inert));
      }
      for (const each of inerted) each.inert = true;
      const button = this.querySelector(".log-full");
      button?.setAttribute("aria-pressed", String(full));
      if (button) button.textContent = full ? "Leave full screen" : "Full screen";
      if (this.#pinned) this.#toEnd();
    }
  }

  customElements.define("log-viewer", LogViewer);
})();
