/* Small comforts. Every page works without this file. */
"use strict";
(() => {
  const FILLED_MS = 1600;

  // Copy buttons are hidden until there is a script that can copy.
  const wake = (root) => {
    for (const button of root.querySelectorAll("button[data-copy]")) {
      button.hidden = !navigator.clipboard;
    }
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    await navigator.clipboard.writeText(source.value ?? source.textContent);
    const label = button.querySelector("span");
    const before = label.textContent;
    label.textContent = "Copied";
    setTimeout(() => (label.textContent = before), 1500);
  });

  // Of two tabs that are pressed one after the other the last is shown, whichever answer comes last.
  let tabAsked = null;
  document.addEventListener("htmx:beforeRequest", ({ detail }) => {
    if (detail.target?.id === "tabs") tabAsked = detail.xhr;
  });
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.target?.id === "tabs" && detail.xhr !== tabAsked) detail.shouldSwap = false;
  });

  // Back pressed twice asks for two pages. The last one is shown, even if the first one's answer comes later.
  let restoring = null;
  document.addEventListener("htmx:historyCacheMiss", ({ detail }) => {
    restoring?.abort();
    restoring = detail.xhr;
  });

  // A second click on the same form would be answered with the same run; it need not be sent at all.
  document.addEventListener("submit", (event) => {
    const { form } = { form: event.target };
    if (event.defaultPrevented || form.hasAttribute("hx-post")) return;
    const button = event.submitter;
    if (!button || !button.dataset.busy) return;
    setTimeout(() => {
      button.disabled = true;
      button.textContent = button.dataset.busy;
    });
  });
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());

  document.addEventListener("htmx:afterSwap", (event) => event.target.id !== "log-more" && wakeButtons());
  const wakeButtons = () => {
    for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = !navigator.clipboard;
  };

  // What a reader opened stays open when its part of the page comes anew.
  let opened = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    opened = [...event.detail.target.querySelectorAll("details[id][open]")].map((each) => each.id);
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const id of opened) {
      const details = document.getElementById(id);
      if (details) details.open = true;
    }
  });

  // What is filled in while its part of the page is on its way anew stays as it was filled in.
  const asked = new WeakMap();
  let meanwhile = new Map();
  const filledIn = (part) => {
    const found = new Map();
    for (const each of part.querySelectorAll("input[name]:not([type=hidden]), select[name], textarea[name]")) {
      const one = each.type === "radio" || each.type === "checkbox";
      found.set(one ? `${each.name}=${each.value}` : each.name, one ? each.checked : each.value);
    }
    return found;
  };
  document.addEventListener("htmx:beforeRequest", ({ detail }) => asked.set(detail.target, filledIn(detail.target)));
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const before = asked.get(detail.target);
    meanwhile = before ? new Map([...filledIn(detail.target)].filter(([key, value]) => before.get(key) !== value)) : new Map();
  });
  document.addEventListener("htmx:afterSwap", ({ detail }) => {
    // Back swaps in a whole page, and names no target.
    const part = detail.target && document.getElementById(detail.target.id);
    if (!part || !meanwhile.size) return;
    for (const each of part.querySelectorAll("input[name]:not([type=hidden]), select[name], textarea[name]")) {
      // Of radio buttons the chosen one alone counts: where it is offered no more, the new part's own choice stands.
      if (meanwhile.get(`${each.name}=${each.value}`) === true) each.checked = true;
      else if (each.type === "checkbox" && meanwhile.has(`${each.name}=${each.value}`)) each.checked = false;
      else if (each.type !== "radio" && each.type !== "checkbox" && meanwhile.has(each.name)) each.value = meanwhile.get(each.name);
    }
    meanwhile = new Map();
  });

  // A lever fills in fields of the form that it stands in. Without this it is sent with the form, and the server does it.
  const fill = (form, name, value) => {
    const control = form.elements.namedItem(name);
    if (!control) return;
    control.value = value;
    const input = control instanceof RadioNodeList ? [...control].find((each) => each.checked) : control;
    if (!input) return;
    const field = input.closest("label.flavor, .field");
    field.classList.add("just-filled");
    setTimeout(() => field.classList.remove("just-filled"), FILLED_MS);
    input.dispatchEvent(new Event("change", { bubbles: true }));
  };
  document.addEventListener("click", (event) => {
    const lever = event.target.closest("button[data-set]");
    if (!lever) return;
    event.preventDefault();
    // The lever goes away with the answer; the title above it stays.
    document.getElementById("preview-title").focus({ preventScroll: true });
    for (const [name, value] of new URLSearchParams(lever.dataset.set)) fill(lever.form, name, value);
  });

  // "No GPU" is none of them; another flavor brings back as many as there were.
  document.addEventListener("change", (event) => {
    const { name, type, value, form } = event.target;
    if (name !== "flavor" || type !== "radio") return;
    const gpus = form.elements.namedItem("gpus");
    if (!gpus || gpus.readOnly || (gpus.value === "0") === (value === "")) return;
    if (value === "") gpus.dataset.before = gpus.value;
    gpus.value = value === "" ? "0" : gpus.dataset.before || "1";
  });

  // The chosen flavor's price depends on the team, which the server knows: only menus close themselves here.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") document.querySelectorAll("details.menu[open]").forEach((menu) => (menu.open = false));
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });

  // Whoever is asked whether that is meant answers where the focus is, and comes back to the button that asked: the browser
  // remembers the button itself, which its part of the page has replaced meanwhile.
  document.addEventListener("toggle", (event) => {
    const asks = event.target;
    if (!asks.matches?.("[popover][role=dialog]")) return;
    if (event.newState === "open") asks.querySelector("input:not([type=hidden]), button")?.focus();
    else if (document.activeElement === document.body || asks.contains(document.activeElement)) {
      document.querySelector(`[popovertarget="${asks.id}"]`)?.focus();
    }
  }, true);

  // A cell of the quota grid shows that it differs from what stands; the server says the same on the next page.
  const mark = (input) => input.classList.toggle("changed", input.value.trim() !== input.dataset.was);
  document.addEventListener("input", (event) => event.target.matches?.("input[data-was]") && mark(event.target));
  // What the server finds wrong with it stands in the change set, which is swapped while the cell keeps the focus.
  document.addEventListener("htmx:afterSwap", () => {
    if (!document.getElementById("change-set")) return;
    for (const input of document.querySelectorAll(".grid input[data-was]")) {
      const wrong = document.getElementById(`wrong~${input.id}`);
      for (const [name, value] of [["aria-invalid", "true"], ["aria-describedby", wrong?.id]]) {
        if (wrong) input.setAttribute(name, value);
        else input.removeAttribute(name);
      }
    }
  });

  wake(document);
})();
