/* Rows of fields in the admin site: one more, or one less. Without this script the last row is an empty one, to be filled in. */
"use strict";
customElements.define(
  "row-set",
  class extends HTMLElement {
    // The script runs before the page is read: what is inside comes later.
    connectedCallback() {
      this.addEventListener("click", this);
      if (document.readyState === "loading") addEventListener("DOMContentLoaded", () => this.ready());
      else this.ready();
    }

    get list() {
      return this.querySelector(".rows-list");
    }

    ready() {
      for (const button of this.querySelectorAll("button[hidden]")) button.hidden = false;
      const last = this.list.lastElementChild;
      const empty = [...last.querySelectorAll("[name]")].every((field) => field.value === "");
      if (empty && this.list.children.length > 1) last.remove();
    }

    handleEvent(event) {
      const button = event.target.closest("button");
      if (button?.matches("[data-add]")) this.add();
      else if (button?.matches("[data-remove]")) this.remove_(button.closest(".rows-row"));
    }

    add() {
      const numbers = [...this.list.querySelectorAll("[name]")].map((field) => Number(/-(\d+)-/.exec(field.name)?.[1] ?? 0));
      const number = Math.max(-1, ...numbers) + 1;
      const row = this.querySelector("template").content.firstElementChild.cloneNode(true);
      for (const each of row.querySelectorAll("*")) {
        for (const name of ["name", "id", "for"]) {
          if (each.hasAttribute(name)) each.setAttribute(name, each.getAttribute(name).replace("__row__", number));
        }
      }
      row.setAttribute("aria-label", `${this.dataset.one} ${this.list.children.length + 1}`);
      row.querySelector("[data-remove]").hidden = false;
      this.list.append(row);
      row.querySelector("input, select").focus();
    }

    remove_(row) {
      const next = row.nextElementSibling ?? row.previousElementSibling;
      row.remove();
      (next?.querySelector("[data-remove]") ?? this.querySelector("[data-add]")).focus();
    }
  },
);
