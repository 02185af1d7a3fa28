// Keeps the parts of a page up to date: asks the server for a part again when it says that something
// changed, or every few seconds where its events do not come through.
import { Refused, events, page, part, trouble } from "./api.js";
import { tell } from "./times.js";

const GATHER = 150; // ms in which changes are gathered
const SPREAD = 350; // ms over which the tabs that hear of the same change ask
const POLL = 7000; // ms between two looks without events
const HIDDEN_POLL = 30000; // ms between two looks of a tab that nobody sees
const BLINK = 2000; // ms without a connection after which that is said: the server ends events now and then
const ANEW = 500; // ms, at most, until events that ended are asked for again
const AGAIN = 60000; // ms until events are tried again
const SHOWN = { live: "Live", polling: "Looks every few seconds", away: "Not connected, trying again" };

let away = 0, soon = 0, busy = false, dirty = false, polling = 0, later = 0, source = null, told = "";
let takeIn = null, signedOut = "";
const taken = new EventTarget();

/** Calls `work` with each part that was brought up to date. */
export const onRefresh = (work) => taken.addEventListener("part", (event) => work(event.detail));

/** Asks for all parts again, soon. */
export function refresh() {
  clearTimeout(soon);
  soon = setTimeout(update, GATHER + SPREAD * Math.random());
}

async function update() {
  if (busy) {
    dirty = true;
    return;
  }
  busy = true;
  try {
    const answers = await Promise.all([...document.querySelectorAll("[data-part]")].map(renew));
    if (answers.every(Boolean)) tellTrouble("");
    if (answers.some(Boolean)) back();
  } finally {
    busy = false;
  }
  if (dirty) {
    dirty = false;
    refresh();
  }
}

/** Brings a part up to date; whether that went well. */
async function renew(node) {
  const { part: name, from } = node.dataset;
  try {
    const html = await part(name, from || location.href);
    // Meanwhile it may have become the place of something else, or of nothing.
    if (node.dataset.part === name && node.dataset.from === from) put(node, html);
    return true;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401 || error.status === 403) tellTrouble(signedOut, location.href);
    else if (error.status === 404) tellTrouble("It is not there any more.");
    else lost();
    return false;
  }
}

/** Says what is wrong here, and takes back only what was said here. */
function tellTrouble(text, href = "") {
  if (text === told) return;
  told = text;
  trouble(text, href);
}

function put(node, html) {
  takeIn(node, html);
  tell(node);
  taken.dispatchEvent(new CustomEvent("part", { detail: node }));
}

/** There is no connection; that is told where it stays so. */
function lost() {
  away ||= setTimeout(() => show("away"), BLINK);
}

function back() {
  if (polling) show("polling");
  else if (source?.readyState === EventSource.OPEN) show("live");
}

function show(state) {
  clearTimeout(away);
  away = 0;
  const where = document.getElementById("bk-live");
  if (!where || where.dataset.state === state) return;
  where.dataset.state = state;
  where.textContent = SHOWN[state];
}

function poll(interval) {
  clearInterval(polling);
  polling = interval ? setInterval(refresh, interval) : 0;
}

function follow() {
  clearTimeout(later);
  source?.close();
  const mine = (source = events(page.dataset.events));
  let open = false;
  mine.addEventListener("open", () => {
    open = true;
    poll(0);
    show("live");
    refresh(); // whatever happened while nobody listened
  });
  mine.addEventListener("session", refresh);
  mine.addEventListener("agent", refresh);
  mine.addEventListener("error", () => {
    if (mine !== source) return;
    lost();
    if (open) {
      mine.close();
      later = setTimeout(follow, ANEW * Math.random());
      return;
    }
    if (!polling) poll(POLL);
    if (mine.readyState === EventSource.CLOSED) later = setTimeout(follow, AGAIN);
  });
}

// A browser has six connections to a Hub, for all of its tabs together: one that nobody looks at
// leaves its own to the others, and looks by itself now and then.
function leave() {
  clearTimeout(later);
  clearTimeout(away);
  away = 0;
  source?.close();
  source = null;
  poll(HIDDEN_POLL);
}

/** Begins, where the page says whose changes it follows. `how(part, html)` takes in what a part is now;
 * `words` are for who is signed out meanwhile. */
export function listen(how, words) {
  if (page.dataset.events === undefined) return;
  takeIn = how;
  signedOut = words;
  follow();
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") follow();
    else leave();
  });
}
