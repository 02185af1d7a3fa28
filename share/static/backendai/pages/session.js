// One session: rename in place, copy, and what is asked for late because it takes its time.
import { Refused, call, part, say, trouble } from "./api.js";
import { onRefresh, refresh } from "./live.js";
import { tell } from "./times.js";

function rename(box, open) {
  const form = box.querySelector("form");
  form.hidden = !open;
  // While somebody types the page changes around it only.
  if (open) box.dataset.still = "";
  else delete box.dataset.still;
  for (const node of [box.querySelector("h1"), box.querySelector("[data-rename-open]")]) node.hidden = open;
  if (open) {
    form.elements.name.value = box.querySelector("h1").textContent;
    form.elements.name.select();
  } else {
    box.querySelector("[role=alert]").textContent = "";
    box.querySelector("[data-rename-open]").focus();
  }
}

/** Gives the session its new name. What changed meanwhile and is not the name is in nobody's way. */
async function give(box, wanted) {
  const address = `api/sessions/${box.dataset.rename}`, known = box.querySelector("h1").textContent;
  for (;;) {
    try {
      return (await call("PATCH", address, { name: wanted }, { "If-Match": `"${box.dataset.etag}"` })).name;
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 412) throw error;
      const { name, etag } = await call("GET", address);
      box.dataset.etag = etag.replaceAll('"', "");
      if (name === known) continue;
      box.querySelector("h1").textContent = name;
      const message = `Somebody named it ${name} meanwhile. Save again to name it ${wanted}.`;
      throw new Refused(412, [{ field: "name", code: "changed", message }]);
    }
  }
}

async function save(box) {
  const input = box.querySelector("input"), said = box.querySelector("[role=alert]");
  try {
    const name = await give(box, input.value.trim());
    box.querySelector("h1").textContent = name;
    rename(box, false);
    say(`It is named ${name} now.`);
    refresh();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    said.textContent = error.message;
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }
}

const OLD = 60; // seconds after which what came late is asked for again in any case
const LOOK = 5000; // ms between two looks whether what changes by itself is that old

async function late(node, from) {
  // It is about what the rest of the page shows: while that stays as it is, so does this.
  const about = `${from} ${node.closest("[data-about]")?.dataset.about ?? ""}`;
  if (node.about === about && Date.now() - node.asked < (node.dataset.again ?? OLD) * 1000) return;
  Object.assign(node, { about, asked: Date.now() });
  try {
    const html = await part(node.dataset.late, from);
    if (node.contains(document.activeElement)) return; // somebody is in it
    if (node.html === html) return; // it would be read out again
    node.html = html;
    node.innerHTML = html;
    tell(node);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    node.about = "";
    node.textContent = ""; // the rest of the page says all that it did before
  }
}

/** Asks for what comes late in a part of a page. */
export function fetchLate(root = document, which = "[data-late]") {
  for (const node of root.querySelectorAll(which)) {
    late(node, node.dataset.lateFrom || node.closest("[data-from]")?.dataset.from || location.href);
  }
  drawLate(root);
}

/** Draws what sessions used, where that is shown; nobody else loads what it takes. */
async function drawLate(root = document) {
  if (root.querySelector("[data-charts]")) (await import("./charts.js")).draw(root);
}

async function copy(button) {
  const shown = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    say("Copied.");
  } catch {
    getSelection().selectAllChildren(shown); // without https, and where it is not allowed
    say("Selected. Copy it with your keyboard.");
  }
}

/** Has a session ended later; what shows when that is, is asked for again. */
async function keep(form) {
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    await call("POST", `api/sessions/${form.dataset.keep}/idle`, {});
    say("It is kept.");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    trouble(error.message);
  }
  button.disabled = false;
  for (const node of document.querySelectorAll("[data-late=idle], [data-late=warnings]")) node.about = "";
  document.activeElement?.blur();
  refresh();
  fetchLate();
}

/** Begins, wherever a session is shown. */
export function session() {
  setInterval(() => document.hidden || fetchLate(document, "[data-again]"), LOOK);
  document.addEventListener("click", async (event) => {
    const box = event.target.closest("[data-rename]");
    if (box && event.target.closest("[data-rename-open]")) rename(box, true);
    if (box && event.target.closest("[data-rename-close]")) rename(box, false);
    const copied = event.target.closest("[data-copy]");
    if (copied) {
      await copy(copied);
    }
  });
  document.addEventListener("submit", (event) => {
    const box = event.target.closest("[data-rename]"), kept = event.target.closest("[data-keep]");
    if (!box && !kept) return;
    event.preventDefault();
    if (kept) keep(kept);
    else save(box);
  });
  document.addEventListener("keydown", (event) => {
    const box = event.target.closest?.("[data-rename] form");
    if (box && event.key === "Escape") {
      event.stopImmediatePropagation(); // the panel around it stays open
      rename(box.closest("[data-rename]"), false);
    }
  }, { capture: true });
  fetchLate();
  onRefresh(fetchLate);
}
