// The dialog that cancels or ends sessions. Without it, the links lead to a page that asks the same.
import { Refused, call, say } from "./api.js";
import { refresh } from "./live.js";

const dialog = document.getElementById("bk-end");
const $ = (name) => document.getElementById(`bk-end${name}`);
let sessions = [];

const one = ({ dataset: { end: id, name, waits, rests = "" } }) => ({ id, name, waits: waits !== undefined, rests });

/** What is lost with sessions of which something is kept: of one, or of those among many. */
const KEPT = {
  again: ["It rests again, and nothing of it is lost.", "What was just resumed rests again."],
  over: [
    "What is kept of it, its home and what was installed in it, is deleted. Folders stay.",
    "Of what is hibernated, home and what was installed are deleted.",
  ],
};

function losses(chosen, waiting) {
  const single = chosen.length === 1, plain = chosen.filter(({ rests }) => !rests).length;
  const kept = Object.keys(KEPT).filter((rests) => chosen.some((session) => session.rests === rests));
  const told = kept.map((rests) => KEPT[rests][single ? 0 : 1]);
  if (plain && waiting)
    told.unshift(`${single ? "It loses its" : "They lose their"} place in line. Nothing ${single ? "of it" : "of them"} has started yet.`);
  else if (plain) told.unshift("Files outside folders are deleted. Folders stay.");
  return told.join(" ");
}

function show() {
  const chosen = sessions;
  const waiting = chosen.every((session) => session.waits), single = chosen.length === 1;
  const word = waiting ? "Cancel" : "Terminate";
  $("-title").textContent = `${word} ${single ? chosen[0].name : `${chosen.length} sessions`}?`;
  $("-loss").textContent = losses(chosen, waiting);
  $("-go").textContent = single ? `${word} session` : `${word} ${chosen.length} sessions`;
  $("-names").replaceChildren(...chosen.map(({ name }) => Object.assign(document.createElement("li"), { textContent: name })));
  $("-names").hidden = single;
  // What waits or rests has nothing that runs.
  $("-force-row").hidden = chosen.every((session) => session.waits || session.rests);
}

/** Asks whether the sessions of these links are to end. */
export function ask(links) {
  sessions = links.map(one);
  $("-force").checked = false;
  show();
  $("-trouble").hidden = true;
  dialog.showModal();
}

/** How a session is ended: what is to rest again, as it says here, is not to end if it runs by then. */
function query({ rests }, force) {
  if (rests === "again") return "?rests=again";
  return force ? "?force=1" : "";
}

async function end() {
  const force = $("-force").checked;
  $("-go").disabled = true;
  const answers = await Promise.allSettled(sessions.map((session) => call("DELETE", `api/sessions/${session.id}${query(session, force)}`)));
  $("-go").disabled = false;
  const failed = answers.flatMap(({ reason }, number) => (reason ? [{ session: sessions[number], reason }] : []));
  for (const { reason } of failed) if (!(reason instanceof Refused)) throw reason;
  refresh();
  if (!failed.length) {
    dialog.close();
    say(sessions.length === 1 ? `${sessions[0].name} is being ended.` : `${sessions.length} sessions are being ended.`);
    return;
  }
  const runs = ({ errors }) => errors.some(({ code }) => code === "runs_by_now");
  sessions = failed.map(({ session, reason }) => (runs(reason) ? { ...session, waits: false, rests: "" } : session));
  show();
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
    ask([link]);
  });
  $("-go").addEventListener("click", end);
}
