// One session: rename in place, copy, and what is asked for late because it takes its time.
import { Refused, call, part, say } from "./api.js";
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

async function save(box) {
  const input = box.querySelector("input"), said = box.querySelector("[role=alert]");
  try {
    const etag = { "If-Match": `"${box.dataset.etag}"` };
    const { name } = await call("PATCH", `api/sessions/${box.dataset.rename}`, { name: input.value.trim() }, etag);
    box.querySelector("h1").textContent = name;
    rename(box, false);
    say(`It is named ${name} now.`);
    refresh();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    said.textContent = error.message;
    input.setAttribute("aria-invalid", "true");
    input.focus();
    if (error.status === 412) refresh();
  }
}

async function late(node, from) {
  try {
    node.innerHTML = await part(node.dataset.late, from);
    tell(node);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    node.textContent = ""; // the rest of the page says all that it did before
  }
}

/** Asks for what comes late in a part of a page. */
export function fetchLate(root = document) {
  for (const node of root.querySelectorAll("[data-late]")) {
    late(node, node.closest("[data-from]")?.dataset.from || location.href);
  }
}

/** Begins, wherever a session is shown. */
export function session() {
  document.addEventListener("click", async (event) => {
    const box = event.target.closest("[data-rename]");
    if (box && event.target.closest("[data-rename-open]")) rename(box, true);
    if (box && event.target.closest("[data-rename-close]")) rename(box, false);
    const copied = event.target.closest("[data-copy]");
    if (copied) {
      await navigator.clipboard.writeText(copied.dataset.copy);
      say("Copied.");
    }
  });
  document.addEventListener("submit", (event) => {
    const box = event.target.closest("[data-rename]");
    if (!box) return;
    event.preventDefault();
    save(box);
  });
  document.addEventListener("keydown", (event) => {
    const box = event.target.closest?.("[data-rename] form");
    if (box && event.key === "Escape") {
      event.stopPropagation();
      rename(box.closest("[data-rename]"), false);
    }
  });
  fetchLate();
  onRefresh(fetchLate);
}
