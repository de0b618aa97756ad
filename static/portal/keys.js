/* <portal-keys>: the palette (Ctrl or Cmd K), the list of keys (?) and what single keys do.

   It holds the two dialogs and, hidden, the links of `g h` and the like. With the attribute `modified-only` single keys do
   nothing (WCAG 2.2, 2.1.4). No key does anything while something is typed or a dialog is open. Rows are links with the
   class `name` in tables, and those of lists; what `n` begins has `data-key="n"`, else it is the main link of the
   page's head that says "New". Without this file the link of the palette leads to its page. */
"use strict";
(() => {
  const SEQUENCE_MS = 1200;
  const ROWS = "main tbody a.name, main .attention a.strong";
  const TYPED = "input, textarea, select, [contenteditable]:not([contenteditable=false])";

  const shown = (node) => node.getClientRects().length > 0;
  const first = (selector, root = document) => [...root.querySelectorAll(selector)].find(shown);
  const typing = (node) => node instanceof Element && node.closest(TYPED) && !["checkbox", "radio", "button", "submit"].includes(node.type);

  class PortalKeys extends HTMLElement {
    #ended = null;
    #begun = "";
    #timer = 0;
    #enter = false;

    connectedCallback() {
      this.palette = this.querySelector("#palette");
      this.help = this.querySelector("#keys-help");
      this.field = this.querySelector("#palette-search");
      this.#ended = new AbortController();
      const { signal } = this.#ended;
      document.addEventListener("keydown", (event) => this.#pressed(event), { signal });
      document.addEventListener("click", (event) => this.#clicked(event), { signal });
      document.addEventListener("submit", (event) => this.#filtered(event), { signal });
      this.palette.addEventListener("keydown", (event) => this.#walk(event), { signal });
      this.palette.addEventListener("close", () => this.#closed(), { signal });
      this.field.form.addEventListener("submit", (event) => this.#submitted(event), { signal });
      this.field.addEventListener("input", () => this.#here(), { signal });
      this.querySelector("#palette-found").addEventListener("htmx:afterSwap", () => this.#came(), { signal });
      this.#confirm();
    }

    disconnectedCallback() {
      this.#ended?.abort();
    }

    /* --- keys */

    #pressed(event) {
      if (event.defaultPrevented || event.isComposing) return;
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        if (this.palette.open) this.palette.close();
        else this.#open();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || this.hasAttribute("modified-only")) return;
      if (typing(event.target) || document.querySelector("dialog[open], :popover-open")) return;
      if (this.#acts(event.key)) event.preventDefault();
    }

    /* Who pressed Enter in a filter has typed all of it: j and k then go through what it found. */
    #filtered(event) {
      if (event.target.matches("form.filter") && typing(document.activeElement) && !this.hasAttribute("modified-only")) document.activeElement.blur();
    }

    /* Whether the key, after what was pressed just before, did something. */
    #acts(key) {
      const begun = this.#begun;
      this.#forget();
      if (begun) return this.#go(`${begun} ${key}`);
      switch (key) {
        case "g":
          this.#begun = key;
          this.#timer = setTimeout(() => this.#forget(), SEQUENCE_MS);
          return true;
        case "?":
          this.help.showModal();
          return true;
        case "/":
          return this.#filter();
        case "j":
          return this.#row(1);
        case "k":
          return this.#row(-1);
        case "n":
          return this.#press(first("main [data-key='n']") ?? this.#begins);
        case "[":
          return this.#tab(-1);
        case "]":
          return this.#tab(1);
        default:
          return false;
      }
    }

    get #begins() {
      const links = ["a.button-primary", "a.button"].flatMap((each) => [...document.querySelectorAll(`main .page-head ${each}`)]);
      return links.find((each) => each.textContent.trim().startsWith("New"));
    }

    #forget() {
      clearTimeout(this.#timer);
      this.#begun = "";
    }

    #go(keys) {
      return this.#press(this.querySelector(`[data-go="${CSS.escape(keys)}"]`));
    }

    #press(node) {
      node?.click();
      return Boolean(node);
    }

    #filter() {
      const field = first("main input[type=search], main [role=search] input:not([type=hidden])");
      if (!field) {
        this.#open();
        return true;
      }
      field.focus();
      field.select?.();
      return true;
    }

    #row(step) {
      const rows = [...document.querySelectorAll(ROWS)].filter(shown);
      if (!rows.length) return false;
      const at = rows.findIndex((each) => each.closest("tr, li").contains(document.activeElement));
      const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step));
      rows[next].focus({ focusVisible: true });
      rows[next].closest("tr, li").scrollIntoView({ block: "nearest" });
      return true;
    }

    #tab(step) {
      const tabs = [...document.querySelectorAll("main nav.tabs a")].filter(shown);
      const at = tabs.findIndex((each) => each.getAttribute("aria-current") === "page");
      return this.#press(tabs[at + step]);
    }

    /* --- the palette */

    #open() {
      if (this.help.open) this.help.close();
      document.querySelectorAll("details.menu[open]").forEach((menu) => (menu.open = false));
      this.palette.showModal();
      this.field.value = "";
      this.field.focus();
      this.#here();
      this.field.dispatchEvent(new CustomEvent("palette:open"));
    }

    #closed() {
      this.#enter = false;
      this.querySelector("#palette-found").replaceChildren();
    }

    /* What the buttons and links of the page's head do, as far as their words begin with what is typed. */
    #here() {
      const part = this.querySelector("#palette-here");
      const wanted = this.field.value.trim().toLowerCase();
      const found = [...document.querySelectorAll("main .page-head button, main .page-head a.button, main nav.tabs a")]
        .filter((each) => !each.disabled && each.textContent.trim().toLowerCase().startsWith(wanted));
      const rows = found.map((each) => {
        const [row, button] = [document.createElement("li"), document.createElement("button")];
        button.type = "button";
        button.textContent = each.textContent.trim();
        button.addEventListener("click", () => {
          this.palette.close();
          each.click();
        });
        row.append(button);
        return row;
      });
      part.querySelector("ul").replaceChildren(...rows);
      part.hidden = !rows.length;
      this.#enter = false;
    }

    get #entries() {
      return [...this.palette.querySelectorAll(".palette-list a, .palette-list button")].filter(shown);
    }

    #walk(event) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") {
        // A search field would empty itself first.
        event.preventDefault();
        this.palette.close();
      } else if (step) {
        event.preventDefault();
        const stops = [this.field, ...this.#entries];
        const at = stops.indexOf(document.activeElement);
        stops[(at + step + stops.length) % stops.length].focus();
      } else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey && event.key !== " " && document.activeElement !== this.field) {
        // Who goes on typing means the field, which then takes the key.
        this.field.focus();
      }
    }

    /* Enter opens the first, once what is typed has been looked for. */
    #submitted(event) {
      event.preventDefault();
      if (this.#answered()) this.#press(this.#entries[0]);
      else this.#enter = true;
    }

    #came() {
      if (!this.#enter || !this.#answered()) return;
      this.#enter = false;
      this.#press(this.#entries[0]);
    }

    #answered() {
      const said = this.querySelector("#palette-found [data-found]");
      return said?.dataset.found === this.field.value.trim().split(/\s+/).join(" ");
    }

    #clicked(event) {
      const link = event.target.closest?.("a[data-palette], button[data-keys-help]");
      if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
        event.preventDefault();
        if (link.matches("a")) this.#open();
        else this.help.showModal();
      } else if (event.target === this.palette || event.target === this.help) {
        // Beside a dialog is its backdrop.
        event.target.close();
      }
    }

    /* A link of the palette to a button of a page: the page asks whether that is meant. */
    #confirm() {
      const button = location.hash.startsWith("#do-") && document.getElementById(location.hash.slice(1));
      if (!button || button.disabled || !button.matches("[popovertarget]")) return;
      history.replaceState(history.state, "", location.pathname + location.search);
      button.click();
    }
  }

  customElements.define("portal-keys", PortalKeys);
})();
