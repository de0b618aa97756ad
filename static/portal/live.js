/* <live-stream src="/live-ticket/">: the page's one connection to the portal's events.

   Dispatches on <body>:  live:workload, live:workload:<id> (detail: {workload, kind, team, phase, reason}) and
   live:poll when the page should ask for itself: events may have been missed, or there is no connection.
   live:log when the log that the page follows (`data-live-log`: its workload) may have grown: it is asked for from its cursor on.
   Use: hx-trigger="live:workload from:body throttle:1s, live:poll from:body". Without this file pages still work.
   The attribute `state` is connecting, live or off. */
"use strict";
(() => {
  const POLL_MS = 15000;
  const WAIT_MIN_MS = 1000;
  const WAIT_MAX_MS = 30000;

  const LOG_MS = 200;
  const LOG_POLL_MS = 2000;

  const followed = () => document.querySelector("[data-live-log]")?.dataset.liveLog ?? "";
  const tell = (name, detail) => document.body.dispatchEvent(new CustomEvent(name, { detail, bubbles: true }));

  class LiveStream extends HTMLElement {
    #source = null;
    #retry = 0;
    #wait = WAIT_MIN_MS;
    #lastId = "";
    #opening = 0;
    #ended = null;
    #log = "";
    #grew = 0;

    connectedCallback() {
      // A page that is swapped in parts must not end with two connections.
      if (document.querySelector("live-stream") !== this) return;
      this.#ended = new AbortController();
      const { signal } = this.#ended;
      document.addEventListener("visibilitychange", () => (document.hidden ? this.#close() : this.#resume()), { signal });
      window.addEventListener("pagehide", () => this.#close(), { signal });
      window.addEventListener("pageshow", (event) => event.persisted && this.#resume(), { signal });
      const poll = setInterval(() => this.getAttribute("state") !== "live" && !document.hidden && tell("live:poll"), POLL_MS);
      const lines = setInterval(() => this.getAttribute("state") !== "live" && !document.hidden && this.#logGrew(), LOG_POLL_MS);
      signal.addEventListener("abort", () => [poll, lines].forEach(clearInterval));
      // The log may come with a part of the page; the connection is then opened anew, where it was, and tells of it too.
      document.body.addEventListener("htmx:load", () => followed() && followed() !== this.#log && !document.hidden && this.#open(), { signal });
      if (!document.hidden) this.#open();
    }

    disconnectedCallback() {
      this.#ended?.abort();
      this.#ended = null;
      this.#close();
    }

    #resume() {
      if (this.#source || !this.#ended) return;
      this.#wait = WAIT_MIN_MS;
      tell("live:poll");
      this.#open();
    }

    async #open() {
      this.#close();
      const mine = ++this.#opening;
      this.#log = followed();
      this.setAttribute("state", "connecting");
      try {
        const answer = await fetch(this.getAttribute("src") || "/live-ticket/", { headers: { Accept: "application/json" } });
        if (mine !== this.#opening) return;
        // Signed out: nothing to come back to before the page is loaded again.
        if (answer.status === 401 || answer.status === 403) return this.#close();
        if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
        const { url, ticket } = await answer.json();
        if (mine !== this.#opening) return;
        const log = this.#log ? { log: this.#log } : {};
        this.#listen(`${url}?${new URLSearchParams({ ticket, last_event_id: this.#lastId, ...log })}`);
      } catch {
        if (mine === this.#opening) this.#later();
      }
    }

    #listen(url) {
      const source = new EventSource(url);
      this.#source = source;
      source.addEventListener("open", () => {
        this.#wait = WAIT_MIN_MS;
        this.setAttribute("state", "live");
        // Nobody told meanwhile.
        this.#logGrew();
      });
      source.addEventListener("log", () => this.#logGrew());
      // The browser's own reconnection would use the ticket again, which is good for a minute only.
      source.addEventListener("error", () => this.#source === source && this.#later());
      source.addEventListener("resync", (event) => {
        this.#lastId = event.lastEventId;
        tell("live:poll");
      });
      source.addEventListener("workload", (event) => {
        this.#lastId = event.lastEventId;
        const detail = JSON.parse(event.data);
        tell("live:workload", detail);
        tell(`live:workload:${detail.workload}`, detail);
      });
    }

    #logGrew() {
      if (this.#grew || !followed()) return;
      this.#grew = setTimeout(() => {
        this.#grew = 0;
        // An answer that is under way may be from before: it is asked again once that is there.
        if (document.querySelector("[data-live-log].htmx-request")) this.#logGrew();
        else tell("live:log");
      }, LOG_MS);
    }

    #later() {
      this.#close();
      this.#retry = setTimeout(() => this.#open(), this.#wait * (0.5 + Math.random() / 2));
      this.#wait = Math.min(this.#wait * 2, WAIT_MAX_MS);
    }

    #close() {
      this.#opening++;
      clearTimeout(this.#retry);
      this.#source?.close();
      this.#source = null;
      this.setAttribute("state", "off");
    }
  }

  customElements.define("live-stream", LiveStream);
})();
