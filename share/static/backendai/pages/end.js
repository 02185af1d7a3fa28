// The dialog that cancels or ends sessions. Without it, the links lead to a page that asks the same.
import { Refused, call, say } from "./api.js";
import { refresh } from "./live.js";

const dialog = document.getElementById("bk-end");
const $ = (name) => document.getElementById(`bk-end${name}`);
let sessions = [];

const one = (link) => ({ id: link.dataset.end, name: link.dataset.name, waits: "waits" in link.dataset });

/** Asks whether these sessions are to end; each has `id`, `name`, and `waits` where it is in line. */
export function ask(chosen) {
  sessions = chosen;
  const waiting = chosen.every((session) => session.waits), single = chosen.length === 1;
  const word = waiting ? "Cancel" : "Terminate";
  $("-title").textContent = `${word} ${single ? chosen[0].name : `${chosen.length} sessions`}?`;
  $("-loss").textContent = waiting
    ? `${single ? "It loses its" : "They lose their"} place in line. Nothing ${single ? "of it" : "of them"} has started yet.`
    : "Files outside folders are deleted. Folders stay.";
  $("-go").textContent = single ? `${word} session` : `${word} ${chosen.length} sessions`;
  $("-names").replaceChildren(...chosen.map(({ name }) => Object.assign(document.createElement("li"), { textContent: name })));
  $("-names").hidden = single;
  $("-force").checked = false;
  $("-force-row").hidden = waiting;
  $("-trouble").hidden = true;
  dialog.showModal();
}

async function end() {
  const force = $("-force").checked ? "?force=1" : "";
  $("-go").disabled = true;
  const answers = await Promise.allSettled(sessions.map(({ id }) => call("DELETE", `api/sessions/${id}${force}`)));
  $("-go").disabled = false;
  const failed = answers.flatMap(({ reason }, number) => (reason ? [{ session: sessions[number], reason }] : []));
  for (const { reason } of failed) if (!(reason instanceof Refused)) throw reason;
  refresh();
  if (!failed.length) {
    dialog.close();
    say(sessions.length === 1 ? `${sessions[0].name} is being ended.` : `${sessions.length} sessions are being ended.`);
    return;
  }
  sessions = failed.map(({ session }) => session);
  $("-trouble").textContent = failed.map(({ session, reason }) => `${session.name}: ${reason.message}`).join(" ");
  $("-trouble").hidden = false;
}

/** Has the links that end a session ask here. */
export function endings() {
  if (!dialog) return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-end]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    ask([one(link)]);
  });
  $("-go").addEventListener("click", end);
}
