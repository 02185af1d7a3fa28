// The admin's page: a place in line is moved by its priority.
import { Refused, call, say, trouble } from "./api.js";
import { refresh } from "./live.js";

async function move(form) {
  const { session, name } = form.dataset, priority = form.elements.priority;
  try {
    await call("PATCH", `api/sessions/${session}`, { priority: Number(priority.value) });
    priority.defaultValue = priority.value; // it is the server's now
    trouble("");
    say(`${name} has priority ${priority.value} now.`);
    priority.blur();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    trouble(`${name}: ${error.message}`);
  }
  refresh();
}

/** Begins, where there is a line to be ordered. */
export function places() {
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("[data-priority]");
    if (!form) return;
    event.preventDefault();
    move(form);
  });
}
