// The admin's page: a place in line is moved by its priority; an agent is drained, or takes sessions again.
import { Refused, call, say, trouble } from "./api.js";
import { refresh } from "./live.js";

const dialog = document.getElementById("bk-drain");
const $ = (name) => document.getElementById(`bk-drain-${name}`);
let agent = "";

async function move(form) {
  const { name, priority: session } = form.dataset, { priority } = form.elements;
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

function ask({ agent: name, left, last }) {
  agent = name;
  $("title").textContent = `Drain ${name}?`;
  $("there").textContent = { 0: "Nothing runs there now.", 1: "1 session is there. It goes on until it ends." }[left] ?? `${left} sessions are there. They go on until they end.`;
  $("then").textContent = last
    ? `No other agent of ${last} takes sessions: whoever wants one there waits until you let sessions on it again.`
    : "From now on no session starts there, until you let sessions on it again. Those that wait start elsewhere, or go on waiting.";
  $("trouble").hidden = true;
  dialog.showModal();
}

const set = (name, schedulable) => call("PATCH", `api/agents/${encodeURIComponent(name)}`, { schedulable });

async function drain() {
  $("go").disabled = true;
  try {
    await set(agent, false);
    dialog.close();
    say(`${agent} takes no sessions from now on.`);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    $("trouble").textContent = error.message;
    $("trouble").hidden = false;
  } finally {
    $("go").disabled = false;
  }
  refresh();
}

async function takeAgain(name) {
  try {
    await set(name, true);
    trouble("");
    say(`${name} takes sessions again.`);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    trouble(`${name}: ${error.message}`);
  }
  refresh();
}

/** Begins, where there are agents that one may drain. */
export function drains() {
  if (!dialog) return;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-agent]");
    if (!button) return;
    if ("drained" in button.dataset) takeAgain(button.dataset.agent);
    else ask(button.dataset);
  });
  $("go").addEventListener("click", drain);
}
