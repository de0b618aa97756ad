/* The grid of quotas by keys: arrows go from field to field, Enter goes down, Escape puts back what stood there.

   Within a text the arrows to the left and right move in it, as they do everywhere, until they come to its end. */
"use strict";
(() => {
  const fields = (row) => [...row.querySelectorAll("input")];

  // The field above or below, in the same column of the table.
  const vertical = (field, step) => {
    const row = field.closest("tr");
    const place = fields(row).indexOf(field);
    let next = row;
    do {
      next = step > 0 ? next.nextElementSibling : next.previousElementSibling;
    } while (next && !fields(next).length);
    return next && fields(next)[place];
  };

  const beside = (field, step) => {
    const row = fields(field.closest("tr"));
    return row[row.indexOf(field) + step];
  };

  const target = (field, key) => {
    const all = field.selectionStart === 0 && field.selectionEnd === field.value.length;
    const [first, last] = [field.selectionEnd === 0, field.selectionStart === field.value.length];
    if (key === "ArrowUp") return vertical(field, -1);
    if (key === "ArrowDown" || key === "Enter") return vertical(field, 1);
    if (key === "ArrowLeft" && (all || first)) return beside(field, -1);
    if (key === "ArrowRight" && (all || last)) return beside(field, 1);
    return null;
  };

  document.addEventListener("keydown", (event) => {
    const field = event.target;
    if (!field.matches?.(".grid input") || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    if (event.key === "Escape" && field.value !== field.dataset.was) {
      event.preventDefault();
      field.value = field.dataset.was;
      field.dispatchEvent(new Event("change", { bubbles: true }));
      return field.select();
    }
    const next = target(field, event.key);
    // Enter at the last row does not send the form.
    if (next || event.key === "Enter") event.preventDefault();
    next?.focus();
    next?.select();
  });
})();
