/* The admin site's theme (django-unfold) as the content security policy wants it: no eval, and nothing inline.

   Alpine's CSP build stands in for the theme's own Alpine (static/unfold/js/alpine): it reads expressions without eval, but knows
   no globals, no statements and no functions in them. Here the theme's own functions become data, and the few expressions that it
   could not read are said anew before it reads the page. An expression that an update of the theme adds shows as an error on
   the console, which tests/web/test_admin_browser.py looks for. */

// This script comes after htmx and before htmx looks at the page: its indicator style would be an inline one.
htmx.config.allowEval = false;
htmx.config.includeIndicatorStyles = false;

/* What the theme says of the whole page on its body. */
function adminPage(firstTab) {
  const keptOpen = localStorage.getItem("sidebarDesktopOpen");
  return {
    activeTab: getCurrentTab() || firstTab,
    sidebarMobileOpen: false,
    sidebarDesktopOpen: keptOpen === null || keptOpen === "1",
    init() {
      this.$watch("sidebarDesktopOpen", (open) => localStorage.setItem("sidebarDesktopOpen", open ? "1" : "0"));
    },
    /* Where the form goes: back to the tab that is open. */
    get formAction() {
      const tab = this.activeTab && this.activeTab !== "general" ? `#${this.activeTab}` : "";
      return location.pathname + location.search + tab;
    },
  };
}

/* The theme's attributes by what is wrong with them, and what is right. Tabs are named by slugs, so that a name needs no quoting. */
const SAID_ANEW = [
  ["body", "x-data", (old) => `adminPage('${/activeTab: '([\w-]*)'/.exec(old)?.[1] ?? ""}')`],
  ["body", "x-init", () => null],
  ["[x-on\\:click^='sidebarDesktopOpen = ']", "x-on:click", () => "sidebarDesktopOpen = !sidebarDesktopOpen"],
  ["form[x-bind\\:action^='activeTab ']", "x-bind:action", () => "formAction"],
  ["#changelist-actions", "x-bind:style", () => "{width: changeListWidth + 'px'}"],
];

/* Fields that one types into to choose are made by a script of Django's, and have no name for who does not see the label. */
function nameTypedChoices() {
  for (const select of document.querySelectorAll("select.admin-autocomplete[id]")) {
    const label = document.querySelector(`label[for="${CSS.escape(select.id)}"]`);
    if (!label) continue;
    label.id ||= `${select.id}-label`;
    for (const part of select.parentElement.querySelectorAll("[role=combobox], [role=textbox]")) {
      part.setAttribute("aria-labelledby", `${label.id} ${part.querySelector("[role=textbox]")?.id ?? part.id}`.trim());
    }
  }
}

// jQuery calls in the order in which it was asked to, and Django's script asked first.
addEventListener("DOMContentLoaded", () => window.django?.jQuery?.(nameTypedChoices));
document.addEventListener("alpine:init", () => {
  for (const make of [adminPage, theme, searchForm]) Alpine.data(make.name, make);
  for (const [selector, name, anew] of SAID_ANEW) {
    for (const each of document.querySelectorAll(selector)) {
      const value = anew(each.getAttribute(name) ?? "");
      if (value === null) each.removeAttribute(name);
      else each.setAttribute(name, value);
    }
  }
});
