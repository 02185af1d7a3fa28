// Keeps the parts of a page up to date: asks the server for a part again when it says that something
// changed, or every few seconds where its events do not come through.
import { Refused, events, page, part, trouble } from "./api.js";
import { tell } from "./times.js";

const GATHER = 150; // ms in which changes are gathered
const POLL = 7000; // ms between two looks without events
const AGAIN = 60000; // ms until events are tried again
const SHOWN = { live: "Live", polling: "Looks every few seconds", away: "Not connected, trying again" };
const STAYS = [["checked", "input"], ["open", "details"], ["class", ".show"]];

let soon = 0, busy = false, dirty = false, polling = 0;
const taken = new EventTarget();

/** Calls `work` with each part that was brought up to date. */
export const onRefresh = (work) => taken.addEventListener("part", (event) => work(event.detail));

/** Asks for all parts again, soon. */
export function refresh() {
  clearTimeout(soon);
  soon = setTimeout(update, GATHER);
}

async function update() {
  if (busy) {
    dirty = true;
    return;
  }
  busy = true;
  try {
    for (const node of document.querySelectorAll("[data-part]")) {
      put(node, await part(node.dataset.part, node.dataset.from || location.href));
    }
    trouble("");
    if (polling) show("polling");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401 || error.status === 403) trouble("You are signed out, so this page does not change any more.", location.href);
    else show("away");
  } finally {
    busy = false;
  }
  if (dirty) {
    dirty = false;
    refresh();
  }
}

function put(node, html) {
  Idiomorph.morph(node, html, {
    morphStyle: "innerHTML",
    callbacks: {
      beforeNodeMorphed: (old) => !old.dataset || !("still" in old.dataset),
      // What a reader has ticked or opened stays so.
      beforeAttributeUpdated: (name, of) => !STAYS.some(([attribute, which]) => name === attribute && of.matches(which)),
    },
    ignoreActiveValue: true,
  });
  tell(node);
  taken.dispatchEvent(new CustomEvent("part", { detail: node }));
}

function show(state) {
  const where = document.getElementById("bk-live");
  if (!where || where.dataset.state === state) return;
  where.dataset.state = state;
  where.textContent = SHOWN[state];
}

function poll(on) {
  clearInterval(polling);
  polling = on ? setInterval(refresh, POLL) : 0;
}

function follow() {
  const source = events(page.dataset.events);
  source.addEventListener("open", () => {
    poll(false);
    show("live");
    refresh(); // whatever happened while nobody listened
  });
  source.addEventListener("session", (event) => {
    taken.dispatchEvent(new CustomEvent("session", { detail: JSON.parse(event.data) }));
    refresh();
  });
  source.addEventListener("error", () => {
    show("away");
    if (!polling) poll(true);
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, AGAIN);
  });
}

/** Calls `work` with each session that changed, as the API tells it. */
export const onSession = (work) => taken.addEventListener("session", (event) => work(event.detail));

/** Begins, where the page says whose changes it follows. */
export function listen() {
  if (page.dataset.events === undefined) return;
  follow();
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") refresh();
  });
}
