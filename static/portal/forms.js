/* Folded parts of a form: what leads to an input opens the part that it stands in, and so does an error in it. A choice
   that filters a page is asked for at once. */
"use strict";
(() => {
  const unfold = (node) => {
    for (let part = node?.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  };

  const lead = (hash) => {
    const target = hash.length > 1 ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
    if (!target) return;
    unfold(target);
    target.scrollIntoView({ block: "nearest" });
    if (target.matches("input, select, textarea")) target.focus();
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.(".missing a[href^='#'], .summary a[href^='#']");
    // The browser goes there itself; only what is folded has no place that it could go to.
    if (link) lead(link.hash);
  });
  window.addEventListener("hashchange", () => lead(location.hash));

  document.addEventListener("change", ({ target }) => {
    if (target.matches?.("form[data-filters] select")) target.form.requestSubmit();
  });

  // The words of a part come anew with every answer of the preview, and say whether something in it is wrong.
  document.addEventListener("htmx:oobAfterSwap", ({ detail }) => {
    const said = detail.target?.id ? document.getElementById(detail.target.id) : null;
    if (said?.matches(".fold-says[data-wrong]")) unfold(said);
  });

  lead(location.hash);
})();
