// Text into the clipboard: by the browser's own way, or, on plain http, by a selection that is copied.
"use strict";
const Clipboard52 = (() => {
  const MOST = 1_000_000; // characters of base64 that a program may send

  function bySelection(text) {
    const before = document.activeElement;
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "apart";
    area.setAttribute("aria-hidden", "true");
    (document.querySelector("dialog[open]") || document.body).append(area);
    area.select();
    let done = false;
    try {
      done = document.execCommand("copy");
    } catch {
      // some browsers throw where they don't let
    }
    area.remove();
    before?.focus({ preventScroll: true });
    return done;
  }

  /** Copies; false where the browser wants a click first. */
  async function copy(text) {
    if (navigator.clipboard?.writeText) {
      try {
        await navigator.clipboard.writeText(text);
        return true;
      } catch {
        // not in focus, or nobody clicked: the other way may still be open
      }
    }
    return bySelection(text);
  }

  /** The text of an OSC 52 that writes, null of any other: a program can't read the clipboard. */
  function textOf(data) {
    const [kind, coded] = [data.slice(0, data.indexOf(";")), data.slice(data.indexOf(";") + 1)];
    if (!/^[cpsq0-7]*$/.test(kind) || !coded || coded === "?" || coded.length > MOST) return null;
    try {
      const bytes = Uint8Array.from(atob(coded), (each) => each.charCodeAt(0));
      return new TextDecoder().decode(bytes);
    } catch {
      return null;
    }
  }

  return { copy, textOf };
})();
