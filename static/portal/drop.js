/* <manifest-drop>: a manifest that is dropped anywhere on the page, or pasted outside of a field, is sent to the page that
   reads it. Without this file that page takes it by hand. */
"use strict";
(() => {
  const BYTES_MAX = 128 * 1024;
  const MANIFEST = /^\s*(?:---\s*\n)?\s*(?:apiVersion|kind)\s*:|^\s*\{\s*"(?:apiVersion|kind|metadata|spec)"/;

  customElements.define(
    "manifest-drop",
    class extends HTMLElement {
      connectedCallback() {
        this.depth = 0;
        const brings = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
        document.addEventListener("dragenter", (event) => brings(event) && this.shown(++this.depth));
        document.addEventListener("dragleave", (event) => brings(event) && this.shown(--this.depth));
        // Files dropped on the input for files are meant for it.
        const own = (event) => event.target.matches?.("input[type=file]");
        document.addEventListener("dragover", (event) => brings(event) && !own(event) && event.preventDefault());
        document.addEventListener("drop", (event) => {
          this.shown((this.depth = 0));
          if (!brings(event) || own(event)) return;
          event.preventDefault();
          this.read(event.dataTransfer.files);
        });
        document.addEventListener("paste", (event) => {
          const text = event.clipboardData?.getData("text/plain") ?? "";
          if (event.target.closest?.("input, textarea, select") || !MANIFEST.test(text)) return;
          event.preventDefault();
          this.send(text);
        });
      }

      shown(depth) {
        this.hidden = depth <= 0;
      }

      async read(files) {
        if (files.length !== 1) return this.refuse("Drop one file: a Job or a PyTorchJob.");
        if (files[0].size > BYTES_MAX) return this.refuse(`A manifest has at most ${BYTES_MAX / 1024} KiB.`);
        this.send(await files[0].text());
      }

      refuse(why) {
        const said = this.querySelector("[role=alert]");
        said.textContent = why;
        said.hidden = this.hidden = false;
        this.querySelector(".drop-here").hidden = true;
      }

      send(text) {
        const field = document.getElementById("id_manifest");
        // On the page that reads it what was dropped stands in its field, and one goes on with its button.
        if (field) {
          field.value = text;
          field.focus();
          return;
        }
        const form = this.querySelector("form");
        form.elements.namedItem("manifest").value = text;
        form.submit();
      }
    },
  );
})();
